"""The limits that docs/security.md names are those that there are, with their defaults."""

from __future__ import annotations

import re
from pathlib import Path

from armory.config.blocks.server import LimitsConfig

TEXT = (Path(__file__).parents[2] / "docs/security.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z_]+)` \| ([0-9.]+|null) \|", re.MULTILINE)


def test_every_limit_stands_there_with_its_default() -> None:
    told = {key: None if value == "null" else float(value) for key, value in ROW.findall(TEXT)}
    assert told == LimitsConfig().model_dump()
