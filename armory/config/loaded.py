"""The result of reading a configuration: a valid one, or every problem at once.

Owns: `Loaded` and `ConfigProblems`. Never imports a room.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path as File

from armory.config.model import Config
from armory.config.problems import Path, Problem, dotted
from armory.errors import ConfigError

Place = tuple[str, int | None]


def _in_no_file(path: Path) -> Place:
    return dotted(path), None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that holds.

    Attributes:
        config: the values, variables filled in.
        path: the file, or None when it came from no file.
        notices: what the reader should know, one line each.
        home: the folder behind `ARMORY_HOME`.
        place: (path as the file has it, its line) of a path in `config`.
    """

    config: Config
    path: File | None
    notices: tuple[str, ...]
    home: File
    place: Callable[[Path], Place] = field(default=_in_no_file, compare=False, repr=False)

    @property
    def folder(self) -> File:
        """What relative paths count from."""
        return self.path.parent if self.path else File.cwd()

    @property
    def project(self) -> str:
        """Whose configuration it is: the file as it is called, or the folder where there is none.

        Links are not followed: the kubelet has the same name point to another file for each version
        of a ConfigMap.
        """
        return os.path.abspath(self.path or self.folder)

    @property
    def project_id(self) -> str:
        """A name made of `project`, for files that are kept for it alone."""
        return _id(self.project)

    def place_in(self, folder: File, suffix: str = "") -> File:
        """The project's own place in a folder; the one by the file behind links where that is used
        already.
        """
        by_name = folder / f"{self.project_id}{suffix}"
        by_file = folder / f"{_id(str((self.path or self.folder).resolve()))}{suffix}"
        return by_file if by_file.exists() and not by_name.exists() else by_name


def _id(project: str) -> str:
    return hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:16]


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
