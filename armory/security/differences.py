"""What differs between two definitions of a tool, for people who decide whether to approve it.

Owns: the unified diff of their JSON, in linear time whatever an upstream writes: `difflib` compares
what is between the lines that both begin and end with, where that is not too much. Never imports
anything of Armory but the domain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import takewhile
from operator import eq
from typing import Any

from armory.domain.encoding import spelled_out

_CONTEXT = 2
_COMPARED = 250_000
"""Lines of one times lines of the other, beyond which all of them count as replaced."""
_HEADER = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The changes, as lines of a unified diff, the names of files left out.

    Invisible characters are escaped, since they are used to hide text.
    """
    old, new = lines_of(before), lines_of(after)
    first = _in_common(old, new)
    last = _in_common(old[first:][::-1], new[first:][::-1])
    if first == len(old) == len(new):
        return []
    before_it, behind_it = min(first, _CONTEXT), min(last, _CONTEXT)
    begin, end = first - before_it, last - behind_it
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(old) * len(new) > _COMPARED:
        return list(_replaced(old, new, before_it, behind_it, begin))
    return list(_hunks(old, new, begin))


def _replaced(
    old: list[str], new: list[str], before_it: int, behind_it: int, skipped: int
) -> Iterator[str]:
    """One hunk, in which all but so many lines before and behind it differ."""
    yield f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@"
    yield from (f" {line}" for line in old[:before_it])
    yield from (f"-{line}" for line in old[before_it : len(old) - behind_it])
    yield from (f"+{line}" for line in new[before_it : len(new) - behind_it])
    yield from (f" {line}" for line in old[len(old) - behind_it :])


def _hunks(old: list[str], new: list[str], skipped: int) -> Iterator[str]:
    """The diff of lines before which so many others were left out."""
    for line in list(unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]:
        header = _HEADER.fullmatch(line)
        if header is None:
            yield line
        else:
            at, lines, there, others = header.groups("")
            yield f"@@ -{int(at) + skipped}{lines} +{int(there) + skipped}{others} @@"


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def lines_of(definition: Mapping[str, Any]) -> list[str]:
    """The lines that are compared: JSON, what cannot be seen spelled out."""
    text = json.dumps(definition, indent=2, ensure_ascii=False, sort_keys=True)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text.split("\n")
    return ["".join(map(_visible, line)) for line in spelled_out(text).split("\n")]


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{{{ord(character):x}}}"
