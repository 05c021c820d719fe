"""One legacy client: its handshake, its streams, its calls in flight.

Owns: `Session` and its channel toward upstreams. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Raw

from armory.domain.principal import Principal
from armory.gateway.endpoint import Endpoint
from armory.gateway.results.channels import ExposedChannel
from armory.gateway.subscription import Subscription
from armory.protocol import jsonrpc
from armory.protocol.capabilities import session_answers
from armory.protocol.link import Answer, CancelReason, ClientChannel, Owner, Params
from armory.protocol.methods import LOGGED, loud_enough
from armory.protocol.rawjson import text_of
from armory.tasks import Tasks, stop
from armory.wire.eras.questions import is_unknown, may_ask, refusal
from armory.wire.sessions.asking import OpenQuestions
from armory.wire.sessions.running import ById, Running, ended
from armory.wire.streams import EventStream, Outlet

DEFAULT_LOG_LEVEL = "info"
"""Counts until the client sets a level: the specification leaves the choice to the server."""
KEPT_STREAMS = 32
KEPT_BYTES = 4 << 20
_END_S = 5.0
GENERAL = "0"


class Session:
    """One legacy client.

    Attributes:
        id: the `Mcp-Session-Id`.
        principal, endpoint: whose it is and where; as of the last request.
        person: as whose it is counted: who opened it.
        version: the negotiated revision.
        capabilities: the client's own.
        log_level: as set with `logging/setLevel`; `info` until then.
        revealed: tools that it searched for.
        general: what belongs to no request of its own (the GET stream).
        inflight: the calls in flight.
        questions: what upstreams ask it.
        on_kept: told how many bytes it keeps for a client that comes back; None: nobody counts.
    """

    on_kept: Callable[[Session, int], None] | None = None

    def __init__(
        self,
        id: str,
        principal: Principal,
        endpoint: Endpoint,
        version: str,
        capabilities: Mapping[str, Any],
        general: EventStream | None = None,
    ) -> None:
        self.id = id
        self.principal = principal
        self.person = principal.person
        self.endpoint = endpoint
        self.version = version
        self.capabilities = capabilities
        self.log_level: str | None = DEFAULT_LOG_LEVEL
        self.revealed: set[str] = set()
        self.general = general or EventStream(GENERAL)
        if general is None:  # one that is given keeps nothing for who comes back
            self.general.on_put = self._keeps_more
        self._kept_bytes = 0
        self.inflight: ById[asyncio.Task[None] | Running] = ById()
        self.questions = OpenQuestions(self)
        self.opened = self.used = time.monotonic()
        self.closed = False
        self.subscription = Subscription(
            principal=principal,
            endpoint=endpoint,
            session=id,
            deliver=self._deliver,
            relays=True,
            client=SessionChannel(self, self.general, None),
            exposed=ExposedChannel,
            answers=session_answers(capabilities),
        )
        self._streams: OrderedDict[str, EventStream] = OrderedDict()
        self._carriers: set[Outlet] = set()
        self._errands = Tasks()
        self._count = 0
        self._owner: Owner | None = None
        self._salt = secrets.token_hex(4)

    def touch(self) -> None:
        """Record activity of the client, for the idle time-out."""
        self.used = time.monotonic()

    def seen_as(self, principal: Principal, endpoint: Endpoint) -> None:
        """Record a request of the client, with its current scopes and endpoint."""
        self.used = time.monotonic()
        self.principal = self.subscription.principal = principal
        self.endpoint = self.subscription.endpoint = endpoint

    @property
    def busy(self) -> bool:
        """Whether a call is in flight or a stream is being read."""
        return bool(self.inflight) or self.general.reading

    @property
    def owner(self) -> Owner:
        """The owner of its calls to upstreams; the same object while that does not change."""
        owner = self._owner
        if owner is None or owner.principal is not self.principal:
            owner = self._owner = self.subscription.owner
        return owner

    @property
    def channel(self) -> ClientChannel:
        """The channel for upstreams to the client outside its requests."""
        return self.subscription.client or SessionChannel(self, self.general, None)

    # -- streams -----------------------------------------------------------------------------

    def open_stream(self, *, carries: bool = True) -> EventStream:
        """A stream for one request's messages; `carries`: other messages may come on it, too."""
        self._count += 1
        stream = EventStream(f"{self._count}-{self._salt}")
        self._streams[stream.key] = stream
        if carries:
            self.carry(stream)
        return stream

    def carry(self, outlet: Outlet) -> None:
        """Messages to the client may come on this stream, until `stop_carrying`."""
        self._carriers.add(outlet)

    def stop_carrying(self, outlet: Outlet) -> None:
        """Undo `carry`."""
        self._carriers.discard(outlet)

    def read_now(self, wanted: Outlet) -> Outlet:
        """The stream that reaches the client: `wanted`, or the one that it reads instead."""
        if not wanted.closed and (wanted.reading or wanted is not self.general):
            return wanted
        read = (stream for stream in self._carriers if stream.reading and not stream.closed)
        return self.general if self.general.reading else next(read, self.general)

    def drop_stream(self, stream: EventStream) -> None:
        """The stream's reader got everything in another way."""
        self._streams.pop(stream.key, None)
        self._carriers.discard(stream)

    def keep_within_bounds(self) -> None:
        """Drop the oldest finished streams beyond what is kept for resumption."""
        finished = [stream for stream in self._streams.values() if stream.closed]
        self._carriers.difference_update(finished)
        size = sum(stream.size_bytes for stream in finished)
        while finished and (len(finished) > KEPT_STREAMS or size > KEPT_BYTES):
            oldest = finished.pop(0)
            size -= oldest.size_bytes
            del self._streams[oldest.key]
        self._kept_bytes = size
        self._keeps_more()

    def _keeps_more(self) -> None:
        """Report how many bytes are kept."""
        if self.on_kept is not None:
            self.on_kept(self, self._kept_bytes + self.general.size_bytes)

    def forget(self) -> None:
        """Drop everything that is kept for resumption."""
        self._kept_bytes = 0
        for stream in [one for one in self._streams.values() if one.closed and not one.reading]:
            self.drop_stream(stream)
        self.general.forget()

    def stream(self, key: str) -> EventStream | None:
        """A stream that can still be resumed."""
        return self.general if key == GENERAL else self._streams.get(key)

    def _deliver(self, method: str, params: Params) -> None:
        if method == LOGGED:
            level = text_of(params, "level")
            if not loud_enough(level, self.log_level):
                return
        if not self.closed:
            self.read_now(self.general).put(jsonrpc.notification(method, params or None))

    # -- calls and errands ---------------------------------------------------------------------

    def cancel(self, id: bytes, reason: CancelReason | None = None) -> None:
        """Cancel the call in flight with that id, if there is one."""
        for running in self.inflight.of(id):
            cancel_soon(running, reason)

    def run(self, errand: Coroutine[Any, Any, None]) -> None:
        """Run a background task for the client; cancelled with the session."""
        self._errands.spawn(errand, "errand of a session")

    @property
    def errands(self) -> int:
        """How many background tasks are running."""
        return len(self._errands)

    # -- the end -----------------------------------------------------------------------------

    async def close(self) -> None:
        """Cancel calls, close streams, and withdraw questions."""
        self.closed = True
        self.questions.hang_up()
        every = list(self.inflight)
        in_place = [running for running in every if isinstance(running, Running)]
        for running in in_place:
            running.cancel()
        tasks = (task for task in every if isinstance(task, asyncio.Task))
        await stop(*tasks, *self._errands, timeout_s=_END_S)
        await ended(in_place, _END_S)
        self.general.close()
        for stream in self._streams.values():
            stream.close()

    def let_go(self) -> None:
        """Drop the references to other objects, so that it is freed with its last reference."""
        self._owner = self.general.on_put = None
        self.forget()
        self.subscription.client, self.subscription.deliver = None, _to_nobody


def _to_nobody(method: str, params: Params) -> None:
    pass


def cancel_soon(task: asyncio.Task[None] | Running, reason: CancelReason | None = None) -> None:
    """Cancel a call once it has started: a task that never ran would not clean up."""
    asyncio.get_running_loop().call_soon(task.cancel, reason)


class SessionChannel:
    """The channel to a legacy client behind one of its requests.

    Attributes:
        capabilities: what the handshake declared.
    """

    __slots__ = ("_session", "_stream", "_token", "capabilities")

    def __init__(self, session: Session, stream: Outlet, token: Raw | None) -> None:
        self.capabilities = session.capabilities
        self._session = session
        self._stream = stream
        self._token = token

    @property
    def log_level(self) -> str | None:
        """What `logging/setLevel` set."""
        return self._session.log_level

    @property
    def progress_token(self) -> Raw | None:
        """The request's progress token."""
        return self._token

    async def notify(self, method: str, params: Params) -> None:
        """Deliver on the request's stream."""
        await self._stream.write(jsonrpc.notification(method, params or None))

    async def ask(self, method: str, params: Params) -> Answer:
        """Put a request to the client on the request's stream.

        Raises:
            ClientGone: nobody is there to answer.
        """
        session = self._session
        declared = session.capabilities
        # at its own endpoint a server may ask what Armory does not know
        unknown = session.endpoint.transparent and is_unknown(method)
        if not (unknown or may_ask(method, params, declared, "legacy", session.version)):
            return Answer(error=refusal(method, declared))
        if "task" in params:  # not declared, so it is answered as if it were not there
            params = {name: value for name, value in params.items() if name != "task"}
        return await session.questions.ask(self._stream, method, params)
