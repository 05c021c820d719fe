"""The event loop goes first: who gives way to it, who wakes sooner, whose turns are short, what
ends a little at a time.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.tool import ToolRecord
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.search.threads import SearchThreads
from armory.runtime.catalog.keeper import CatalogKeeper
from armory.threads import (
    CATALOG_NICE,
    GIVES_WAY,
    SHORT_S,
    SLICE_NS,
    LoopThread,
    SwitchInterval,
    Table,
    default_slice,
    for_callers,
    in_order,
    in_turn,
    let_go,
    lower_priority,
    steps_for_callers,
    wake_sooner,
)


def test_turns_are_short_until_the_last_one_has_left() -> None:
    usual = sys.getswitchinterval()
    interval = SwitchInterval()
    with interval.short():
        assert sys.getswitchinterval() < usual
        with interval.short():
            pass
        assert abs(sys.getswitchinterval() - SHORT_S) < SHORT_S / 2
    assert sys.getswitchinterval() == usual


def test_turns_are_as_usual_again_after_two_event_loops_wanted_short_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, put = sys.getswitchinterval(), sys.setswitchinterval
    interval = SwitchInterval()
    entered, leave = threading.Event(), threading.Event()

    def another() -> None:
        with interval.short():
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=another)

    def put_back(seconds: float) -> None:
        if seconds == usual and not thread.ident:  # the first loop is about to
            thread.start()
            entered.wait(0.2)
        put(seconds)

    with interval.short():
        monkeypatch.setattr(sys, "setswitchinterval", put_back)
    leave.set()
    thread.join(30)
    left = sys.getswitchinterval()
    put(usual)
    assert left == usual


@pytest.mark.anyio
async def test_they_are_short_while_tools_are_made_searchable_and_not_afterwards() -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    class Retriever:
        async def index(
            self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
        ) -> object:
            seen.append(sys.getswitchinterval())
            return tools

    keeper = CatalogKeeper(Retriever(), {})
    keeper.start(lambda: {"a": ServerLists()}, lambda _catalog: None)
    async with asyncio.timeout(30):
        await keeper.settle()
        await keeper.index_private(())
    await keeper.stop()
    assert seen
    assert max(seen) < usual
    assert sys.getswitchinterval() == usual


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own there")
@pytest.mark.parametrize("nice", [GIVES_WAY, 5])
def test_a_thread_that_computes_gives_way_to_the_event_loop(nice: int) -> None:
    def placed() -> int:
        lower_priority(nice)
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(placed).result(20) == min(before + nice, 19)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own there")
@pytest.mark.anyio
async def test_what_is_made_of_a_catalog_goes_far_behind() -> None:
    def nice() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert await in_turn(nice) == min(nice() + CATALOG_NICE, 19)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own there")
def test_threads_that_search_and_embed_give_way() -> None:
    threads = SearchThreads()
    embedder = EmbeddedEmbedder()
    pools = [threads.usual, *(getattr(embedder, f"_{name}_pool") for name in ("query", "long"))]
    for pool in pools:
        found = pool.submit(
            lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        ).result(20)
        assert found > os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        pool.shutdown()
    threads.shutdown()


_ASK = """
import ctypes, platform, struct, sys

def slice_ns() -> int:
    number = {"x86_64": 315, "aarch64": 275, "riscv64": 275}.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return 0
    told = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None).syscall(number, 0, told, len(told), 0):
        return 0
    return struct.unpack_from("=Q", told, 24)[0]
"""
_known: dict[str, Any] = {}
exec(_ASK, _known)
_slice_ns: Callable[[], int] = _known["slice_ns"]
"""What the kernel says of the calling thread's slice; 0: it does not say."""


@pytest.mark.skipif(
    not _slice_ns() or os.sched_getscheduler(0) != os.SCHED_OTHER,
    reason="this kernel gives every thread the same slice, or all go behind everybody",
)
def test_an_event_loop_has_short_slices_and_what_it_begins_has_not() -> None:
    ask = f"{_ASK}\nprint(slice_ns())"

    def loop() -> tuple[int, int, int]:
        nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        wake_sooner()
        with ThreadPoolExecutor(1, initializer=lower_priority) as pool:
            computing = pool.submit(_slice_ns).result(20)
        with default_slice():
            child = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True)
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == nice
        return _slice_ns(), computing, int(child.stdout)

    with ThreadPoolExecutor(1) as pool:
        own, computing, child = pool.submit(loop).result(60)
    assert own == SLICE_NS
    assert computing == child == _slice_ns()


def test_who_has_usual_slices_keeps_them() -> None:
    before = _slice_ns()
    with default_slice():
        assert _slice_ns() == before
    assert _slice_ns() == before


class Held:
    """Something whose end is seen."""

    def __init__(self, ended: list[int], last: threading.Event | None = None) -> None:
        self._ended = ended
        self._last = last

    def __del__(self) -> None:
        self._ended.append(threading.get_ident())
        if self._last is not None:
            self._last.set()


@pytest.mark.anyio
async def test_many_objects_end_in_a_thread_and_few_where_they_are() -> None:
    await in_turn(int)
    ended: list[int] = []
    last = threading.Event()
    held = [Held(ended, last), *(Held(ended) for _ in range(4_999))]
    let_go(held)
    del held
    assert last.wait(20)
    assert len(ended) == 5_000
    assert threading.get_ident() not in ended
    ended.clear()
    last.clear()
    table = {number: Held(ended) for number in range(4_999)}
    table = {-1: Held(ended, last), **table}  # taken from its end
    let_go(table)
    del table
    assert last.wait(20)
    assert threading.get_ident() not in ended
    ended.clear()
    last.clear()
    whole = Table((number, Held(ended)) for number in range(4_999))
    whole = Table({-1: Held(ended, last), **whole})
    del whole
    assert last.wait(20)
    assert threading.get_ident() not in ended
    ended.clear()
    few = [Held(ended) for _ in range(10)]
    let_go(few)
    del few
    assert ended == [threading.get_ident()] * 10


def test_many_texts_are_sorted_in_parts() -> None:
    texts = [f"{number * 7_919 % 10_007:05d}" for number in range(10_007)]
    assert list(in_order(texts)) == sorted(texts)
    assert list(in_order(())) == []


@pytest.mark.anyio
async def test_what_takes_long_of_a_catalog_is_computed_one_at_a_time() -> None:
    under_way: list[int] = []

    def compute(number: int) -> tuple[int, int]:
        under_way.append(number)
        most = len(under_way)
        time.sleep(0)
        under_way.remove(number)
        return number, most

    found = await asyncio.gather(*(in_turn(compute, number) for number in range(200)))
    assert found == [(number, 1) for number in range(200)]


@pytest.mark.anyio
async def test_steps_end_when_their_caller_is_gone() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    taken = 0

    def endless() -> Generator[None, None, None]:
        nonlocal taken
        while True:
            taken += 1
            loop.call_soon_threadsafe(begun.set)
            yield

    call = asyncio.create_task(steps_for_callers(endless()))
    await asyncio.wait_for(begun.wait(), 30)
    call.cancel()
    await asyncio.wait({call}, timeout=30)
    assert call.cancelled()
    await asyncio.wait_for(for_callers(lambda: None), 30)  # in the same thread, after it
    before = taken
    await asyncio.wait_for(for_callers(lambda: None), 30)
    assert taken == before


class _Late(LoopThread):
    """Goes on only when what it submitted is done."""

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = super().submit(work)
        future.exception(timeout=10)
        return future


def test_a_loop_ends_after_work_that_is_done_before_anybody_looks() -> None:
    before = set(threading.enumerate())
    _Late("a loop").end_after(asyncio.sleep(0))
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
