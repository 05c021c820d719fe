"""Notes in one SQLite file.

Owns: the notes' tables and queries. Never imports the MCP SDK or another room.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_TABLES = """
create table if not exists notes (
    id integer primary key autoincrement,
    title text not null,
    body text not null,
    pinned integer not null default 0,
    archived integer not null default 0,
    created text not null,
    updated text not null
);
create table if not exists tags (
    note integer not null references notes(id) on delete cascade,
    tag text not null,
    primary key (note, tag)
);
"""
_MAX_TITLE = 200
_TAG = re.compile(r"[\w][\w-]{0,39}")


class NoteError(Exception):
    """What was asked for cannot be done with these notes."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note.

    Attributes:
        created, updated: ISO 8601, UTC.
        tags: in alphabetical order.
    """

    id: int
    title: str
    body: str
    pinned: bool
    archived: bool
    created: str
    updated: str
    tags: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The note as a JSON object."""
        return {**asdict(self), "tags": list(self.tags)}


class NoteStore:
    """Every operation is one transaction on a connection of its own, so processes may share it.

    Args:
        path: the SQLite file; it and its folder are made when missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as db:
            db.executescript(_TABLES)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        db = sqlite3.connect(self._path, timeout=10)
        db.row_factory = sqlite3.Row
        db.execute("pragma foreign_keys = on")
        try:
            with db:
                yield db
        finally:
            db.close()

    def add(self, title: str, body: str, tags: list[str]) -> Note:
        """Write a new note."""
        title, now = _checked_title(title), _now()
        with self._open() as db:
            cursor = db.execute(
                "insert into notes (title, body, created, updated) values (?, ?, ?, ?)",
                (title, body, now, now),
            )
            note_id = cursor.lastrowid or 0
            _add_tags(db, note_id, tags)
            return _get(db, note_id)

    def get(self, note_id: int) -> Note:
        """One note by its number."""
        with self._open() as db:
            return _get(db, note_id)

    def change(
        self,
        note_id: int,
        *,
        title: str | None = None,
        body: str | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
    ) -> Note:
        """Replace the given fields."""
        fields: dict[str, Any] = {
            "title": None if title is None else _checked_title(title),
            "body": body,
            "pinned": pinned,
            "archived": archived,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        with self._open() as db:
            _get(db, note_id)
            assignments = ", ".join(f"{name} = ?" for name in [*given, "updated"])
            db.execute(
                f"update notes set {assignments} where id = ?",
                (*given.values(), _now(), note_id),
            )
            return _get(db, note_id)

    def append(self, note_id: int, text: str) -> Note:
        """Add a paragraph at the end."""
        with self._open() as db:
            body = _get(db, note_id).body
            joined = f"{body.rstrip()}\n\n{text}" if body.strip() else text
            db.execute(
                "update notes set body = ?, updated = ? where id = ?", (joined, _now(), note_id)
            )
            return _get(db, note_id)

    def delete(self, note_id: int) -> Note:
        """Remove a note for good; gives back what it was."""
        with self._open() as db:
            note = _get(db, note_id)
            db.execute("delete from notes where id = ?", (note_id,))
            return note

    def find(
        self,
        words: str = "",
        *,
        tag: str | None = None,
        limit: int = 50,
    ) -> list[Note]:
        """Notes that hold every word of `words`; pinned ones first, then the latest."""
        conditions, values = ["archived = 0"], list[Any]()
        for word in words.split():
            conditions.append("(title like ? escape '\\' or body like ? escape '\\')")
            pattern = "%" + re.sub(r"([\\%_])", r"\\\1", word) + "%"
            values += [pattern, pattern]
        if tag is not None:
            conditions.append("id in (select note from tags where tag = ?)")
            values.append(_checked_tag(tag))
        with self._open() as db:
            rows = db.execute(
                f"select id from notes where {' and '.join(conditions)} "
                "order by pinned desc, updated desc, id desc limit ?",
                (*values, max(1, min(limit, 500))),
            )
            return [_get(db, row["id"]) for row in rows.fetchall()]

    def tag(self, note_id: int, *, add: list[str], remove: list[str]) -> Note:
        """Put tags on a note and take tags off it."""
        with self._open() as db:
            _get(db, note_id)
            _add_tags(db, note_id, add)
            for tag in remove:
                db.execute(
                    "delete from tags where note = ? and tag = ?", (note_id, _checked_tag(tag))
                )
            return _get(db, note_id)

    def tags(self) -> dict[str, int]:
        """Every tag and the number of its notes."""
        with self._open() as db:
            rows = db.execute("select tag, count(*) as n from tags group by tag order by tag")
            return {row["tag"]: row["n"] for row in rows}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked_title(title: str) -> str:
    title = " ".join(title.split())
    if not 1 <= len(title) <= _MAX_TITLE:
        raise NoteError(f"a title has 1 to {_MAX_TITLE} characters, this one {len(title)}")
    return title


def _checked_tag(tag: str) -> str:
    tag = tag.strip().lower()
    if not _TAG.fullmatch(tag):
        raise NoteError(f"{tag!r} is no tag; use letters, digits, '_' and '-', at most 40")
    return tag


def _add_tags(db: sqlite3.Connection, note_id: int, tags: list[str]) -> None:
    for tag in tags:
        db.execute("insert or ignore into tags values (?, ?)", (note_id, _checked_tag(tag)))


def _get(db: sqlite3.Connection, note_id: int) -> Note:
    row = db.execute("select * from notes where id = ?", (note_id,)).fetchone()
    if row is None:
        raise NoteError(f"there is no note {note_id}; list_notes shows the numbers that exist")
    tags = db.execute("select tag from tags where note = ? order by tag", (note_id,))
    return Note(
        id=row["id"],
        title=row["title"],
        body=row["body"],
        pinned=bool(row["pinned"]),
        archived=bool(row["archived"]),
        created=row["created"],
        updated=row["updated"],
        tags=tuple(found["tag"] for found in tags),
    )
