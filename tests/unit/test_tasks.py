from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from armory.tasks import Tasks, spawn, start, step_back, stop

pytestmark = pytest.mark.anyio


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("broken")


async def test_a_failure_that_nobody_waits_for_is_logged_once() -> None:
    with capture_logs() as logs:
        task = spawn(fail(), "doomed")
        await asyncio.wait([task])
        await asyncio.sleep(0)
        await stop(task)
    assert [(entry["event"], entry["task"]) for entry in logs] == [("task_failed", "doomed")]
    assert str(logs[0]["exc_info"]) == "broken"


async def test_an_awaited_failure_is_the_waiters() -> None:
    with capture_logs() as logs, pytest.raises(ValueError, match="broken"):
        await start(fail(), "awaited")
    assert logs == []


async def test_stop_waits_until_they_have_ended_and_raises_nothing() -> None:
    steps: list[str] = []

    async def tidy() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            steps.append("tidied")

    tidying, failed = start(tidy(), "tidy"), start(fail(), "failed")
    await asyncio.sleep(0)
    await stop(tidying, None, failed)
    assert (steps, tidying.cancelled(), failed.done()) == (["tidied"], True, True)


async def test_stop_does_not_wait_for_the_task_that_calls_it() -> None:
    tasks = Tasks()

    async def end_all() -> str:
        await tasks.stop()
        return "went on"

    other = tasks.spawn(forever(), "other")
    assert await tasks.start(end_all(), "own") == "went on"
    assert other.cancelled()
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_one_that_does_not_end_in_time_is_named() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await forever()
            except asyncio.CancelledError:
                continue

    task = start(stubborn(), "stubborn")
    await asyncio.sleep(0)
    with capture_logs() as logs:
        await stop(task, timeout_s=0.01)
    assert [entry["tasks"] for entry in logs] == [["stubborn"]]
    await stop(task)


async def test_ended_waits_for_those_that_are_started_meanwhile() -> None:
    tasks = Tasks()
    steps: list[str] = []

    async def second() -> None:
        steps.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        tasks.spawn(second(), "second")
        steps.append("first")

    tasks.spawn(first(), "first")
    await tasks.ended()
    assert steps == ["first", "second"]


_GETATTR = {"x86_64": 315, "aarch64": 275}


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in _GETATTR, reason="Linux alone has slices"
)
def test_a_thread_that_computes_gives_way_whenever_the_event_loop_wakes() -> None:
    def seen() -> tuple[int, int]:
        step_back(3)
        thread = threading.get_native_id()
        said = ctypes.create_string_buffer(48)
        if ctypes.CDLL(None).syscall(_GETATTR[os.uname().machine], thread, said, 48, 0):
            pytest.skip("this kernel does not tell")
        nice, _, slice_ns = struct.unpack("=iIQ", said.raw[16:32])  # after size, policy and flags
        return nice, slice_ns

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    with ThreadPoolExecutor(1) as pool:
        nice, slice_ns = pool.submit(seen).result(20)
    assert nice == min(before + 3, 19)
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12):
        assert slice_ns == 100_000_000
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
