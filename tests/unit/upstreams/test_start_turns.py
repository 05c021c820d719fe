"""Processes start a few at a time; the others wait in line and say so."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from armory.domain.principal import Principal
from armory.protocol.link import Owner
from armory.tasks import start, stop
from armory.testing.clients.recording import RecordingObserver
from armory.testing.waiting import until
from armory.upstreams.connecting.start_turns import StartTurns, Waiting
from armory.upstreams.connecting.starting import Starting
from armory.upstreams.pool import Pool
from armory.upstreams.session.context import LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio

PATHS = ":".join(path for path in sys.path if path)
SERVER = f"exec {sys.executable} -m armory.testing.upstreams.stdio --era modern"


class Starter:
    """Who starts nothing."""

    def __init__(self, *awaited: Starting | Waiting) -> None:
        self.awaited = [*awaited]


def gated(folder: Path, number: int) -> UpstreamSpec:
    """A server that begins when somebody writes to its gate."""
    gate = folder / f"gate-{number}"
    os.mkfifo(gate)
    script = f"touch {folder}/began-{number}; cat {gate} >&2; {SERVER}"
    return UpstreamSpec(
        f"up-{number}",
        command="sh",
        args=("-c", script),
        env={"PYTHONPATH": PATHS},
        start_timeout_s=600.0,
        patient=True,
    )


def begun(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("began-*"))


async def test_the_next_starts_when_one_has_and_who_waits_says_for_what(tmp_path: Path) -> None:
    pool = Pool([gated(tmp_path, number) for number in range(4)], concurrent_starts=2)
    supervisor = Supervisor(pool, lambda _server, _lists: None)
    await supervisor.start()
    try:
        await until(lambda: len(begun(tmp_path)) == 2)
        status = supervisor.status()
        assert "has not answered yet" in status["up-0"].awaited
        assert status["up-2"].awaited == (
            "waits for its turn: 2 others start now (server.limits.concurrent_starts)"
        )
        assert "2 others start now, 1 comes before it" in status["up-3"].awaited
        await asyncio.to_thread((tmp_path / "gate-0").write_bytes, b"go\n")
        await until(lambda: supervisor.status()["up-0"].state == "ready")
        await until(lambda: len(begun(tmp_path)) == 3)
        assert begun(tmp_path) == ["began-0", "began-1", "began-2"]
        assert "has not answered yet" in supervisor.status()["up-2"].awaited
    finally:
        await supervisor.stop()
        await pool.close()


async def test_a_caller_of_its_own_process_waits_for_no_turn(tmp_path: Path) -> None:
    own = UpstreamSpec("own", command="sh", args=("-c", SERVER), env={"PYTHONPATH": PATHS})
    pool = Pool([gated(tmp_path, 0), own], concurrent_starts=1)
    supervisor = Supervisor(pool, lambda _server, _lists: None)
    await supervisor.start()
    try:
        await until(lambda: len(begun(tmp_path)) == 1)
        _, link = await pool.upstream("own").links.opened(Owner(Principal("ann")), {})
        assert link.era == "modern"
        assert "waits for its turn" in supervisor.status()["own"].awaited
    finally:
        await supervisor.stop()
        await pool.close()


async def test_one_that_fails_or_is_given_up_lets_the_next_begin() -> None:
    turns = StartTurns(1)
    order: list[str] = []

    async def taking(name: str, end: asyncio.Event) -> None:
        async with turns.turn(Starter()):
            order.append(name)
            await end.wait()
            raise RuntimeError(name)

    ends = [asyncio.Event() for _ in range(4)]
    tasks = [start(taking(str(number), end), "a start") for number, end in enumerate(ends)]
    try:
        await until(lambda: order == ["0"])
        await stop(tasks[1])  # while it waits
        ends[0].set()
        await until(lambda: order == ["0", "2"])
        await stop(tasks[2])  # while it starts
        await until(lambda: order == ["0", "2", "3"])
    finally:
        await stop(*tasks)
    async with asyncio.timeout(60), turns.turn(Starter()):
        pass


@pytest.mark.parametrize(
    ("script", "passed_on"), [("exec cat", True), ("while :; do :; done", False)]
)
async def test_a_start_that_does_nothing_lets_the_next_begin(script: str, passed_on: bool) -> None:
    looks: list[int] = []

    class Watched(Starting):
        def work_done(self) -> int:
            looks.append(super().work_done())
            return looks[-1]

    turns = StartTurns(1, look_s=0.5)
    spec = UpstreamSpec("up", command="sh", args=("-c", f"{script} >/dev/null"))
    link = StdioLink(LinkContext(spec, {}, RecordingObserver()))
    await link.open()
    first, second = Starter(Watched(link)), Starter()

    async def next_one() -> None:
        async with turns.turn(second):
            pass

    waiting: asyncio.Task[None] | None = None
    try:
        async with turns.turn(first):
            waiting = start(next_one(), "the next start")
            await until(lambda: looks[-1:] == looks[-2:-1] if passed_on else len(set(looks)) > 2)
            if passed_on:
                async with asyncio.timeout(60):
                    await waiting
            else:
                assert [type(one) for one in second.awaited] == [Waiting]
        async with asyncio.timeout(60):
            await waiting
        assert not second.awaited
    finally:
        await stop(waiting)
        await link.close()


async def test_who_gives_up_as_a_turn_comes_free_takes_none() -> None:
    turns, starter = StartTurns(1), Starter()
    ended = [asyncio.Event() for _ in range(3)]
    begun: list[int] = []

    async def process(number: int) -> None:
        async with turns.turn(starter):
            begun.append(number)
            await ended[number].wait()

    first, second = (start(process(number), f"process {number}") for number in range(2))
    await until(lambda: bool(starter.awaited))
    ended[0].set()
    second.cancel()  # hears of it just after the first one has ended
    await asyncio.wait((first, second))
    third, fourth = (start(process(number), f"process {number}") for number in (1, 2))
    await until(lambda: bool(starter.awaited) or len(begun) == 3)
    assert begun == [0, 1]
    await stop(third, fourth)
