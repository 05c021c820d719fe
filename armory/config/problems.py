"""What is wrong with a configuration, all of it at once.

Owns: `Problem` and `ConfigProblems`. Never imports a room.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armory.errors import ConfigError

if TYPE_CHECKING:
    from armory.config.load import Loaded

Path = tuple[str | int, ...]


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


class ConfigProblems(ConfigError):
    """Every problem of one configuration, in the order of the file.

    Attributes:
        problems: at least one.
        source: the file's name, for the message.
        wrong: paths of values that are no good by themselves.
        rest: the configuration without those, for further checks; None when nothing is left of it.
    """

    def __init__(
        self,
        problems: Iterable[Problem],
        source: str = "",
        *,
        wrong: Collection[Path] = (),
        rest: Loaded | None = None,
    ) -> None:
        self.wrong = wrong
        self.rest = rest
        self.problems = tuple(sorted(problems, key=lambda p: (p.line is None, p.line or 0)))
        self.source = source
        head = f"{source}: " if source else ""
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"{head}{count} problem{'s' if count != 1 else ''}\n{lines}")

    def as_json(self) -> list[dict[str, str | int | None]]:
        """Path, line and message of each."""
        return [
            {"path": found.path, "line": found.line, "message": found.message}
            for found in self.problems
        ]
