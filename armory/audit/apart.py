"""A sink in a thread of its own.

Owns: `Apart`, the thread and its event loop. The loop that serves calls may take long for a turn
when it is busy, and one write to a database is many turns: what a killed process loses must not
grow with the load. Never knows what a sink does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from armory.audit.record import Entry
from armory.audit.sinks import Sink

T = TypeVar("T")
_END_S = 10.0


class Apart:
    """A sink whose work is done elsewhere; satisfies `Sink` itself.

    Args:
        sink: does it, never used from anywhere else.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="write the audit", daemon=True)

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    async def open(self) -> bool:
        """As `Sink.open`; where it fails there is nothing to close."""
        self._thread.start()
        try:
            return await self._there(self._sink.open())
        except BaseException:
            await self._end()
            raise

    async def write(self, entries: Sequence[Entry]) -> None:
        """As `Sink.write`."""
        await self._there(self._sink.write(entries))

    async def close(self) -> None:
        """As `Sink.close`."""
        try:
            await self._there(self._sink.close())
        finally:
            await self._end()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _END_S)
