"""What `armory search --agent` shows of single events."""

from __future__ import annotations

import io

import pytest

from armory.agent.findings import Event
from armory.cli.catalog.agent import show_event
from armory.cli.printing import PlainConsole


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "I can't help [with] that.",
            "it has no fields; the model wrote:\nI can't help [with] that.",
        ),
        ("  ", "it has no fields\n"),
    ],
)
def test_a_turn_that_cannot_be_read_is_shown(written: str, shown: str) -> None:
    console = PlainConsole(file=io.StringIO(), width=100)
    show_event(console, Event("malformed", "it has no fields", 0, 100.0, {"written": written}))
    assert isinstance(console.file, io.StringIO)
    assert shown in console.file.getvalue()
