"""How many there are of something, in words."""

from __future__ import annotations

import pytest

from armory.cli.output import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 searches"), (1, "1 search"), (2, "2 searches")]
)
def test_one_is_no_plural(number: int, said: str) -> None:
    assert counted(number, "search", "searches") == said
    assert counted(number, "tool", width=3) == f"  {number} tool{'s' if number != 1 else ''}"
    assert counted(number, "tool") == f"{number} tool{'s' if number != 1 else ''}"
