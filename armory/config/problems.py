"""A problem of a configuration, and how its place is written.

Owns: `Path`, `Findings` and `Problem`. Never imports a room.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
Findings = Iterator[tuple[Path, str]]
"""Problems that a check finds: where, and what is wrong."""


def dotted(path: Sequence[str | int]) -> str:
    """`("upstreams", "docs", "args", 0)` as `upstreams.docs.args[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: YAML path of the value; empty when it is the file itself.
        message: what is wrong, what was expected, and the fix.
        line: 1-based line in the file, or None when the value is in no file.
    """

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.path}: {self.message}" if self.path else f"{place}{self.message}"
