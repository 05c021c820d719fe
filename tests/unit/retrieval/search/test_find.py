"""A search leaves its threads as seldom as it can: each return waits for the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.feedback.vectors import FeedbackLimits, FeedbackVectors
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.candidates import Experience
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
ASKED = Query(("send an email message",))


class Counting(ThreadPoolExecutor):
    """One thread, and what it was given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.given: list[Callable[..., Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.given.append(fn)
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
def threads() -> Counting:
    return Counting()


@pytest.fixture
async def retriever(
    rankers: dict[str, Ranker], tools: Sequence[ToolRecord], threads: Counting
) -> AsyncIterator[Retriever]:
    memory = FeedbackVectors(FeedbackLimits())
    experience = Experience(memory=memory)
    made = Retriever(HashingEmbedder(), ExactIndex(), rankers, experience=experience)
    made._threads.usual = threads  # pyright: ignore[reportPrivateUsage]
    async with made:
        await made.index(tools)
        yield made
    threads.shutdown()


async def test_a_query_that_was_asked_before_is_answered_in_one_go(
    retriever: Retriever, threads: Counting
) -> None:
    first = await retriever.search(ASKED)
    threads.given.clear()
    again = await retriever.search(ASKED)
    assert len(threads.given) == 1
    assert [m.score for m in again.matches] == [m.score for m in first.matches]
    assert again.matches[0].tool.original_name == "send_email"


async def test_words_are_asked_while_the_model_runs(
    retriever: Retriever, threads: Counting
) -> None:
    await retriever.search(ASKED)
    assert [getattr(fn, "__name__", "") for fn in threads.given] == ["words_of", "_both"]


async def test_words_alone_take_one_go(
    rankers: dict[str, Ranker], tools: Sequence[ToolRecord], threads: Counting
) -> None:
    made = Retriever(None, None, rankers)
    made._threads.usual = threads  # pyright: ignore[reportPrivateUsage]
    async with made:
        await made.index(tools)
        found = await made.search(ASKED)
    assert len(threads.given) == 1
    assert found.matches[0].tool.original_name == "send_email"
    threads.shutdown()
