"""A sink in a thread of its own.

Owns: `ThreadedSink`. The loop that serves calls may take long for a turn when it is busy, and one
write to a database is many turns: what a killed process loses must not grow with the load. Never
knows what a sink does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import wait
from typing import Any, TypeVar

from armory.audit.record import Entry
from armory.audit.sinks import Sink
from armory.ending import at_most
from armory.tasks import shielded
from armory.threads import LoopThread

T = TypeVar("T")
_END_S = 10.0


class ThreadedSink:
    """Runs another sink in its own thread; satisfies `Sink` itself.

    Args:
        sink: does it, never used from anywhere else.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._thread: LoopThread | None = None

    async def open(self) -> bool:
        """Like `Sink.open`; if it fails or is cancelled, there is nothing to close."""
        self._thread = LoopThread("write the audit")
        opening = self._thread.submit(self._sink.open())
        try:
            return await shielded(asyncio.wrap_future(opening))
        except BaseException:
            # Cancelled half-way, a driver's thread has a connection that nobody closes.
            await asyncio.to_thread(wait, (opening,), _END_S)
            await self.close()
            raise

    async def write(self, entries: Sequence[Entry]) -> None:
        """As `Sink.write`."""
        await self._in_thread(self._sink.write(entries))

    async def close(self) -> None:
        """As `Sink.close`."""
        try:
            await self._in_thread(self._sink.close())
        finally:
            await self._end()

    async def _in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("used before open")
        return await asyncio.wrap_future(self._thread.submit(work))

    async def _end(self) -> None:
        if self._thread is not None:
            await asyncio.to_thread(self._thread.end, at_most(_END_S))
