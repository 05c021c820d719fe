"""Whose turn it is while clients are asked."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from armory.protocol.link import Call
from armory.testing.waiting import until
from armory.upstreams.session import lane as lanes
from armory.upstreams.session.lane import Lane, Turn
from armory.upstreams.session.turns import Silent, Turns

pytestmark = pytest.mark.anyio
BOUND_S = 10.0


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def call(name: str = "asks") -> Call:
    return Call("tools/call", {"name": Raw(f'"{name}"'.encode())})


def key(name: str) -> tuple[str, bytes]:
    return "tools/call", f'"{name}"'.encode()


async def lent(turn: Turn) -> None:
    """Its client is asked for too long."""
    await turn.take()
    turn.begin_asking()
    await until(lambda: turn.lent)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "OPEN_S", 0.01)


async def test_a_program_answers_within_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "OPEN_S", 3_600.0)
    lane = Lane()
    turn, other = Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        await turn.take()
        turn.begin_asking()
        waiting = group.create_task(other.take())
        await settle()
        turn.end_asking()
        await turn.go_on()
        assert turn.held
        assert not waiting.done()
        turn.end()
    assert other.held


async def test_a_person_who_thinks_lets_others_pass() -> None:
    lane = Lane()
    turn, other = Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S):
        await turn.take()
        turn.begin_asking()
        await other.take()
        turn.end_asking()
        going_on = asyncio.create_task(turn.go_on())
        await settle()
        assert not going_on.done()
        other.end()
        await going_on
    assert turn.held
    assert not turn.lent


async def test_an_answer_comes_before_calls_that_begin() -> None:
    lane, order = Lane(), list[str]()
    turn, other, third = Turn(lane), Turn(lane), Turn(lane)

    async def begin() -> None:
        await third.take()
        order.append("third")
        third.end()

    async def go_on() -> None:
        await turn.go_on()
        order.append("answered")
        turn.end()

    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        await lent(turn)
        await other.take()
        group.create_task(begin())
        await settle()
        turn.end_asking()
        group.create_task(go_on())
        await settle()
        other.end()
    assert order == ["answered", "third"]


@pytest.mark.parametrize("asked", ["before", "after"])
async def test_whoever_is_asked_lends_its_turn_to_an_answer(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = Lane()
    turn, other = Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S):
        await lent(turn)
        monkeypatch.setattr(lanes, "OPEN_S", 3_600.0)
        await other.take()
        turn.end_asking()
        if asked == "before":
            other.begin_asking()
        going_on = asyncio.create_task(turn.go_on())
        await settle()
        if asked == "after":
            assert not going_on.done()
            other.begin_asking()
        await going_on
    assert turn.held
    assert other.lent


async def test_a_call_that_waits_for_two_answers_has_its_turn_after_either() -> None:
    lane = Lane()
    turn, other, third = Turn(lane), Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        await turn.take()
        turn.begin_asking()
        turn.begin_asking()
        await other.take()
        turn.end_asking()
        again = [group.create_task(turn.go_on()) for _ in "12"]
        await settle()
        assert not any(task.done() for task in again)
        other.end()
        await until(lambda: all(task.done() for task in again))
        await third.take()  # since the second question is still open
        assert turn.lent
        turn.end()
        third.end()
    assert lane.holder is None


async def test_what_has_no_turn_needs_none_to_go_on() -> None:
    lane = Lane()
    turn, slow = Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S):
        await turn.take()
        slow.begin_asking()
        slow.end_asking()
        await slow.go_on()
    assert turn.held
    assert not slow.held


async def test_a_call_that_ended_takes_no_turn_any_more() -> None:
    lane = Lane()
    turn, other = Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        await lent(turn)
        await other.take()
        turn.end_asking()
        group.create_task(turn.go_on())
        await settle()
        turn.end()
        assert other.held
        other.end()
    assert lane.holder is None


@pytest.mark.parametrize("handed", [False, True])
async def test_a_call_that_is_cancelled_while_it_waits_keeps_nobody_waiting(handed: bool) -> None:
    lane = Lane()
    turn, gone, third = Turn(lane), Turn(lane), Turn(lane)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        await turn.take()
        waiting = group.create_task(gone.take())
        await settle()
        group.create_task(third.take())
        await settle()
        if handed:
            turn.end()
            assert gone.held
            waiting.cancel()
        else:
            waiting.cancel()
            turn.end()
    assert third.held


async def test_a_call_that_is_given_up_while_it_is_asked_takes_nobody_their_turn() -> None:
    session, asked, end = Turns(Silent(), lambda: 0), call(), asyncio.Event()
    inside: list[int] = []

    async def parked() -> None:
        async with session.one_at_a_time(asked):
            turn = session.of(asked)
            assert turn is not None
            turn.begin_asking()
            await asyncio.Event().wait()

    async def beside(number: int) -> None:
        async with session.one_at_a_time(call()):
            inside.append(number)
            await end.wait()

    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        waiting = group.create_task(parked())
        for number in (1, 2):
            await settle()
            group.create_task(beside(number))
        await until(lambda: inside == [1])
        waiting.cancel()
        await settle()
        assert inside == [1]
        end.set()
    assert inside == [1, 2]
    assert session.of(asked) is None


async def test_where_people_share_only_what_never_asks_goes_by() -> None:
    lane = Lane(shared=True)
    turn, other = Turn(lane), Turn(lane)
    early, late, early_gone = (Turn(lane, quiet=True) for _ in range(3))
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as group:
        await turn.take()
        tasks = [group.create_task(each.take()) for each in (other, early, early_gone)]
        await settle()
        assert not any(task.done() for task in tasks)
        tasks[2].cancel()
        turn.begin_asking()
        await tasks[1]
        await late.take()
        assert turn.held
        assert turn.passed
        assert not tasks[0].done()
        turn.end_asking()
        after = group.create_task(Turn(lane, quiet=True).take())
        await settle()
        assert not after.done(), "the one that has its answer may ask again"
        early.end()
        turn.end()
        await tasks[0]
        other.end()
    assert lane.holder is not None


async def test_an_answer_waits_for_what_went_by() -> None:
    busy = 2
    session = Turns(Silent(), lambda: busy, alone_s=BOUND_S * 2, shared=True)
    session.questions = 1
    asked = call("asks")
    async with asyncio.timeout(BOUND_S), session.one_at_a_time(asked):
        turn = session.of(asked)
        assert turn is not None
        turn.passed = True
        going_on = asyncio.create_task(session.go_on(turn))
        await settle()
        assert not going_on.done()
        busy = 1
        session.ended(call("quiet"))
        await going_on


async def test_it_is_learnt_who_never_asks() -> None:
    silent = Silent()
    session = Turns(silent, lambda: 0)
    session.questions = 1
    async with asyncio.timeout(BOUND_S):
        async with session.one_at_a_time(call("echo")):
            pass
        async with session.one_at_a_time(call("beside")):
            session.questions += 1  # whose it was is not known
        assert [silent.has(*key(name)) for name in ("echo", "beside")] == [True, False]
        asked = call("echo")
        async with session.one_at_a_time(asked):
            turn = session.of(asked)
            assert turn is not None
            turn.begin_asking()
            turn.end_asking()
        async with session.one_at_a_time(call("echo")):
            pass
    assert not silent.has(*key("echo")), "it may ask again"


@pytest.mark.parametrize("waits", [True, False])
async def test_an_answer_waits_for_a_turn_but_not_for_a_slow_one(waits: bool) -> None:
    session = Turns(Silent(), lambda: 0, alone_s=BOUND_S * 2 if waits else 0.0)
    asked, other = call(), call()
    async with asyncio.timeout(BOUND_S), session.one_at_a_time(asked):
        turn = session.of(asked)
        assert turn is not None
        turn.begin_asking()
        async with session.one_at_a_time(other):
            turn.end_asking()
            going_on = asyncio.create_task(session.go_on(turn))
            await settle()
            if waits:
                assert not going_on.done()
            else:
                await going_on
                assert not turn.held
        await going_on
        assert turn.held is waits
