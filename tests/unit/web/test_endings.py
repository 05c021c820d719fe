"""Connections that end together end in several turns."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from armory.testing.waiting import until
from armory.web.connections.endings import AT_ONCE, Endings

pytestmark = pytest.mark.anyio


async def test_others_have_their_turn_between_a_few() -> None:
    endings, ended, turns = Endings(), list[int](), list[int]()
    loop = asyncio.get_running_loop()

    def look() -> None:
        turns.append(len(ended))
        if len(endings):
            loop.call_soon(look)

    for number in range(100):
        endings.add(lambda number=number: ended.append(number))
    loop.call_soon(look)
    await until(lambda: len(ended) == 100)
    assert ended == list(range(100))
    assert max(after - before for before, after in itertools.pairwise(turns)) <= AT_ONCE


async def test_one_may_add_another() -> None:
    endings, ended = Endings(), list[str]()
    endings.add(lambda: endings.add(lambda: ended.append("added")))
    endings.add(lambda: ended.append("second"))
    await until(lambda: ended == ["second", "added"])
