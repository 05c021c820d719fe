"""Which questions a client can be asked."""

from __future__ import annotations

from typing import Any

import pytest

from armory.protocol.versions import Era
from armory.testing.front import raws
from armory.wire.eras.questions import may_ask

INFO = {"name": "armory", "version": "1"}
VERSION = "2026-07-28"


@pytest.mark.parametrize(
    ("method", "params", "capabilities", "era", "version", "may"),
    [
        ("ping", {}, {}, "legacy", "2025-06-18", True),
        ("ping", {}, {}, "modern", VERSION, False),
        ("nope", {}, {"roots": {}}, "legacy", "2025-06-18", False),
        ("roots/list", {}, {"roots": {}}, "legacy", "2025-06-18", True),
        ("roots/list", {}, {}, "legacy", "2025-06-18", False),
        ("elicitation/create", {}, {"elicitation": {}}, "legacy", "2025-06-18", True),
        ("elicitation/create", {}, {"elicitation": {"url": {}}}, "legacy", "2025-11-25", False),
        ("elicitation/create", {}, {"elicitation": {"form": {}, "url": {}}}, "modern", "", True),
        ("elicitation/create", {"mode": "url"}, {"elicitation": {}}, "modern", VERSION, False),
        ("elicitation/create", {"mode": "url"}, {"elicitation": {"url": {}}}, "modern", "", True),
        (
            "elicitation/create",
            {"mode": "url"},
            {"elicitation": {"url": {}}},
            "legacy",
            "2025-06-18",
            False,
        ),
        (
            "elicitation/create",
            {"mode": "url"},
            {"elicitation": {"url": {}}},
            "legacy",
            "2025-11-25",
            True,
        ),
        ("elicitation/create", {}, {"elicitation": 3}, "modern", VERSION, True),
    ],
)
def test_who_may_be_asked(
    method: str,
    params: dict[str, Any],
    capabilities: dict[str, Any],
    era: Era,
    version: str,
    may: bool,
) -> None:
    assert may_ask(method, raws(params), capabilities, era, version) is may
