"""Indexing again after vectors were lost or could not be made.

Owns: when to try again. Never imports a concrete embedder or index, rankers or the retriever.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from armory.errors import BackendError
from armory.retrieval.ports import VectorIndex
from armory.retrieval.search.watch import PROBE_S
from armory.tasks import spawn, stop

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


class Recovery:
    """Indexes again in the background until no vectors are missing.

    Args:
        attempt: indexes; returns whether nothing is missing any more.
        index: where the vectors are stored; None: nowhere.
    """

    def __init__(self, attempt: Callable[[], Awaitable[bool]], index: VectorIndex | None) -> None:
        self._attempt = attempt
        self._index = index
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start recovering; does nothing if that is running."""
        if self._task is None or self._task.done():
            self._task = spawn(self._run(), "vector store: recovery")

    async def stop(self) -> None:
        """Stop recovering."""
        await stop(self._task)

    async def _run(self) -> None:
        for attempt in itertools.count():
            await self._pause(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
            if await self._attempt():
                return

    async def _pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until a store that did not answer does."""
        away, end = False, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, PROBE_S))
            try:
                if self._index is not None:
                    await self._index.stored(())
            except BackendError:
                away = True
            else:
                if away:
                    return
