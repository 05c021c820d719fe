"""Completion in shells, as docs/operating.md sets it up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from armory.cli.main import cli

ROOT = Path(__file__).parents[3]
SHELLS = re.findall(
    r"_ARMORY_COMPLETE=([a-z]+)_source armory", (ROOT / "docs/operating.md").read_text()
)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("before", "typed", "offered"),
    [
        ([], "va", ["validate"]),
        (["keys"], "", ["create", "list", "revoke"]),
        (["search"], "--ra", ["--ranker"]),
        (["search", "--ranker"], "lex", ["lexical"]),
    ],
)
def test_each_documented_shell_is_offered_commands_options_and_values(
    shell: str, before: list[str], typed: str, offered: list[str]
) -> None:
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(cli, {}, "armory", "_ARMORY_COMPLETE")
    found = [item.value for item in completion.get_completions(before, typed)]
    assert found == offered


def test_the_three_shells_are_documented() -> None:
    assert SHELLS == ["bash", "zsh", "fish"]
