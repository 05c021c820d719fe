"""Queries of allowed length that are meant to keep the gateway busy.

Bounded: the texts of a query, the searches of one caller and of all, how long others wait.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from armory.config import load_text
from armory.domain.query import MAX_TEXTS, Query
from armory.errors import InvalidRequest, RateLimited
from armory.gateway.queries.values import check_texts
from armory.protocol.errors import RpcError
from armory.retrieval import retriever as retriever_module
from armory.retrieval.rankers.formulas import LexicalRanker
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.queue import CALLERS_ROOM, LEAST_COST, ROOM, SearchQueue
from armory.retrieval.search.scope import scope_of
from armory.retrieval.search.threads import rest_after
from armory.retrieval.settings import RetrieverSettings
from armory.runtime.retrieval import retrieval_options

pytestmark = pytest.mark.anyio


def words_only(settings: RetrieverSettings | None = None) -> Retriever:
    return Retriever(None, None, {"lexical": LexicalRanker()}, settings)


async def test_a_query_of_thousands_of_texts_is_refused() -> None:
    with pytest.raises(RpcError, match="at most 16"):
        check_texts(["x"] * 8_000, "params.query")
    with pytest.raises(InvalidRequest, match="at most 16"):
        await words_only().rank(Query(("x",) * (MAX_TEXTS + 1)))


@pytest.mark.parametrize("filler", [" ", "\t", ". ", "a, and "])
async def test_a_long_query_is_taken_apart_beside_the_loop(
    filler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    turns: list[float] = []
    usual = sys.getswitchinterval()

    def noted(*args: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        turns.append(sys.getswitchinterval())
        return scope_of(*args, **named)

    monkeypatch.setattr(retriever_module, "scope_of", noted)
    searched = words_only(RetrieverSettings(ranker="lexical"))
    await searched.index([])
    await searched.rank(Query(("a" + filler * (7_900 // len(filler)) + "b",)))
    assert threads
    assert threading.get_ident() not in threads
    assert max(turns) < usual / 5, "the event loop would wait for its turn again and again"
    await searched.rank(Query(("short",)))
    assert turns[-1] == sys.getswitchinterval() == usual
    await searched.aclose()


async def test_searches_beyond_the_limit_are_refused() -> None:
    queue = SearchQueue(most=3, per_caller=2)
    costs = [await queue.enter("a", 1), await queue.enter("a", 1)]
    with pytest.raises(RateLimited, match="searches_per_principal") as refused:
        await queue.enter("a", 1)
    assert refused.value.retry_after_s
    await queue.enter("b", 1)
    with pytest.raises(RateLimited, match=r"server\.limits\.searches\)"):
        await queue.enter("c", 1)
    queue.leave("a", costs[0])
    await queue.enter("c", 1)


async def test_one_caller_leaves_room_for_others() -> None:
    queue = SearchQueue(most=500, per_caller=500)
    long = CALLERS_ROOM // 2
    entered = [asyncio.ensure_future(queue.enter("greedy", long)) for _ in range(100)]
    await asyncio.sleep(0)
    assert sum(turn.done() for turn in entered) == 2
    await asyncio.wait_for(queue.enter("other", 50), 30)
    for turn in entered:
        turn.cancel()
    await asyncio.wait(entered)


async def test_free_room_goes_round() -> None:
    queue = SearchQueue(most=500, per_caller=500)
    for n in range(2):
        await queue.enter(f"first-{n}", ROOM // 2)
    order: list[str] = []

    async def search(caller: str) -> None:
        cost = await queue.enter(caller, LEAST_COST)
        order.append(caller)
        queue.leave(caller, cost)

    names = ["a"] * 5 + ["b", "c"]
    turns = [asyncio.ensure_future(search(name)) for name in names]
    await asyncio.sleep(0)
    assert not order
    queue.leave("first-0", ROOM // 2)
    await asyncio.wait_for(asyncio.gather(*turns), 30)
    assert sorted(order[:3]) == ["a", "b", "c"]


async def test_who_asks_long_queries_without_pause_rests_and_others_do_not() -> None:
    queue = SearchQueue(most=500, per_caller=500)
    cost = await queue.enter("much", CALLERS_ROOM)
    queue.leave("much", cost, 3_600)
    again = asyncio.ensure_future(queue.enter("much", CALLERS_ROOM))
    for caller in range(ROOM // CALLERS_ROOM):
        await asyncio.wait_for(queue.enter(f"other {caller}", CALLERS_ROOM), 20)
    for caller in range(ROOM // CALLERS_ROOM):
        queue.leave(f"other {caller}", CALLERS_ROOM)
    await asyncio.sleep(0)
    assert not again.done(), "it rests"
    again.cancel()
    cost = await queue.enter("another", CALLERS_ROOM)
    queue.leave("another", cost, 0.01)
    async with asyncio.timeout(20):
        await queue.enter("another", CALLERS_ROOM)


async def test_short_queries_of_whoever_rests_are_served() -> None:
    queue = SearchQueue(most=500, per_caller=500)
    cost = await queue.enter("much", CALLERS_ROOM // 2)
    queue.leave("much", cost, 60)
    await asyncio.wait_for(queue.enter("much", LEAST_COST), 20)
    assert rest_after(0.1) == pytest.approx(0.4)
    assert rest_after(1_000) <= 2


async def test_who_leaves_gives_back_what_it_held() -> None:
    queue = SearchQueue(most=3, per_caller=3)
    cost = await queue.enter("a", CALLERS_ROOM)
    waiting = [asyncio.ensure_future(queue.enter("a", 1)) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # while it waits
    await asyncio.wait(waiting[:1])
    queue.leave("a", cost)
    waiting[1].cancel()  # in the moment in which it gets its turn
    await asyncio.wait(waiting[1:])
    for n in range(3):
        await asyncio.wait_for(queue.enter("b", n), 30)


def test_the_limits_have_keys() -> None:
    text = "server: {limits: {searches: 7, searches_per_principal: 5}}"
    settings = retrieval_options(load_text(text, environ={})).settings
    assert (settings.searches, settings.searches_per_caller) == (7, 5)
