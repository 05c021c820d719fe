"""Threads' turns are short while a catalog is taken over, and at no other time.

Owns: `armory.tasks.Turns` and where the catalog's keeper uses it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

import pytest

from armory.domain.catalog import ServerLists
from armory.domain.tool import ToolRecord
from armory.runtime.catalog import CatalogKeeper
from armory.tasks import SHORT_S, Turns


def test_turns_are_short_until_the_last_one_has_left() -> None:
    usual = sys.getswitchinterval()
    turns = Turns()
    with turns.short():
        assert sys.getswitchinterval() < usual
        with turns.short():
            pass
        assert abs(sys.getswitchinterval() - SHORT_S) < SHORT_S / 2
    assert sys.getswitchinterval() == usual


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
