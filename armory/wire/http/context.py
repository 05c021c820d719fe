"""The dependencies that the handlers of the HTTP edge share.

Owns: `EdgeContext`. Made once by the edge; handlers see this and never the edge itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from armory.wire.dispatch import Dispatcher
from armory.wire.http.admission import Admission
from armory.wire.http.body import BodyReader
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.http.open_streams import OpenStreams
from armory.wire.http.replicas import Replicas
from armory.wire.sessions.batches import Batches
from armory.wire.sessions.registry import Sessions
from armory.wire.sessions.turns import Shares


@dataclass(frozen=True, slots=True)
class EdgeContext:
    """The parts of one edge.

    Attributes:
        admission: lets requests in.
        dispatcher: answers decoded requests.
        sessions: those of legacy clients.
        streams: the open event streams.
        shares: of the event loop.
        keepalive: for answers that take long.
        replicas: the other replicas, if there are any.
        body_bytes: largest request body.
        bodies: reads those of messages.
        batches: what those of clients may take.
    """

    admission: Admission
    dispatcher: Dispatcher
    sessions: Sessions
    streams: OpenStreams
    shares: Shares
    keepalive: KeepaliveTimer
    replicas: Replicas | None
    body_bytes: int
    bodies: BodyReader
    batches: Batches
