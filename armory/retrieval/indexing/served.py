"""The tools that can be searched now.

Owns: `ServedTools`: indexing one list of tools after the other, and the snapshot that is served
meanwhile. Never searches it; never imports rankers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from armory.domain.results import NO_LOSS, Loss
from armory.domain.tool import ToolRecord
from armory.logger import Logger
from armory.retrieval.indexing.indexer import Indexer, IndexReport, Superseded
from armory.retrieval.snapshot import Snapshot

_log = Logger(__name__)


class ServedTools:
    """The latest snapshot of the tools, and the tools that are wanted.

    Args:
        indexer: makes snapshots.
        on_swap: told each snapshot that is served from now on.

    Attributes:
        snapshot: what is searched; None: nothing is indexed yet.
        wanted: the tools that were asked for last; until they are indexed, others are served.
        problem: what is lost of the vectors.
    """

    def __init__(self, indexer: Indexer, on_swap: Callable[[Snapshot], None]) -> None:
        self.snapshot: Snapshot | None = None
        self.wanted: Sequence[ToolRecord] = ()
        self.problem = NO_LOSS
        self._indexer = indexer
        self._on_swap = on_swap
        self._lock = asyncio.Lock()

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None
    ) -> IndexReport:
        """Serve exactly these tools, once those that are being indexed are done; see
        `Retriever.index`.
        """
        self.wanted = tools
        async with self._lock:
            first = self.snapshot is None
            try:
                snapshot, report = await self._indexer.run(
                    tools, self._publish, first=first, outdated=outdated
                )
            except Superseded:
                _log.info("indexing_given_up", tools=len(tools))
                return IndexReport(len(tools), given_up=True)
            problem = report.problem
            if report.missing and not problem:
                problem = Loss.saying(f"{report.missing} tools have no vectors")
            self._publish(snapshot, problem)
        _log.info(
            "tools_indexed", tools=report.tools, embedded=report.embedded, cached=report.cached,
            missing=report.missing,
        )  # fmt: skip
        return report

    def awaited(self, visible: int | None, served: int) -> str | None:
        """A message that some tools cannot be found yet, or None.

        Args:
            visible: how many a caller sees; None: all.
            served: how many of them are searched.
        """
        if not self._lock.locked():
            return None
        every = len(self.wanted) if visible is None else visible
        if every <= served:
            return None
        return f"incomplete: {every - served:,} of {every:,} tools are still being indexed"

    def _publish(self, snapshot: Snapshot, problem: Loss) -> None:
        self.snapshot = snapshot
        self.problem = problem.within("lexical only" if snapshot.view is None else "incomplete")
        self._on_swap(snapshot)
