"""What goes through 100,000 entries in a thread gives way at each: a step of C gives none.

Counted in bytecodes, between which the interpreter may be taken over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from armory.domain.catalog import ServerLists, same_order
from armory.domain.catalog_builder import build_catalog
from armory.runtime.catalog.keeper import searchable_records
from armory.threads import copied

MANY = 3_000


def bytecodes(work: Callable[[], object]) -> int:
    """How many bytecodes a call executes, those of generators and comprehensions among them."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def named(count: int) -> list[str]:
    return [f"tool_{number}" for number in range(count)]


NAMES, AGAIN = named(MANY), dict.fromkeys(named(MANY))
CATALOG, _ = build_catalog(
    {"s": ServerLists(tools=[{"name": name, "inputSchema": {}} for name in NAMES])}
)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda: same_order(NAMES, AGAIN), id="same order"),
        pytest.param(lambda: copied(AGAIN), id="copied"),
        pytest.param(lambda: searchable_records(CATALOG, ()), id="searchable"),
    ],
)
def test_each_entry_is_a_step_of_its_own(work: Callable[[], object]) -> None:
    assert bytecodes(work) > MANY


def test_the_same_order_is_that_of_the_same_names() -> None:
    names = named(3)
    assert same_order(names, dict.fromkeys(names))
    assert same_order((), {})
    assert not same_order(names, names[:2])
    assert not same_order(names, [*reversed(names)])


def test_a_copy_is_another_table() -> None:
    table = {"a": 1, "b": 2}
    again = copied(table)
    assert again == table
    assert [*again] == ["a", "b"]
    assert again is not table
