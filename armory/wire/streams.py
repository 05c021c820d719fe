"""Message streams to one reader, kept for a while for resumption.

Owns: `EventStream`, its bounds, and the event ids that name a place in it. How messages are written
as server-sent events is `sse.py`. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from armory.wire.messages import Data

_UNREAD_BYTES = 16 << 20
"""Unread bytes from which on a writer waits for the reader."""
_KEPT_FOR_READERS = 8
"""How many times the usual is kept where a reader is behind."""


def parse_event_id(text: str) -> tuple[str, int] | None:
    """(stream, position) of a `Last-Event-ID`; None when it is not one of ours."""
    stream, separator, position = text.rpartition("_")
    if not separator or not (position.isascii() and position.isdigit()) or len(position) > 12:
        return None
    return stream, int(position)


class Outlet(Protocol):
    """A destination of messages to a client: an event stream, or an answer that becomes one with
    the first message.

    Attributes:
        closed: whether no more are taken.
        reading: whether the client gets them.
    """

    @property
    def closed(self) -> bool:
        """Whether it accepts no more messages."""
        ...

    @property
    def reading(self) -> bool:
        """Whether the client is receiving the messages."""
        ...

    def put(self, data: bytes) -> None:
        """Append a message."""
        ...

    async def write(self, data: bytes) -> None:
        """Append a message, waiting for a slow reader first (backpressure)."""
        ...


class EventStream:
    """Messages in order, for at most one reader at a time, kept for a while for the next.

    Args:
        key: the stream's name within its session.
        keep_events: most messages kept for a reader that comes back.
        keep_bytes: most bytes kept for it; 0 keeps nothing that was read.
        backlog: how many unread messages make a writer wait while somebody reads.

    Attributes:
        key: see above.
        closed: whether no more messages are taken.
        reader: number of whoever reads, or read last.
        reading: whether anybody does.
        on_held: called with `held_bytes` whenever that changes.
        on_put: called for each message that is kept.
    """

    def __init__(
        self, key: str, *, keep_events: int = 256, keep_bytes: int = 1 << 20, backlog: int = 64
    ) -> None:
        self.key = key
        self.closed = False
        self.reader = 0
        self.reading = False
        self._keep_events = keep_events
        self._keep_bytes = keep_bytes
        self._backlog = backlog
        self._events: deque[tuple[int, Data]] = deque()
        self._size = 0
        self._last = 0
        self._read = 0
        self._waiter: asyncio.Future[bool] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self._waiting_bytes = 0
        self._taken_bytes = 0
        self.on_held: Callable[[int], None] | None = None
        self.on_put: Callable[[], None] | None = None

    @property
    def last(self) -> int:
        """Position of the newest message; 0 while there is none."""
        return self._last

    @property
    def delivered(self) -> int:
        """Position of the newest message that a reader took."""
        return self._read

    @property
    def size_bytes(self) -> int:
        """Bytes kept."""
        return self._size

    @property
    def held_bytes(self) -> int:
        """Bytes kept, those of writers that wait for the reader, and those that the reader took
        last (it holds them until it takes the next).
        """
        return self._size + self._waiting_bytes + self._taken_bytes

    def event_id(self, position: int) -> str:
        """The event id of a position."""
        return f"{self.key}_{position}"

    def put(self, data: Data) -> None:
        """Append a message; the oldest are dropped to make room, those that the reader still waits
        for last. If nothing is kept for resumption, those are never dropped, but the new message
        is.
        """
        if self.closed or (not self._keep_bytes and self._overfull):
            self._held()
            return
        self._last += 1
        self._events.append((self._last, data))
        self._size += len(data)
        if len(self._events) > 1:
            self._make_room()
        self._wake()
        self._held()
        if self.on_put is not None:
            self.on_put()

    def _make_room(self) -> None:
        while len(self._events) > 1:
            kept = self._keep_bytes or _UNREAD_BYTES
            over = max(len(self._events) / self._keep_events, self._size / kept)
            unread = self.reading and self._events[0][0] > self._read
            if over <= (_KEPT_FOR_READERS if unread else 1):
                return
            _, dropped = self._events.popleft()
            self._size -= len(dropped)

    @property
    def _overfull(self) -> bool:
        """Whether so much waits for the reader that answers may be among it."""
        many = len(self._events) >= self._keep_events * _KEPT_FOR_READERS
        return many or self._size >= _UNREAD_BYTES * _KEPT_FOR_READERS

    async def write(self, data: Data) -> None:
        """Append a message, waiting for a slow reader first (backpressure)."""
        if self._behind:
            self._waiting_bytes += len(data)
            self._held()
            try:
                await self._turn()
            finally:
                self._waiting_bytes -= len(data)
        self.put(data)

    async def room(self) -> None:
        """Wait for a slow reader as `write` does, but write nothing."""
        if self._behind:
            await self._turn()
            self._tell_room()  # let the next writer go without waiting for another read

    async def _turn(self) -> None:
        """Wait until the reader has caught up; first come, first served."""
        while self._behind:
            turn = asyncio.get_running_loop().create_future()
            self._writers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._tell_room()  # whose turn it was has gone: the next one's
                raise

    @property
    def _behind(self) -> bool:
        if not self.reading or self.closed:
            return False
        unread = self._last - self._read
        return unread >= self._backlog or (unread > 0 and self._size >= _UNREAD_BYTES)

    def _held(self) -> None:
        if self.on_held is not None:
            self.on_held(self.held_bytes)

    def _forget(self, position: int) -> None:
        while self._events and self._events[0][0] <= position:
            _, dropped = self._events.popleft()
            self._size -= len(dropped)

    def forget(self) -> None:
        """Drop everything that no reader waits for."""
        self._forget(self._read if self.reading else self._last)

    def close(self) -> None:
        """Accept no more messages; readers end after the last one."""
        self.closed = True
        self._wake()
        self._tell_room()

    def attach(self, after: int | None = None) -> int:
        """Become the reader, replacing the one before; returns the reader's number."""
        self.reader += 1
        self.reading = True
        if after is not None:
            self._read = after
        self._wake()
        return self.reader

    def detach(self, reader: int) -> None:
        """Stop reading."""
        if self.reader == reader:
            self.reading = False
            self._taken_bytes = 0
            self._tell_room()

    async def next(self, reader: int, timeout_s: float | None) -> tuple[int, Data] | None:
        """The next message for a reader; None when the time passed without one.

        Args:
            reader: its number.
            timeout_s: how long it waits, in seconds; None: until `keep_alive`.

        Raises:
            EOFError: there will be none: the stream ended, or somebody else reads it now.
        """
        if self._taken_bytes:
            self._taken_bytes = 0
            self._held()
        while True:
            if self.reader != reader:
                raise EOFError
            for position, data in self._events:
                if position > self._read:
                    self._read = position
                    if not self._keep_bytes:
                        self._forget(position)
                        self._taken_bytes = len(data)
                    self._tell_room()
                    return position, data
            if self.closed:
                raise EOFError
            if not await self._change(timeout_s):
                return None

    def keep_alive(self) -> None:
        """As `keepalive.Waiting.keep_alive`: wakes a reader that waits without a limit."""
        if self._waiter is not None:
            _settle(self._waiter, False)

    async def _change(self, timeout_s: float | None) -> bool:
        """Wait for the next change; returns False when the time passed without one."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        if timeout_s is None:
            return await waiter
        timer = loop.call_later(timeout_s, _settle, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()

    def _tell_room(self) -> None:
        """Wake the first writer that waits; all of them, if none needs to wait."""
        while self._writers:
            turn = self._writers.popleft()
            if not turn.done():
                turn.set_result(None)
                if self.reading and not self.closed:
                    return

    def _wake(self) -> None:
        if self._waiter is not None:
            _settle(self._waiter, True)


def _settle(waiter: asyncio.Future[bool], outcome: bool) -> None:
    if not waiter.done():
        waiter.set_result(outcome)
