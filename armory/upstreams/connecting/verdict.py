"""What an upstream was found to speak, and which failures tell something about that.

Owns: `Verdict`. Never opens a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.versions import Era
from armory.upstreams.session.context import Unintelligible
from armory.upstreams.session.handshake import Incompatible
from armory.upstreams.transports.http_failures import HttpFailure

NO_VERDICT = frozenset((401, 403, 407, 429, 502, 503, 504))
"""HTTP statuses that say nothing about what the upstream speaks."""
Transport = Literal["stdio", "streamable-http", "sse", "openapi", "skills"]


class NoHandshake(Exception):
    """The upstream is modern only: no client can have a session with a handshake."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an upstream was found to speak.

    Attributes:
        era: the newest that it speaks.
        transport: over which.
        handshake: whether it takes a handshake, too; None: a modern one that nobody tried yet.
    """

    era: Era
    transport: Transport
    handshake: bool | None = None


def refuses(error: UpstreamUnavailable) -> bool:
    """Whether an error means that a live upstream takes no handshake; a time-out counts as well."""
    if isinstance(error, HttpFailure):
        return error.status < 500 and error.status not in NO_VERDICT
    return isinstance(error, Incompatible | Unintelligible | UpstreamTimeout)
