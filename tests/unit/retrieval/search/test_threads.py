"""Long queries have one thread of their own, behind all others.

Owns: `armory.retrieval.search.threads`, and that a search goes where it belongs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.retrieval.rankers.formulas import LexicalRanker
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.threads import LONG_NICE, SHORT_CHARS, SearchThreads
from armory.retrieval.settings import RetrieverSettings
from armory.threads import GIVES_WAY

pytestmark = pytest.mark.anyio
SHORT, LONG = Query(("send a mail",)), Query(("mail " * SHORT_CHARS,))


class Held(LexicalRanker):
    """Ranks long queries only once it may; knows how many it was at, at most."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.begun = threading.Semaphore(0)
        self.running = self.most = 0

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        if len(features.subqueries[0].text) > SHORT_CHARS:
            self.running += 1
            self.most = max(self.most, self.running)
            self.begun.release()
            assert self.may.wait(30)
            self.running -= 1
        return super().rank(features, settings)


async def test_usual_queries_are_answered_while_long_ones_take_their_time(
    tools: list[ToolRecord],
) -> None:
    ranker = Held()
    settings = RetrieverSettings(ranker="lexical")
    async with Retriever(None, None, {"lexical": ranker}, settings) as searched:
        await searched.index(tools)
        async with asyncio.timeout(30):
            long = [asyncio.create_task(searched.search(LONG)) for _ in range(4)]
            assert await asyncio.to_thread(ranker.begun.acquire, timeout=20)
            for _ in range(3):
                found = await searched.search(SHORT)
                assert found.matches[0].tool.original_name == "send_email"
            assert not any(task.done() for task in long)
            ranker.may.set()
            await asyncio.gather(*long)
    assert ranker.most == 1


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
async def test_their_thread_has_a_lower_priority() -> None:
    threads, loop = SearchThreads(), asyncio.get_running_loop()

    def nice() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    own = nice()
    assert await loop.run_in_executor(threads.of(SHORT), nice) == min(own + GIVES_WAY, 19)
    assert await loop.run_in_executor(threads.of(LONG), nice) == min(own + LONG_NICE, 19)
    threads.shutdown()
