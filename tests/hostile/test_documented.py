"""Tests and limits that the documents name are those that there are, limits with their defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from armory.config.blocks.server import LimitsConfig

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `([a-z_]+)` \| ([0-9.]+|null) \|", re.MULTILINE)


SHOWN = re.compile(r"`([a-z_0-9/]+\.py)::(test_[a-z_0-9]+)`")


@pytest.mark.parametrize(("document", "least"), [("security.md", 20), ("sessions.md", 9)])
def test_everything_has_tests_that_exist(document: str, least: int) -> None:
    text = (DOCS / document).read_text(encoding="utf-8")
    _, _, table = text.partition("## Which test shows what")
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= least
    tests = Path(__file__).parents[1]
    for row in rows:
        shown = SHOWN.findall(row)
        assert shown, row
        assert len(shown) == row.count(".py"), row
        for file, name in shown:
            assert f"def {name}(" in (tests / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_every_limit_stands_there_with_its_default() -> None:
    rows = ROW.findall((DOCS / "security.md").read_text(encoding="utf-8"))
    told = {key: None if value == "null" else float(value) for key, value in rows}
    assert told == LimitsConfig().model_dump()
