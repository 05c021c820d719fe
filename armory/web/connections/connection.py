"""One client connection: what its owner times and counts, and how it ends.

Owns: `Connection`; what arrives is left to `Receiver`. Never reads the content, never looks at
other connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_server import Server

from armory.logger import Logger
from armory.web.connections.owner import Owner
from armory.web.connections.receiving import Receiver

_log = Logger(__name__)
_ENDED_WITHIN_S = 1.0
"""How long a request that is cut off may take to clean up, and to be answered that it is."""
_AT_ONCE_S = 0.01
"""As soon as possible: 0 means no limit to aiohttp."""


class Connection(Receiver):
    """One client connection.

    Attributes:
        since: when it was made, or when its last request was seen to be answered.
        stalled: since when its client does not read; None: it reads.
        unread: bytes of answers that wait: a large one that is being written, which is held whole
            until its end, or those of a stream that is read too slowly.
        mark: bytes that waited in the transport when the client was last seen to read.
        held: the sum of both, as its owner counted it last.
        reserve: whether it is one beyond the cap.
        seen: the request that was being answered when its owner looked at it last.
        left: called when the client goes away while its request is served to the end all the same;
            None: the request is cancelled.
        overdue: whether its request took longer than it may when the server ends: it is cancelled,
            and a moment is left in which it can still be answered.
    """

    __slots__ = (
        "held", "left", "mark", "overdue", "reserve", "seen", "since", "stalled", "unread",
    )  # fmt: skip

    def __init__(self, owner: Owner[Connection], server: Server, **settings: Any) -> None:
        super().__init__(owner, server, **settings)
        self.since = owner.loop.time()
        self.stalled: float | None = None
        self.unread = 0
        self.held = 0
        self.mark = 0
        self.reserve = False
        self.seen: Any = None
        self.left: Callable[[], None] | None = None
        self.overdue = False

    @property
    def unsent(self) -> int:
        """Bytes that wait in the transport's write buffer."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    @property
    def idle_until(self) -> float:
        """When it is closed unless a request comes; 0: it has had none yet."""
        return self._next_keepalive_close_time

    @property
    def held_up_since(self) -> float | None:
        """Since when the client has sent no more of its request, or not read; None: it is not
        waited for.
        """
        if self.stalled is not None:
            return self.stalled
        request = self._current_request
        if request is None or request is not self.seen or request.content.is_eof():
            return None
        return self.since

    @property
    def request(self) -> Any:
        """The request that is being answered; None: there is none."""
        return self._current_request

    def close(self) -> None:
        """As aiohttp's at shutdown, but an idle connection is left to `shutdown`."""
        if not self.waiting:
            super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        self._owner.made(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """As `asyncio.Protocol.connection_lost`."""
        self._owner.lost(self)
        self.seen = self.parsed = None  # which hold this one
        self._owner.endings.add(partial(self._lost, exc))

    def _lost(self, exc: BaseException | None) -> None:
        left, self.left = self.left, None
        if left is not None:
            self._task_handler = None  # which aiohttp would cancel
            left()
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """As aiohttp's, but without a traceback for a client that sent no HTTP or went away."""
        error = kw.get("exc_info")
        gone = self.transport is None and isinstance(error, ConnectionError)
        if gone or isinstance(error, HttpProcessingError):
            _log.debug("request_malformed", error=type(error).__name__)
        else:
            super().log_exception(*args, **kw)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Close the connection; its request may still be answered within `timeout` seconds in all.

        aiohttp's own waits twice that long, so that one hanging call would exceed the grace period
        of a kubelet.
        """
        if self.waiting:
            await asyncio.sleep(min(self._owner.late_s, timeout or 0.0))
            if self.waiting:
                super().close()  # none came: the client need not hang up first
        task = self._task_handler
        if task is not None and not task.done() and not self.waiting:
            self._force_close = True  # no further request
            if not (await asyncio.wait((task,), timeout=timeout))[0]:
                self._owner.note("requests_cut", path=getattr(self.request, "path", None))
                self.overdue = True
                task.cancel()
                await asyncio.wait((task,), timeout=_ENDED_WITHIN_S)
        await super().shutdown(_AT_ONCE_S)

    def holds(self, size: int) -> None:
        """Set how many bytes of answers wait for the client, besides those in the transport."""
        self.unread = size
        if self.stalled is not None:
            self._owner.holds(self)

    def pause_writing(self) -> None:
        """As asyncio's: the client reads more slowly than is written (backpressure)."""
        super().pause_writing()
        self._owner.stalls(self)

    def resume_writing(self) -> None:
        """As `asyncio.Protocol.resume_writing`."""
        self._owner.reads(self)
        super().resume_writing()
