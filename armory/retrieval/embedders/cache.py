"""Two caches of vectors: documents on disk, queries in memory (and in a shared store).

Owns: the SQLite file of document vectors and generated queries, the wrapper that caches and
coalesces query embeddings. Never imports a model or an index.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import structlog
from cachetools import LRUCache

from armory.errors import BackendError
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.ports import ClauseReader, Embedder, FloatArray, Passage

_log = structlog.get_logger(__name__)
_CHUNK = 500
_LIMIT_BYTES = 4 * 1024**3
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    identity TEXT NOT NULL, hash TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (identity, hash)
);
CREATE TABLE IF NOT EXISTS queries (
    generator TEXT NOT NULL, hash TEXT NOT NULL, texts TEXT NOT NULL, PRIMARY KEY (generator, hash)
);
"""


class DocumentCache:
    """Document vectors by (model identity, text hash), in one SQLite file.

    Nothing that goes wrong with the file fails a caller: a corrupt file is moved aside and
    rebuilt, a full or unwritable disk degrades to memory, both logged. Thread-safe, blocking.

    Args:
        path: the file; None: memory only.
        limit_bytes: size of the file above which the oldest entries go.
    """

    def __init__(self, path: Path | str | None, *, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._path = Path(path) if path is not None else None
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._vectors: dict[tuple[str, str], FloatArray] = {}
        self._queries: dict[tuple[str, str], list[str]] = {}

    @property
    def persistent(self) -> bool:
        """Whether entries outlive the process (False once the disk has failed)."""
        return self._path is not None

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
                    vector = _vector(blob, dimension)
                    if vector is not None:
                        found[str(key)] = vector
        return found

    def put(self, identity: str, vectors: Mapping[str, FloatArray]) -> None:
        """Store (d,) float32 vectors by text hash."""
        rows = [(identity, h, v.astype("<f4").tobytes()) for h, v in vectors.items()]
        with self._lock:
            if not self._write("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows):
                self._vectors.update({(identity, h): v for h, v in vectors.items()})

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
            if not self._write("INSERT OR REPLACE INTO queries VALUES (?, ?, ?)", [row]):
                self._queries[generator, key] = list(texts)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _open(self) -> sqlite3.Connection | None:
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
        try:
            db = self._open()
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
                self._trim(db)
            except (sqlite3.Error, OSError) as error:
                self._failed(error)
            else:
                return True
        return False

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
        if self._db is not None:
            self._db.close()
            self._db = None
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
        self._path = None
        _log.warning("embedding_cache_in_memory_only", path=str(path), error=str(error))


def _vector(blob: bytes | str, dimension: int) -> FloatArray | None:
    if not isinstance(blob, bytes) or len(blob) != 4 * dimension:
        return None
    vector = np.frombuffer(blob, "<f4").astype(np.float32)
    return vector if np.isfinite(vector).all() else None


class ByteStore(Protocol):
    """A small shared key-value store (Redis) seen from the query cache."""

    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Values in the order of the keys."""
        ...

    async def set_many(self, values: Mapping[str, bytes], ttl_s: float) -> None:
        """Store values for a while."""
        ...


class CachedEmbedder:
    """An embedder whose query vectors are remembered; the same text asked twice at once runs once.

    Args:
        inner: the embedder.
        size: query vectors kept in memory; 0 keeps none (concurrent ones still share).
        store: shared store beside the memory; its failures are logged and cost only the cache.
        ttl_s: how long the shared store keeps a vector.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        size: int = 10_000,
        store: ByteStore | None = None,
        ttl_s: float = 86_400,
    ) -> None:
        self.inner = inner
        self._reader = inner if isinstance(inner, ClauseReader) else None
        self._kept: LRUCache[Passage, FloatArray] = LRUCache(max(size, 1))
        self._size = size
        self._store = store
        self._ttl_s = ttl_s
        self._running: dict[Passage, asyncio.Future[FloatArray]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def identity(self) -> str:
        """The inner embedder's."""
        return self.inner.identity

    @property
    def dimension(self) -> int:
        """The inner embedder's."""
        return self.inner.dimension

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """The inner embedder's; documents have a cache of their own."""
        return await self.inner.embed_documents(texts)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows, from the cache where known."""
        return await self.embed_passages([Passage(text) for text in texts])

    async def embed_passages(self, passages: Sequence[Passage]) -> FloatArray:
        """(n, d) float32 unit rows: of whole queries and of parts of them.

        A part is read in its context where the inner embedder can (`ports.ClauseReader`), else by
        itself.
        """
        if not passages:
            return np.zeros((0, self.dimension), np.float32)
        if self._reader is None:
            passages = [p if p.span is None else Passage(p.words) for p in passages]
        waiting: dict[Passage, asyncio.Future[FloatArray]] = {}
        known: dict[Passage, FloatArray] = {}
        fresh: list[Passage] = []
        for passage in dict.fromkeys(passages):
            vector = self._kept.get(passage)
            if vector is not None:
                known[passage] = vector
            elif passage in self._running:
                waiting[passage] = self._running[passage]
            else:
                future: asyncio.Future[FloatArray] = asyncio.get_running_loop().create_future()
                self._running[passage] = waiting[passage] = future
                fresh.append(passage)
        if fresh:  # in a task of its own: a caller who leaves does not take others' vectors along
            task = asyncio.create_task(self._compute(fresh))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        for passage, future in waiting.items():
            known[passage] = await asyncio.shield(future)
        return np.stack([known[passage] for passage in passages])

    async def aclose(self) -> None:
        """Close the inner embedder; running computations are given up."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.inner.aclose()

    async def _compute(self, passages: Sequence[Passage]) -> None:
        try:
            found = await self._shared(passages)
            rest = [passage for passage in passages if passage not in found]
            if rest:
                new = await self._embed(rest)
                found |= new
                await self._share(new)
        except BaseException as error:
            for passage in passages:
                future = self._running.pop(passage)
                if isinstance(error, asyncio.CancelledError):
                    future.cancel()
                else:
                    future.set_exception(error)
                    future.exception()  # retrieved: nobody may be waiting any more
            if not isinstance(error, Exception):
                raise
        else:
            for passage in passages:
                if self._size:
                    self._kept[passage] = found[passage]
                self._running.pop(passage).set_result(found[passage])

    async def _embed(self, passages: Sequence[Passage]) -> dict[Passage, FloatArray]:
        """Run the model: once a text for all that is wanted of it."""
        parts: dict[str, list[tuple[int, int]]] = {}
        for passage in passages:
            if passage.span is not None:
                parts.setdefault(passage.text, []).append(passage.span)
        wanted = [[Passage(t), *(Passage(t, s) for s in spans)] for t, spans in parts.items()]
        runs = [self._reader.embed_clauses(t, s) for t, s in parts.items()] if self._reader else []
        if rest := [p for p in passages if p.span is None and p.text not in parts]:
            wanted.append(rest)
            runs.append(self.inner.embed_queries([passage.text for passage in rest]))
        found: dict[Passage, FloatArray] = {}
        for known, vectors in zip(wanted, await asyncio.gather(*runs), strict=True):
            found |= dict(zip(known, vectors, strict=True))
        return found

    def _key(self, passage: Passage) -> str:
        part = "" if passage.span is None else ":{}-{}".format(*passage.span)
        return f"armory:query-vector:{self.identity}:{text_hash(passage.text)}{part}"

    async def _shared(self, passages: Sequence[Passage]) -> dict[Passage, FloatArray]:
        if self._store is None:
            return {}
        try:
            blobs = await self._store.get_many([self._key(passage) for passage in passages])
        except (BackendError, OSError) as error:
            _log.warning("query_cache_unavailable", error=str(error))
            return {}
        pairs = zip(passages, blobs, strict=True)
        vectors = {p: _vector(b, self.dimension) for p, b in pairs if b is not None}
        return {passage: vector for passage, vector in vectors.items() if vector is not None}

    async def _share(self, vectors: Mapping[Passage, FloatArray]) -> None:
        if self._store is None:
            return
        values = {self._key(p): v.astype("<f4").tobytes() for p, v in vectors.items()}
        try:
            await self._store.set_many(values, self._ttl_s)
        except (BackendError, OSError) as error:
            _log.warning("query_cache_unavailable", error=str(error))
