"""Differences of definitions: right for whatever differs, quick for whatever an upstream writes."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.security.differences import difference, lines_of

HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
VALUES = st.lists(st.sampled_from("abc"), max_size=12)
MANY = ["a"] * 600, ["b"] * 600
"""More than is compared line by line."""


def patched(old: list[str], diff: list[str]) -> list[str]:
    """What a diff makes of lines; each of its own is found where it says."""
    new: list[str] = []
    at = 0
    for line in diff:
        if (found := HEADER.fullmatch(line)) is not None:
            begin = int(found[1]) - (found[2] != "0")
            new += old[at:begin]
            at = begin
            assert len(new) == int(found[3]) - (found[4] != "0")
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [line[1:]] if line.startswith(" ") else []
            at += 1
    return new + old[at:]


def both(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = difference(before, after)
    assert patched(lines_of(before), found) == lines_of(after)
    assert (found == []) is (before == after)


@given(old=VALUES, new=VALUES, before=VALUES, behind=VALUES)
def test_a_difference_makes_the_one_of_the_other(
    old: list[str], new: list[str], before: list[str], behind: list[str]
) -> None:
    both({"a": [*before, *old, *behind]}, {"a": [*before, *new, *behind]})


@given(before=VALUES, behind=VALUES)
def test_so_does_one_that_is_too_large_to_be_looked_for(
    before: list[str], behind: list[str]
) -> None:
    old, new = MANY
    both({"a": [*before, *old, *behind]}, {"a": [*before, *new, *behind]})


def test_only_what_is_around_a_change_is_shown() -> None:
    before = {"a": [str(number) for number in range(900)]}
    after = {"a": [*before["a"][:500], "new", *before["a"][501:]]}
    assert difference(before, after) == [
        "@@ -501,5 +501,5 @@",
        '     "498",',
        '     "499",',
        '-    "500",',
        '+    "new",',
        '     "501",',
        '     "502",',
    ]


def test_what_cannot_be_seen_is_spelled_out() -> None:
    found = difference({"d": "a"}, {"d": "a\u200b"})
    assert '+  "d": "a\\u{200b}"' in found


@pytest.mark.parametrize("kinds", [1, 30, 600])
def test_definitions_that_repeat_themselves_are_compared_in_linear_time(kinds: int) -> None:
    program = f"""
from armory.security.differences import difference
old = {{"a": [number % {kinds} for number in range(60_000)]}}
new = {{"a": [0, *((number * 7) % {kinds} for number in range(60_001)), 0]}}
assert difference(old, new)
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_what_hides_behind_an_emoji_is_spelled_out() -> None:
    found = difference({"a": "⚠\ufe0f 😀"}, {"a": "⚠\ufe0f 😀\U000e0101\ufe01\u3164"})
    assert '+  "a": "⚠\ufe0f 😀\\u{e0101}\\u{fe01}\\u{3164}"' in found
