"""Watches whether the vector store answers, with probes in the background, so that no search has to
find out.

Owns: probing, the reason that is given while the store is away, cutting short the searches that
wait for it. Never imports a concrete embedder or index, rankers or the retriever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from armory.domain.results import NO_LOSS, Loss
from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.ports import Probed
from armory.tasks import spawn, stop

_log = Logger(__name__)

#: Seconds between probes while there are searches, or the store is away; and otherwise.
PROBE_S = 1.0
IDLE_S = 5.0
#: Seconds that a probe may take. A server that refuses is away at once, one that is slow at the
#: second time: a probe may have waited for this process.
SLOW_S = 0.75


class StoreWatch:
    """Watches the store of the view that is served.

    Args:
        view: gives that view; None, or one that cannot be probed: nothing is watched.
        on_back: called when a store that was away answers again.
        on_loss: called when the store answers and lacks what was put there.
    """

    def __init__(
        self,
        view: Callable[[], object],
        on_back: Callable[[], None],
        on_loss: Callable[[], None],
    ) -> None:
        self.problem = NO_LOSS
        """Why the store is away; nothing while it is there."""
        self._view = view
        self._on_back = on_back
        self._on_loss = on_loss
        self._limits: set[asyncio.Timeout] = set()
        self._searched = False
        self._slow = False
        self._task: asyncio.Task[None] | None = None

    @property
    def watching(self) -> bool:
        """Whether there is a store to probe."""
        return isinstance(self._view(), Probed)

    @contextmanager
    def limited(self, limit: asyncio.Timeout) -> Generator[None]:
        """Make this time limit of a search expire as soon as the store is found to be down."""
        self._searched = True
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)

    def start(self) -> None:
        """Start watching; does nothing if it is running."""
        if self._task is None:
            self._task = spawn(self._run(), "vector store: watch")

    async def stop(self) -> None:
        """Stop watching."""
        await stop(self._task)

    async def _run(self) -> None:
        probed = 0.0
        while True:
            await asyncio.sleep(PROBE_S)
            view = self._view()
            due = self.problem or self._searched or time.monotonic() - probed >= IDLE_S
            if isinstance(view, Probed) and due:
                self._searched = bool(self._limits)
                await self._probe(view)
                probed = time.monotonic()

    async def _probe(self, view: Probed) -> None:
        try:
            async with asyncio.timeout(SLOW_S):
                whole = await view.probe()
        except TimeoutError:
            if self.problem or self._slow:
                why = f"the vector store does not answer within {SLOW_S:g} s"
                self._unreachable(Loss.saying(why))
            elif not self._slow:
                self._slow = True
                await self._probe(view)
        except BackendError as error:
            self._unreachable(Loss.of(error))
        else:
            self._reached()
            if not whole:
                self._on_loss()

    def _unreachable(self, loss: Loss) -> None:
        if not self.problem:
            _log.warning("vector_store_away", error=loss.why)
        self.problem = loss
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)

    def _reached(self) -> None:
        self._slow = False
        if self.problem:
            self.problem = NO_LOSS
            _log.info("vector_store_back")
            self._on_back()
