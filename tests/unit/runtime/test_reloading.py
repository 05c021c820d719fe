"""What a changed configuration is said to do: compared with what is in force, not with a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from armory.config import Config, load_text
from armory.runtime.reloading import difference

BEGAN: dict[str, Any] = {"server": {"port": 8091}, "tool_rag": {"max_tools": 5}}
PORT: dict[str, Any] = {"server": {"port": 8095}}
TOKENS: dict[str, Any] = {"security": {"tokens": {"t": {"token": "a-token-long-enough"}}}}
KEY: dict[str, Any] = {"security": {"encryption_key": ["a-key-that-is-long-enough"]}}
MODEL: dict[str, Any] = {"tool_rag": {"max_tools": 5, "embedding_model": "hash"}}
FEWER: dict[str, Any] = {"tool_rag": {"max_tools": 4}}
BOTH: dict[str, Any] = {"tool_rag": {"max_tools": 4, "embedding_model": "hash"}}


def config(*changes: dict[str, Any]) -> Config:
    blocks = dict(BEGAN)
    for change in changes:
        blocks.update(change)
    return load_text(json.dumps(blocks)).config


@pytest.mark.parametrize(
    ("last", "new", "applied", "needs_restart"),
    [
        (config(), config(PORT), [], ["server"]),
        (config(PORT), config(PORT), [], ["server"]),  # read before, and still due
        (config(PORT), config(PORT, FEWER), ["tool_rag"], ["server"]),
        (config(PORT), config(), [], []),  # taken back before a restart
        (config(TOKENS), config(TOKENS), [], ["security.tokens"]),
        (config(TOKENS), config(), [], []),
        (config(), config(KEY), [], ["security.encryption_key"]),
        (config(MODEL), config(), [], []),
        (config(MODEL), config(BOTH), ["tool_rag"], ["tool_rag.embedding_model"]),
        (config(BOTH), config(), ["tool_rag"], []),
        (config(FEWER), config(FEWER), [], []),
    ],
)
def test_what_takes_a_restart_is_compared_with_what_runs(
    last: Config, new: Config, applied: list[str], needs_restart: list[str]
) -> None:
    report = difference(config(), last, new)
    assert (report.applied, report.needs_restart) == (applied, needs_restart)
