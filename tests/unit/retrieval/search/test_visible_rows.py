"""The rows of what a caller sees, however much of the catalog that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from armory.domain.query import VisibleSet
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.search.threads import SearchThreads
from armory.retrieval.search.visible_rows import VisibleRows
from armory.retrieval.snapshot import Snapshot, words_only
from tests.unit.retrieval.conftest import MakeTool

TOOLS = 40


class LookedUp(dict[str, int]):
    """Rows by name that say how many were looked up one by one."""

    lookups = 0

    def __getitem__(self, name: str) -> int:
        self.lookups += 1
        return super().__getitem__(name)


@pytest.fixture
def snapshot(make_tool: MakeTool) -> Snapshot:
    made = words_only([make_tool(f"t{n}") for n in range(TOOLS)], LexicalIndex().freeze())
    return replace(made, row_of=LookedUp(made.row_of))


@pytest.fixture
def threads() -> Iterator[SearchThreads]:
    made = SearchThreads()
    yield made
    made.shutdown()


@pytest.mark.anyio
@pytest.mark.parametrize("step", [2, 3, 7, 39])
async def test_some_tools_are_rows_in_order(
    snapshot: Snapshot, threads: SearchThreads, step: int
) -> None:
    wanted = [*range(0, TOOLS, step)]
    names = frozenset(("srv__elsewhere", *(f"srv__t{n}" for n in wanted)))
    rows = await VisibleRows(threads).rows(snapshot, VisibleSet(names))
    assert rows is not None
    assert rows.tolist() == wanted


@pytest.mark.anyio
async def test_many_are_found_in_one_pass(snapshot: Snapshot, threads: SearchThreads) -> None:
    names = frozenset((*snapshot.row_of, "srv__elsewhere"))
    assert await VisibleRows(threads).rows(snapshot, VisibleSet(names)) is None
    assert isinstance(snapshot.row_of, LookedUp)
    assert not snapshot.row_of.lookups
