"""The files and folders below a path, with the URIs that they have as skills.

Owns: going through it within bounds, and which links are followed: none that leads out of it.
Blocking; opens no file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from armory.upstreams.skill_folder.frontmatter import MAIN, BadSkill

MAX_ENTRIES = 50_000
"""Files and folders below one folder."""
MAX_LEVELS = 16


class BadFolder(Exception):
    """The folder cannot be served; the message says why."""


@dataclass(slots=True)
class File:
    """A file at the time of the scan; its `path` contains no link."""

    uri: str
    name: str
    path: str
    status: os.stat_result


@dataclass(slots=True)
class Folder:
    """A folder.

    Attributes:
        uri: without a slash at the end.
        shown: its path from the outermost folder on, for people.
        problems: what in it cannot be served, and why.
    """

    uri: str
    name: str
    shown: str
    files: list[File] = field(default_factory=list[File])
    folders: list[Folder] = field(default_factory=list["Folder"])
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def main(self) -> File | None:
        """Its SKILL.md."""
        return next((file for file in self.files if file.name == MAIN), None)

    def below(self) -> Iterator[Folder]:
        """The folder itself and all folders below it."""
        yield self
        for folder in self.folders:
            yield from folder.below()


def read_tree(path: str) -> tuple[Folder, str]:
    """Scan a folder: (its contents, its path with links resolved).

    A folder that has a SKILL.md itself is one skill of its own name; otherwise its subfolders give
    the first segment of the URIs.

    Raises:
        BadFolder: it is not there, or holds too much.
    """
    root = os.path.realpath(path)
    if not Path(root).is_dir():
        raise BadFolder("it is no folder" if Path(root).exists() else "it is not there")
    name = Path(os.path.abspath(path)).name
    own = (Path(root) / MAIN).is_file()
    tree = Folder("skill:/", name, "")
    try:
        if own:
            tree.uri, tree.shown = f"skill://{_quoted(name)}", name
        _Walk(root).into(tree, root, (root,))
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise BadFolder(f"it cannot be read: {reason or error}") from None
    return tree, root


def holds(root: str, path: str) -> bool:
    """Whether one resolved path lies below another."""
    return path.startswith(root.rstrip(os.sep) + os.sep)


class _Walk:
    def __init__(self, root: str) -> None:
        self._root = root
        self._entries = 0

    def into(self, folder: Folder, path: str, above: tuple[str, ...]) -> None:
        with os.scandir(path) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        for entry in children:
            if entry.name.startswith("."):
                continue
            self._entries += 1
            if self._entries > MAX_ENTRIES:
                raise BadFolder(f"it holds more than {MAX_ENTRIES:,} files and folders")
            named = entry.name.encode("utf-8", "replace").decode()
            shown = f"{folder.shown}/{named}" if folder.shown else named
            try:
                self._add(folder, entry, shown, above)
            except BadSkill as problem:
                folder.problems.append((shown, str(problem)))
            except OSError as error:
                folder.problems.append((shown, f"cannot be read: {error.strerror or error}"))
            except UnicodeError:
                folder.problems.append((shown, "has a name that is no UTF-8"))

    def _add(
        self, folder: Folder, entry: os.DirEntry[str], shown: str, above: tuple[str, ...]
    ) -> None:
        path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        if entry.is_symlink() and path != self._root and not holds(self._root, path):
            raise BadSkill("is a link that leads out of the folder")
        uri = f"{folder.uri}/{_quoted(entry.name)}"
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):
            folder.files.append(File(uri, entry.name, path, status))
        elif stat.S_ISDIR(status.st_mode):
            if path in above:
                raise BadSkill("is a link to a folder that it lies in")
            if len(above) > MAX_LEVELS:
                raise BadSkill(f"lies deeper than {MAX_LEVELS} levels")
            child = Folder(uri, entry.name, shown)
            self.into(child, path, (*above, path))
            folder.folders.append(child)


def _quoted(name: str) -> str:
    """A name as a URI segment.

    Raises:
        UnicodeError: it is no UTF-8.
    """
    return quote(name, safe="-._~!$&'()*+,;=", errors="strict")
