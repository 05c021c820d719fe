"""The skills in a folder, as a server of skills lists them.

Owns: entries, digests (each kept for as long as its file stays as it is), and reading a file.
Nothing outside the folder is ever opened: URIs are looked up in what was found, never turned into
paths. Blocking but for `contents`; never imports a link.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import stat
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from armory.domain.skills import MAX_BYTES, size_problem, skill_problem
from armory.upstreams.skill_folder.frontmatter import (
    MAIN,
    BadSkill,
    format_problem,
    read_frontmatter,
)
from armory.upstreams.skill_folder.tree import File, Folder, holds, read_tree

FOLDER_TYPE = "inode/directory"
_FRESH_NS = 2_000_000_000
"""A file that changed within this time may change again without a new time stamp."""
_OPEN = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class _Read:
    """The digest of a file, valid while its `stamp` stays; `frontmatter` of a SKILL.md."""

    stamp: tuple[int, ...]
    digest: str
    frontmatter: dict[str, Any] | None = None
    problem: str = ""


@dataclass(slots=True)
class FolderContents:
    """The contents of the folder at its last scan.

    Attributes:
        skills: each entry as `skills/list` has it, by the URI of its SKILL.md.
        folders: the direct children of each folder that belongs to a skill, by its URI.
        files: where each file of a skill is, by its URI.
        left_out: what is not served, and why.
    """

    skills: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    folders: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict[str, list[dict[str, Any]]]
    )
    files: dict[str, str] = field(default_factory=dict[str, str])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class SkillFolder:
    """One folder; links share it.

    Args:
        path: where it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._turn = asyncio.Lock()
        self._scanning = threading.Lock()
        self._begun = self._done = 0
        self._found = FolderContents()
        self._root = ""
        self._before: dict[tuple[str, bool], _Read] = {}
        self._now: dict[tuple[str, bool], _Read] = {}

    async def contents(self) -> FolderContents:
        """The current contents. Concurrent callers share one scan.

        Raises:
            BadFolder: it cannot be served.
        """
        wanted = self._begun + 1  # a scan that is under way may have missed later writes
        async with self._turn:
            if self._done < wanted:
                self._begun = begun = self._begun + 1
                await asyncio.to_thread(self.scan)
                self._done = begun
            return self._found

    async def read(self, uri: str) -> tuple[bytes, str] | None:
        """The bytes of a skill's file, and its MIME type; None: no file has that URI.

        Raises:
            BadFolder: it cannot be served.
        """
        for known in (self._found, None):
            found = known or await self.contents()
            path = found.files.get(uri)
            if path is not None:
                try:
                    return await asyncio.to_thread(self._bytes, path), mime_type(path)
                except (OSError, BadSkill):
                    continue  # removed or moved since the scan
        return None

    def scan(self) -> FolderContents:
        """Scan the folder; only files that changed are read.

        Raises:
            BadFolder: it cannot be served.
        """
        with self._scanning:
            tree, self._root = read_tree(self.path)
            self._before, self._now = self._now, {}
            found = FolderContents()
            self._collect(tree, found, within=False, served=False)
            self._found = found
            return found

    def _collect(
        self, folder: Folder, found: FolderContents, *, within: bool, served: bool
    ) -> bool:
        """Add the skills of a folder and its subfolders; returns whether there was any SKILL.md.

        Args:
            folder: where.
            found: takes them.
            within: whether it lies in a skill.
            served: whether that is served.
        """
        main = folder.main
        if main is not None:
            within = True
            try:
                found.skills[main.uri] = self._entry(folder, main)
                served = True
            except BadSkill as problem:
                found.left_out.append((folder.shown, str(problem)))
            except OSError as error:
                found.left_out.append((folder.shown, f"cannot be read: {error.strerror or error}"))
        if served:
            found.files.update((file.uri, file.path) for file in folder.files)
            found.folders[folder.uri] = _children(folder)
        below = [
            self._collect(child, found, within=within, served=served) for child in folder.folders
        ]
        if not within:
            found.left_out.extend(folder.problems)
        if not within and not folder.shown:
            found.left_out.extend(
                (child.shown, f"has no {MAIN}")
                for child, any_skill in zip(folder.folders, below, strict=True)
                if not any_skill and not any(part.problems for part in child.below())
            )
        return main is not None or any(below)

    def _entry(self, folder: Folder, main: File) -> dict[str, Any]:
        parts = list(folder.below())
        for part in parts:
            for shown, why in part.problems:
                raise BadSkill(f"{shown} {why}")
        files = [file for part in parts for file in part.files]
        problem = size_problem(len(files), sum(file.status.st_size for file in files))
        if problem is not None:
            raise BadSkill(problem)
        read = self._known(main, main=True)
        if read.frontmatter is None:
            raise BadSkill(read.problem)
        resources = [
            {
                "uri": file.uri,
                "digest": self._known(file, main=file is main).digest,
                "size": file.status.st_size,
            }
            for file in files
        ]
        entry = {"uri": main.uri, "frontmatter": read.frontmatter, "resources": resources}
        problem = format_problem(read.frontmatter) or skill_problem(entry)
        if problem is not None:
            raise BadSkill(problem)
        return entry

    def _known(self, file: File, *, main: bool) -> _Read:
        key = (file.path, main)
        known = self._now.get(key)
        if known is not None:
            return known
        status = file.status
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._before.get(key)
        if known is None or known.stamp != stamp:
            data = self._bytes(file.path)
            if len(data) != status.st_size:
                raise BadSkill(f"{file.name} is being written")
            fresh = any(abs(time.time_ns() - then) < _FRESH_NS for then in stamp[:2])
            known = _read(data, () if fresh else stamp, main=main)
        self._now[key] = known
        return known

    def _bytes(self, path: str) -> bytes:
        """The bytes of a file, only if its path still leads into the folder."""
        if os.path.realpath(path) != path or not holds(self._root, path):
            raise BadSkill("a link has taken the place of a file")
        opened = os.open(path, _OPEN)
        with open(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise BadSkill("something else has taken the place of a file")
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadSkill(f"a file has more than {MAX_BYTES:,} bytes")
        return data


def mime_type(path: str) -> str:
    """The MIME type by the file's name."""
    if path.lower().endswith(".md"):
        return "text/markdown"
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def _read(data: bytes, stamp: tuple[int, ...], *, main: bool) -> _Read:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not main:
        return _Read(stamp, digest)
    try:
        return _Read(stamp, digest, read_frontmatter(data))
    except BadSkill as problem:
        return _Read(stamp, digest, problem=str(problem))


def _children(folder: Folder) -> list[dict[str, Any]]:
    files = [
        {
            "uri": file.uri,
            "name": file.name,
            "mimeType": mime_type(file.name),
            "size": file.status.st_size,
        }
        for file in folder.files
    ]
    below = [
        {"uri": child.uri, "name": child.name, "mimeType": FOLDER_TYPE} for child in folder.folders
    ]
    return [*files, *below]
