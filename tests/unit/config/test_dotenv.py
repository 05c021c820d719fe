"""A `.env` file: what is written is what is read, and what other tools write is read as they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.config import load_file
from armory.config.dotenv import read_variables, written
from armory.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=x y", "x y"),
        ("A=x # why", "x"),
        ("A=x#y", "x#y"),
        ("A= # nothing", ""),
        ("A=", ""),
        ('A="x y" # why', "x y"),
        ("A='x # y' # why", "x # y"),
        ('A="x # y"', "x # y"),
        (r'A="a\"b\\c\nd"', 'a"b\\c\nd'),
        (r'A="C:\data"', r"C:\data"),
        (r"A='a\nb'", r"a\nb"),
        ("A='it's'", "it's"),
        ('A="', '"'),
        ('A=""', ""),
        ("A=''", ""),
        ("\ufeffA=x", "x"),
        (' export A="x"', "x"),
    ],
)
def test_what_a_line_says(line: str, value: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{line}\n", encoding="utf-8")
    assert read_variables(tmp_path / ".env") == {"A": value}


@pytest.mark.parametrize("default", ["", ":-another"])
def test_one_that_is_no_utf_8_is_told_and_no_default_holds_for_it(
    default: str, tmp_path: Path
) -> None:
    (tmp_path / "armory.yaml").write_text(f"upstreams: {{a: {{command: '${{A{default}}}'}}}}")
    (tmp_path / ".env").write_text("A=x\n", encoding="utf-16")
    with pytest.raises(ConfigError, match=r"\.env is not UTF-8 text \(UTF-16\); save it as UTF-8"):
        load_file(tmp_path / "armory.yaml", environ={})


def test_a_folder_of_that_name_has_no_variables(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert read_variables(tmp_path / ".env") == {}


@pytest.mark.parametrize(
    "value",
    [
        *("plain", "", " a b ", "a # b", 'pa\\ss"wört', "it's", 'it\'s "so" \\n', "$HOME`x`"),
        *(
            "-----BEGIN-----\nMII\n-----END-----\n",
            "a\\\nb'",
            "'",
            '"',
            "\\",
            "'a' # 'b'",
            "😀",
            "a\x85b\u2028c",
        ),
    ],
)
def test_what_is_written_is_read_again(value: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(written({"A": value, "B": "b"}), encoding="utf-8")
    assert read_variables(tmp_path / ".env") == {"A": value, "B": "b"}


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("plain", 'A="plain"'),
        ("pa$s`\\", "A='pa$s`\\'"),
        ("it's $5", 'A="it\'s $5"'),
        ("$5\n", 'A="$5\\n"'),
    ],
)
def test_what_other_readers_would_fill_in_stands_between_single_quotes(
    value: str, line: str
) -> None:
    assert written({"A": value}) == f"{line}\n"
