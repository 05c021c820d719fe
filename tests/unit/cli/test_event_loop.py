from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from typing import Any, Literal

import pytest

from armory.cli.gateway import event_loop
from armory.cli.gateway.event_loop import Lookups, loop_factory

WAIT_S = 10.0


class Names:
    """A name server: names that begin with `slow` wait until it is told."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()

    def lookup(self, host: str, *_more: Any) -> list[Any]:
        self.asked.append(host)
        self.threads.add(threading.current_thread())
        if host.startswith("slow"):
            self.waiting.release()
            assert self.answers.wait(WAIT_S)
        if host == "unknown":
            raise socket.gaierror(-2, "Name or service not known")
        return [host]


@pytest.fixture
def names() -> Generator[Names]:
    server = Names()
    yield server
    server.answers.set()
    for thread in server.threads:
        thread.join(WAIT_S)


@pytest.mark.anyio
async def test_names_that_hang_hold_up_no_other(names: Names) -> None:
    lookups = Lookups(names.lookup, idle_s=0)
    waiting = [asyncio.ensure_future(lookups.of(f"slow{i}", 80)) for i in range(20)]
    async with asyncio.timeout(WAIT_S):
        assert await lookups.of("quick", 80) == ["quick"]
        with pytest.raises(socket.gaierror, match="not known"):
            await lookups.of("unknown", 80)
        names.answers.set()
        assert await asyncio.gather(*waiting) == [[f"slow{i}"] for i in range(20)]


@pytest.mark.anyio
async def test_a_name_is_looked_up_once_at_a_time_whoever_stops_waiting(names: Names) -> None:
    lookups = Lookups(names.lookup, idle_s=0)
    first, second = (asyncio.ensure_future(lookups.of("slow", 80)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    names.answers.set()
    async with asyncio.timeout(WAIT_S):
        assert await second == ["slow"]
        assert first.cancelled()
        assert names.asked == ["slow"]
        assert await lookups.of("slow", 80) == ["slow"]
    assert names.asked == ["slow"] * 2, "nothing is kept"


@pytest.mark.anyio
async def test_of_too_many_names_some_wait_and_threads_are_used_again(names: Names) -> None:
    lookups = Lookups(names.lookup, most=2, idle_s=WAIT_S)
    waiting = [asyncio.ensure_future(lookups.of(f"slow{i}", 80)) for i in range(6)]
    await asyncio.sleep(0)
    assert all(names.waiting.acquire(timeout=WAIT_S) for _ in range(2))
    assert not names.waiting.acquire(timeout=0.05)
    names.answers.set()
    async with asyncio.timeout(WAIT_S):
        assert len(await asyncio.gather(*waiting)) == 6
    assert len(names.threads) == 2
    names.threads.clear()  # they wait for more, as daemons


@pytest.mark.anyio
async def test_where_no_thread_can_be_started_it_says_so_and_tries_again(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = Lookups(names.lookup, idle_s=0)
    with monkeypatch.context() as patched:

        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread to look it up"):
            await lookups.of("here", 80)
    async with asyncio.timeout(WAIT_S):
        assert await lookups.of("here", 80) == ["here"]


@pytest.mark.parametrize("kind", ["auto", "asyncio"])
def test_an_event_loop_looks_names_up_in_them(
    names: Names, kind: Literal["auto", "asyncio"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "_LOOKUPS", Lookups(names.lookup, idle_s=0))

    async def found(host: str) -> Any:
        return await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)

    with asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        assert runner.run(found("here")) == ["here"]
        assert runner.run(found("127.0.0.1"))[0][4] == ("127.0.0.1", 80)
        assert runner.run(found("::1"))[0][4] == ("::1", 80, 0, 0)
        assert names.asked == ["here"], "an address needs no lookup"
        name = type(runner.get_loop()).__mro__[2].__module__
    assert name.startswith("uvloop" if kind == "auto" else "asyncio")


@pytest.mark.parametrize("kind", ["auto", "asyncio"])
def test_a_loop_ends_while_a_name_hangs(
    names: Names, kind: Literal["auto", "asyncio"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "_LOOKUPS", Lookups(names.lookup, idle_s=0))

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.get_running_loop().getaddrinfo("slow", 80)

    with asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        runner.run(give_up())
    assert not names.answers.is_set()
