"""Foreign texts on a terminal: what it would obey is gone, everything else stays."""

from __future__ import annotations

import io
import json

import pytest
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from armory.cli.plain import plain, plain_json
from armory.cli.printing import PlainConsole


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Übung\t1\nnext 👩‍💻", "Übung\t1\nnext 👩‍💻"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
        ("a\x1b]0;without an end", "a0;without an end"),
        ("\x9b2Ja\x9d0;t\x9cb", "ab"),
        ("\x1bP1;2q#\x1b\\x\x1b(0y\x1b", "xy"),
        ("over\rwritten\x08\x7f\x00", "overwritten"),
        ("\u202egnp.exe\u2066", "\\u{202e}gnp.exe\\u{2066}"),
        ("\x1b" * 50, ""),
    ],
)
def test_what_a_terminal_would_obey_is_left_out(text: str, left: str) -> None:
    assert plain(text) == left


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\U000e0041\U000e007fb", "a\\u{e0041}\\u{e007f}b"),
        (
            "\u200bx\u2062\u061c\ufeff\u3164\ufe01",
            "\\u{200b}x\\u{2062}\\u{61c}\\u{feff}\\u{3164}\\u{fe01}",
        ),
        ("😀\U000e0101", "😀\\u{e0101}"),  # bytes that hide behind an emoji
        ("a\ufe0fb\u200dc\u200c", "a\\u{fe0f}b\\u{200d}c\\u{200c}"),
        ("👩\u200d\u200d💻", "👩\\u{200d}\\u{200d}💻"),
        (
            "👩🏽\u200d💻 🏳\ufe0f\u200d🌈 ⚠\ufe0f 1\ufe0f\u20e3",
            "👩🏽\u200d💻 🏳\ufe0f\u200d🌈 ⚠\ufe0f 1\ufe0f\u20e3",
        ),
        ("می\u200cشود क्\u200dष", "می\u200cشود क्\u200dष"),
    ],
)
def test_what_people_would_not_see_is_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown
    written = plain_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text
    assert (written == json.dumps(text, ensure_ascii=False)) is (shown == text)


def test_what_is_spelled_out_is_laid_out_whole() -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, width=40)
    hidden = "good " + "\U000e0041" * 8
    table = Table(box=None)
    table.add_column("description", overflow="fold")
    table.add_row(f"{hidden} seen")
    console.print(table)
    console.print(Padding(Text(f"{hidden} as well"), (0, 0, 0, 4)))
    told = "".join(file.getvalue().split())
    spelled = "good" + "\\u{e0041}" * 8
    assert told == f"description{spelled}seen{spelled}aswell"


def test_the_console_obeys_its_own_styles_alone() -> None:
    shown = io.StringIO()
    console = PlainConsole(file=shown, force_terminal=True, color_system="standard", width=60)
    table = Table(box=None)
    table.add_column("tool", style="bold")
    table.add_row("a\x1b[2Jb")
    console.print(table)
    console.print(Text("c\x1b]0;t\x07d", style="red"), soft_wrap=True)
    assert "\x1b[1m" in shown.getvalue()
    assert "\x1b[31mc0;td\x1b[0m" in shown.getvalue()
    assert "ab" in shown.getvalue()
    assert "[2J" not in shown.getvalue()


def test_json_means_the_same() -> None:
    text = json.dumps({"a": "\x9b2J\x7f é"}, ensure_ascii=False)
    assert plain_json(text) == '{"a": "\\u009b2J\\u007f é"}'
    assert json.loads(plain_json(text)) == json.loads(text)
