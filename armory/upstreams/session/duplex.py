"""Links over one two-way stream of messages: what stdio and HTTP+SSE have in common.

Owns: sending calls, waiting for their answers, cancelling them. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Generator

from armory.errors import ArmoryError, UpstreamTimeout, UpstreamUnavailable
from armory.http1.deadlines import CallDeadline
from armory.logger import Logger
from armory.protocol import jsonrpc
from armory.protocol.link import Call, Params, Reply
from armory.protocol.methods import CANCELLED
from armory.protocol.upstream_messages import (
    AT_ONCE_BYTES,
    UnreadableMessage,
    UpstreamMessage,
    decode,
    decoding,
)
from armory.upstreams.session.base import TOO_NOISY
from armory.upstreams.session.context import LinkContext
from armory.upstreams.session.multiplexer import call_cancelled
from armory.upstreams.session.pending import Note
from armory.upstreams.session.replies import SessionOver
from armory.upstreams.session.stateful import StatefulLink

log = Logger(__name__)

_WRITE_S = 10.0
_STEPS_S = 0.005
"""Pause before another frame is read while one is decoded step by step."""
_UNCANCELLABLE = frozenset(("initialize", "server/discover"))


class DuplexLink(StatefulLink):
    """A link over one stream each way, with many calls in flight.

    A subclass writes frames and calls `received` for each frame that arrives and `died` once.
    """

    def __init__(self, context: LinkContext) -> None:
        super().__init__(context, exact=False)
        self._death: str | None = None
        self._closing = False
        self._waiting: deque[bytes | bytearray] = deque()
        self._steps: Generator[None, None, list[UpstreamMessage]] | None = None
        # Whether its last frame overdrew the budget, which all sessions of the upstream share: each
        # waits for what it spent itself.
        self._in_debt = False

    @property
    def closed(self) -> bool:
        """Whether the stream has ended."""
        return self._death is not None or self._closing

    @property
    def death(self) -> str | None:
        """Why the stream ended; None while it lives."""
        return self._death

    @abstractmethod
    async def _write(self, data: bytes) -> None:
        """Write one message; waits while the upstream does not read (backpressure)."""

    def received(self, data: bytes | bytearray, *, skipped_bytes: int = 0) -> float:
        """Handle one frame; returns for how many seconds nothing more should be read (then ask
        `wait_s`).

        A large frame is decoded in steps, so that other tasks run in between. An empty one is no
        malformed message, but counts against the budget.

        Args:
            data: the frame.
            skipped_bytes: bytes of comments that came in place of a frame.
        """
        at_once = len(data) <= AT_ONCE_BYTES
        if at_once and (not data or data.isspace()):
            self._in_debt = True
            self.budget.notification(max(len(data), skipped_bytes))
            return self.wait_s()
        if not self._waiting and at_once:
            self._take(data, _decoded(data))
            return self.wait_s()
        self._waiting.append(data)
        if len(self._waiting) == 1:
            self._begin()
        return _STEPS_S

    def wait_s(self) -> float:
        """Seconds for which nothing more should be read: a frame is still being decoded, or the
        budget is used up. 0 while the link closes or is dead.
        """
        if self.closed:
            return 0.0
        if self._waiting:
            return _STEPS_S
        return self.budget.pause_s() if self._in_debt else 0.0

    def _begin(self) -> None:
        self._steps = steps = decoding(self._waiting[0])
        asyncio.get_running_loop().call_soon(self._step, steps)

    def _step(self, steps: Generator[None, None, list[UpstreamMessage]]) -> None:
        if steps is not self._steps:  # the end came first
            return
        decoded: list[UpstreamMessage] | UnreadableMessage
        try:
            next(steps)
        except StopIteration as done:
            decoded = done.value
        except UnreadableMessage as garbage:
            decoded = garbage.with_traceback(None)  # which would hold this frame
        else:
            asyncio.get_running_loop().call_soon(self._step, steps)
            return
        self._steps = None
        self._take(self._waiting.popleft(), decoded)
        if self._waiting:
            self._begin()

    def _finish(self) -> None:
        """Decode the rest at once: it came before the end of the stream."""
        self._steps = None
        while self._waiting:
            data = self._waiting.popleft()
            self._take(data, _decoded(data))

    def _take(
        self, data: bytes | bytearray, decoded: list[UpstreamMessage] | UnreadableMessage
    ) -> None:
        """Handle the messages of a frame; ignored while the link closes."""
        if self._closing:
            return
        before = self.budget.charged
        if isinstance(decoded, UnreadableMessage):
            self.budget.garbage(decoded, len(data))
            self.unreadable(data)
            decoded = []
        elif not decoded:
            self.budget.nuisance(len(data))
        for message in decoded:
            hit = self.requests.route(message, size=len(data) // len(decoded))
            if hit is not None:
                hit[0].put(hit[1])
        self._in_debt = self.budget.charged != before
        if self._in_debt and self.budget.pause_s() and self.budget.worn_out:
            self.died(TOO_NOISY)

    def unreadable(self, data: bytes | bytearray) -> None:
        """A frame was no message. Subclasses may keep it for error messages."""

    def died(self, reason: str) -> None:
        """The stream ended: fail the calls in flight and notify the observer."""
        self._finish()
        if self._death is not None:
            return
        self._death = reason
        self.requests.fail_all(self.unavailable(reason))
        if not self._closing:
            self.lost(reason)

    async def notify(self, method: str, params: Params) -> None:
        """Send a notification."""
        await self._write_bounded(jsonrpc.notification(method, params))

    async def _exchange(self, call: Call, scope: CallDeadline) -> Reply:
        if self.closed:  # before the turn of this call came
            why = self.unavailable(self._death or "the session is closed")
            raise SessionOver(why.message, upstream=self.server)
        pending = self.requests.open(call, scope)
        answered = False
        try:
            await self._write(
                jsonrpc.request(pending.id, call.method, self.stamped(call, pending.id))
            )
            while True:
                item = await pending.next()
                if type(item) is Note:
                    await pending.deliver(item)
                    continue
                answered = True
                if isinstance(item, UpstreamUnavailable):
                    raise item
                assert isinstance(item, Reply)
                return item
        finally:
            item = None  # an error's traceback keeps this frame, and so the item, alive
            self.requests.close(pending, answered=answered)
            if not answered and not self.closed and call.method not in _UNCANCELLABLE:
                params = call_cancelled(pending.id)
                self.spawn(self._notify_quietly(CANCELLED, params), "cancellation")

    async def _notify_quietly(self, method: str, params: Params) -> None:
        try:
            await self.notify(method, params)
        except ArmoryError as error:
            log.debug("upstream_notify_failed", upstream=self.server, error=str(error))

    async def _send_answer(self, data: bytes) -> None:
        await self._write_bounded(data)

    async def _write_bounded(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._write(data)
        except TimeoutError:
            raise UpstreamTimeout(
                f"upstream {self.server!r} does not read what is sent to it", upstream=self.server
            ) from None


def _decoded(data: bytes | bytearray) -> list[UpstreamMessage] | UnreadableMessage:
    """The messages of a frame, or the reason why there are none."""
    try:
        return decode(data)
    except UnreadableMessage as garbage:
        return garbage
