"""A cache on disk for document vectors and generated queries.

Owns: the SQLite file of both. Never imports a model, an index or a ranker.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cachetools import LRUCache

from armory.logger import Logger
from armory.retrieval.embedders.base import vector_of
from armory.retrieval.ports import FloatArray

_log = Logger(__name__)
_CHUNK = 500
_LIMIT_BYTES = 4 * 1024**3
_HELD_BYTES = 512 * 1024**2
"""Most bytes of vectors in memory where there is no file: definitions may change without end."""
_HELD_QUERIES = 100_000
"""Most tools whose generated queries are in memory, likewise: some 100 MB."""
_ENTRY_BYTES = 500
"""Bytes of an entry beside the components of its vector."""
RETRY_S = 60.0
"""Seconds until an unusable file is tried again: the disk may have room by then."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    identity TEXT NOT NULL, hash TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (identity, hash)
);
CREATE TABLE IF NOT EXISTS queries (
    generator TEXT NOT NULL, hash TEXT NOT NULL, texts TEXT NOT NULL, PRIMARY KEY (generator, hash)
);
"""
_VECTOR = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)"
_TEXTS = "INSERT OR REPLACE INTO queries VALUES (?, ?, ?)"


class DocumentCache:
    """Document vectors by (model identity, text hash), in one SQLite file.

    Nothing that goes wrong with the file fails a caller: a corrupt file is moved aside and
    rebuilt, a full or unwritable disk degrades to memory for as long as it is so, both logged. What
    a folder that may only be read has is read.
    Thread-safe, blocking.

    Args:
        path: the file; None: memory only.
        limit_bytes: size of the file above which the oldest entries go.
        held_bytes: of vectors in memory, above which those go that were not used for longest.
        held_queries: tools whose generated queries are in memory at most, likewise.
    """

    def __init__(
        self,
        path: Path | str | None,
        *,
        limit_bytes: int = _LIMIT_BYTES,
        held_bytes: int = _HELD_BYTES,
        held_queries: int = _HELD_QUERIES,
    ) -> None:
        self._path = Path(path) if path is not None else None
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._sealed: sqlite3.Connection | None = None
        self._again_at: float | None = None
        self._vectors: LRUCache[tuple[str, str], FloatArray] = LRUCache(
            held_bytes, getsizeof=lambda vector: _ENTRY_BYTES + vector.nbytes
        )
        self._queries: LRUCache[tuple[str, str], list[str]] = LRUCache(held_queries)

    def get(self, identity: str, hashes: Iterable[str], dimension: int) -> dict[str, FloatArray]:
        """(d,) vectors of the known hashes; entries of another length or not finite are unknown."""
        wanted = list(dict.fromkeys(hashes))
        with self._lock:
            found = {h: v for h in wanted if (v := self._vectors.get((identity, h))) is not None}
            rest = [h for h in wanted if h not in found]
            for start in range(0, len(rest), _CHUNK):
                chunk = rest[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                sql = f"SELECT hash, vector FROM vectors WHERE identity = ? AND hash IN ({marks})"
                for key, blob in self._query(sql, (identity, *chunk)):
                    vector = vector_of(blob, dimension)
                    if vector is not None:
                        found[str(key)] = vector
        return found

    def put(self, identity: str, vectors: Mapping[str, FloatArray]) -> None:
        """Store (d,) float32 vectors by text hash."""
        rows = [(identity, h, v.astype("<f4").tobytes()) for h, v in vectors.items()]
        with self._lock:
            if not self._write(_VECTOR, rows):
                # copies: a row would hold the whole batch that it was made in
                self._vectors.update({(identity, h): v.copy() for h, v in vectors.items()})

    def get_queries(self, generator: str, key: str) -> list[str] | None:
        """Generated queries of a tool by the hash of its content."""
        with self._lock:
            found = self._queries.get((generator, key))
            if found is not None:
                return found
            sql = "SELECT texts FROM queries WHERE generator = ? AND hash = ?"
            for (texts,) in self._query(sql, (generator, key)):
                try:
                    return [str(text) for text in json.loads(texts)]
                except (ValueError, TypeError):
                    return None
        return None

    def put_queries(self, generator: str, key: str, texts: Sequence[str]) -> None:
        """Store generated queries."""
        row = (generator, key, json.dumps(list(texts)))
        with self._lock:
            if not self._write(_TEXTS, [row]):
                self._queries[generator, key] = list(texts)

    def keep_in(self, path: Path) -> None:
        """Keep everything in a file from now on, what memory holds included."""
        with self._lock:
            self._path = path
            for _ in range(2):  # the second time on a rebuilt file
                try:
                    if (db := self._open()) is not None:
                        self._store_held(db)
                except (sqlite3.Error, OSError) as error:
                    self._failed(error)
                else:
                    return

    def close(self) -> None:
        """Close the file; a later access opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        for opened in (self._db, self._sealed):
            if opened is not None:
                opened.close()
        self._db = self._sealed = None

    def _open(self) -> sqlite3.Connection | None:
        if self._again_at is not None and time.monotonic() < self._again_at:
            return None
        if self._db is None and self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self._path, timeout=10, check_same_thread=False)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                db.executescript(_SCHEMA)
            except sqlite3.Error:
                db.close()
                raise
            self._db = db
        return self._db

    def _query(self, sql: str, values: Sequence[str]) -> list[tuple[bytes | str, ...]]:
        for _ in range(2):  # the second time on a rebuilt file, or as one that is only read
            try:
                db = self._open() or self._sealed
                return db.execute(sql, values).fetchall() if db is not None else []
            except (sqlite3.Error, OSError) as error:
                self._failed(error)
        return []

    def _write(self, sql: str, rows: Sequence[tuple[str, ...] | tuple[str, str, bytes]]) -> bool:
        for _ in range(2):  # the second time on a rebuilt file
            try:
                db = self._open()
                if db is None:
                    return False
                with db:
                    db.executemany(sql, rows)
                if self._again_at is not None:
                    _log.info("embedding_cache_stored_again", vectors=len(self._vectors))
                    self._store_held(db)
                self._trim(db)
            except (sqlite3.Error, OSError) as error:
                self._failed(error)
            else:
                return True
        return False

    def _store_held(self, db: sqlite3.Connection) -> None:
        """The file can be used, at last or again: put in what was held in memory meanwhile."""
        vectors = ((*key, v.astype("<f4").tobytes()) for key, v in self._vectors.items())
        queries = ((*key, json.dumps(texts)) for key, texts in self._queries.items())
        with db:
            db.executemany(_VECTOR, vectors)
            db.executemany(_TEXTS, queries)
        self._vectors.clear()
        self._queries.clear()
        self._again_at = None

    def _trim(self, db: sqlite3.Connection) -> None:
        """Give the oldest quarter up when the entries outgrow the limit; freed pages are reused."""
        pages, free, size = (
            int(db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size <= self._limit_bytes:
            return
        with db:
            db.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY rowid "
                "LIMIT (SELECT COUNT(*) / 4 FROM vectors))"
            )

    def _failed(self, error: Exception) -> None:
        self._close()
        path = self._path
        if path is None:
            return
        transient = isinstance(error, (sqlite3.OperationalError, OSError))
        if not transient and path.is_file():
            aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
            try:
                path.replace(aside)
                for suffix in ("-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            except OSError as second:
                error = second
            else:
                _log.warning("embedding_cache_corrupt", path=str(path), moved_to=str(aside))
                return
        if self._again_at is None:
            _log.warning("embedding_cache_in_memory_only", path=str(path), error=str(error))
        self._again_at = time.monotonic() + RETRY_S
        self._sealed = _sealed(path)


def _sealed(path: Path) -> sqlite3.Connection | None:
    """The file of a folder where nothing can be written, an image's or a read-only disk's.

    SQLite writes beside a file that it reads, unless it is told that nobody changes it.
    """
    if os.access(path.parent, os.W_OK) or not path.is_file():
        return None
    with suppress(sqlite3.Error):
        where = f"{path.absolute().as_uri()}?immutable=1"
        return sqlite3.connect(where, uri=True, check_same_thread=False)
    return None
