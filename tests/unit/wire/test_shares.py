"""Whoever has many requests under way begins one in a turn, where others ask something as well.

Owns: `armory.wire.sessions.turns.Shares`.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from armory.wire.sessions.turns import MANY, Shares

pytestmark = pytest.mark.anyio
COUNT = 40


class Asked:
    """Requests that begin, each in which round of the loop, and stay under way until `end`."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self.round = 0
        self.begun: Counter[int] = Counter()
        self.end = asyncio.Event()

    async def ask(self, caller: str) -> None:
        crowded = self._shares.enter(caller)
        try:
            if crowded:
                await self._shares.turn(caller)
            self.begun[self.round] += 1
            await self.end.wait()
        finally:
            self._shares.leave(caller)

    async def all_begun(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.begun.total() < count:
                await asyncio.sleep(0)
                self.round += 1


async def test_beside_others_one_begins_in_a_turn_once_many_are_under_way() -> None:
    shares = Shares()
    other, much = Asked(shares), Asked(shares)
    async with asyncio.TaskGroup() as group:
        group.create_task(other.ask("other"))
        await other.all_begun(1)
        for _ in range(COUNT):
            group.create_task(much.ask("much"))
        await much.all_begun(COUNT)
        assert sorted(much.begun.values())[-1] == MANY
        assert sorted(much.begun.values())[-2] == 1
        few = Asked(shares)  # whoever asks little begins at once
        few_task = group.create_task(few.ask("few"))
        await few.all_begun(1)
        assert few.round == 1
        for asked in (other, much, few):
            asked.end.set()
        await few_task
    assert not shares.enter("much")  # nothing is left of all that


async def test_alone_nobody_waits() -> None:
    shares = Shares()
    alone = Asked(shares)
    async with asyncio.TaskGroup() as group:
        for _ in range(COUNT):
            group.create_task(alone.ask("alone"))
        await alone.all_begun(COUNT)
        assert alone.round == 1
        alone.end.set()


async def test_one_that_is_given_up_leaves_its_turn() -> None:
    shares = Shares()
    asked = Asked(shares)
    async with asyncio.TaskGroup() as group:
        group.create_task(asked.ask("other"))
        tasks = [group.create_task(asked.ask("much")) for _ in range(COUNT)]
        for task in tasks[MANY:]:
            task.cancel()
        await asked.all_begun(1 + MANY)
        await asyncio.wait(tasks[MANY:], timeout=30)
        assert all(task.cancelled() for task in tasks[MANY:])
        asked.end.set()
    assert not shares.enter("much")
