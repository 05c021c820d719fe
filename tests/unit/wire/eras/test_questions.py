"""Which questions a client can be asked."""

from __future__ import annotations

from typing import Any

import pytest

from armory.protocol import jsonrpc
from armory.protocol.versions import Era
from armory.testing.front import raws
from armory.wire.eras.questions import may_ask, refusal, required

INFO = {"name": "armory", "version": "1"}
VERSION = "2026-07-28"
SAMPLE = "sampling/createMessage"


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
        (SAMPLE, {"tools": []}, {"sampling": {}}, "modern", VERSION, True),
        (SAMPLE, {"tools": None, "toolChoice": None}, {"sampling": {}}, "modern", VERSION, True),
        (SAMPLE, {"tools": [{"name": "t"}]}, {"sampling": {}}, "modern", VERSION, False),
        (SAMPLE, {"toolChoice": {}}, {"sampling": {}}, "legacy", "2025-11-25", False),
        (SAMPLE, {"tools": [{}]}, {"sampling": {"tools": {}}}, "legacy", "2025-11-25", True),
        (SAMPLE, {"tools": [{}]}, {"sampling": 3}, "legacy", "2025-06-18", False),
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


def test_what_is_lacking_is_named_with_its_mode() -> None:
    assert required("elicitation/create", raws({"mode": "url"})) == {"elicitation": {"url": {}}}
    assert required("elicitation/create", {}) == {"elicitation": {"form": {}}}
    assert required("roots/list", {}) == {"roots": {}}
    assert required(SAMPLE, {}) == {"sampling": {}}
    assert required(SAMPLE, raws({"tools": [{}]})) == {"sampling": {"tools": {}}}
    assert required("nope", {}) == {"nope": {}}


def test_a_mode_that_was_not_declared_is_a_wrong_parameter() -> None:
    declared = {"elicitation": {"form": {}}}
    assert jsonrpc.code_of(refusal("elicitation/create", declared)) == -32602
    assert jsonrpc.code_of(refusal("elicitation/create", {"roots": {}})) == -32601
    assert jsonrpc.code_of(refusal("nope", declared)) == -32601
