"""The limits that docs/security.md names are those that there are, with their defaults."""

from __future__ import annotations

import re
from pathlib import Path

from armory.config.blocks.server import LimitsConfig

TEXT = (Path(__file__).parents[2] / "docs/security.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z_]+)` \| ([0-9.]+|null) \|", re.MULTILINE)


SHOWN = re.compile(r"`([a-z_0-9/]+\.py)::(test_[a-z_0-9]+)`")


def test_every_attack_has_tests_that_exist() -> None:
    _, _, table = TEXT.partition("## Which test shows what")
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    tests = Path(__file__).parents[1]
    for row in rows:
        shown = SHOWN.findall(row)
        assert shown, row
        for file, name in shown:
            assert f"def {name}(" in (tests / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_every_limit_stands_there_with_its_default() -> None:
    told = {key: None if value == "null" else float(value) for key, value in ROW.findall(TEXT)}
    assert told == LimitsConfig().model_dump()
