"""Who waits for whom in a session that several clients share."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest
from msgspec import Raw

from armory.protocol.link import Call
from armory.testing.clients.recording import RecordingClient
from armory.upstreams.session import turns
from armory.upstreams.session.turns import Silent, Turns, asks_possible

pytestmark = pytest.mark.anyio
BOUND_S = 10.0


def call(name: str, *capabilities: str) -> Call:
    client = RecordingClient({capability: {} for capability in capabilities})
    return Call("tools/call", {"name": Raw(f'"{name}"'.encode())}, client=client)


def reading(uri: str) -> Call:
    client = RecordingClient({"sampling": {}})
    return Call("resources/read", {"uri": Raw(f'"{uri}"'.encode())}, client=client)


class Session:
    """Turns, and the calls that are under way by them."""

    def __init__(self, alone_s: float) -> None:
        self.under_way: list[str] = []
        self.turns = Turns(Silent(), lambda: len(self.under_way), alone_s=alone_s)

    def turn(self, name: str) -> AbstractAsyncContextManager[None] | None:
        return self.turns.alone_at_first(call(name, "sampling"), patient=True)

    async def run(self, name: str, end: asyncio.Event, *, asks: bool = False) -> None:
        called = call(name, "sampling")
        turn = self.turns.alone_at_first(called, patient=True)
        assert turn is not None
        async with turn:
            self.under_way.append(name)
            if asks and (asked := self.turns.of(called)) is not None:
                self.turns.questions += 1
                asked.begin_asking()
                asked.end_asking()
            await end.wait()
            self.under_way.remove(name)
            self.turns.ended(called)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_first_call_of_a_tool_runs_alone() -> None:
    session, ends = Session(BOUND_S * 2), [asyncio.Event(), asyncio.Event()]
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        for name, end in zip(("one", "two"), ends, strict=True):
            group.create_task(session.run(name, end))
        await settle()
        assert session.under_way == ["one"]
        ends[0].set()
        await settle()
        assert session.under_way == ["two"]
        ends[1].set()


async def test_what_ended_without_a_question_waits_for_nobody() -> None:
    session, end = Session(BOUND_S * 2), asyncio.Event()
    end.set()
    async with asyncio.timeout(BOUND_S):
        await session.run("quiet", end)
    assert session.turn("quiet") is None
    assert session.turn("other") is not None


async def test_resources_without_end_take_no_place_of_a_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_KNOWN", 3)
    session, end = Session(BOUND_S * 2), asyncio.Event()
    end.set()

    async def read(uri: str) -> None:
        called = reading(uri)
        turn = session.turns.alone_at_first(called, patient=True)
        if turn is not None:
            async with turn:
                session.turns.ended(called)

    async with asyncio.timeout(BOUND_S):
        for number in range(9):
            await read(f"file:///{number}")
        for name in ("one", "two"):
            await session.run(name, end)
    assert session.turn("one") is session.turn("two") is None
    used_last = session.turns.alone_at_first(reading("file:///8"), patient=True)
    used_before = session.turns.alone_at_first(reading("file:///0"), patient=True)
    assert used_last is None
    assert used_before is not None, "what was used last stays"


async def test_what_asked_keeps_others_waiting_until_its_end() -> None:
    session, ends = Session(0.0), [asyncio.Event(), asyncio.Event()]
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        group.create_task(session.run("asks", ends[0], asks=True))
        await settle()
        group.create_task(session.run("asks", ends[1]))
        await settle()
        assert session.under_way == ["asks"]
        ends[0].set()
        ends[1].set()
    assert session.turn("asks") is not None


async def test_a_slow_first_call_keeps_nobody_waiting_for_long() -> None:
    session, ends = Session(0.0), [asyncio.Event(), asyncio.Event()]
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        for end in ends:
            group.create_task(session.run("slow", end))
        while len(session.under_way) < 2:  # noqa: ASYNC110 nothing tells when a timer has passed
            await asyncio.sleep(0)
        for end in ends:
            end.set()


async def test_what_was_given_up_may_still_ask() -> None:
    session = Session(BOUND_S * 2)
    session.turns.given_up(7)
    assert session.turns.abandoned()
    assert session.turns.answered_late(7)
    assert not session.turns.abandoned()
    assert not session.turns.answered_late(7)


def test_only_some_calls_of_some_clients_can_be_asked() -> None:
    assert asks_possible(call("x", "roots"))
    assert not asks_possible(call("x"))
    assert not asks_possible(Call("tools/call", {}))
    assert not asks_possible(Call("tools/list", {}, client=RecordingClient({"roots": {}})))


async def test_what_was_given_up_is_not_kept_where_nobody_waits_for_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_ABANDONED_S", 0.0)
    session = Session(0.0)
    for number in range(1_000):
        session.turns.given_up(number)
    assert len(session.turns._abandoned) < 10  # pyright: ignore[reportPrivateUsage]


def test_methods_without_end_take_bounded_room() -> None:
    silent = Silent()
    silent.add("tools/call", b'"a"')
    for number in range(12_000):
        silent.add(f"vendor/{number}", b"")
    silent.add("x" * 10_000, b"")

    assert silent.has("tools/call", b'"a"')
    assert sum(silent.has(f"vendor/{number}", b"") for number in range(12_000)) == 5_000
    assert not silent.has("x" * 10_000, b"")
