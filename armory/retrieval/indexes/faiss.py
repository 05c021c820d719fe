"""Vectors in FAISS (extra `faiss`): exact up to 50,000 vectors, an HNSW graph above.

Owns: the only import of `faiss`. Never imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.errors import BackendError, ConfigError
from armory.retrieval.indexes.base import Background, check_vectors, statistics
from armory.retrieval.ports import FloatArray, Hits, IntArray, Row

BoolArray = NDArray[np.bool_]

_HNSW_ABOVE = 50_000
_LINKS = 32
_EF = 256
_CHUNK = 512
#: Share of dead vectors in the store from which it is rebuilt.
_DEAD = 0.25
#: Share of allowed vectors below which scanning them beats walking the graph.
_SCAN = 0.1


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            'index: faiss needs faiss-cpu: pip install "armory-mcp-gateway[faiss]"',
            path="tool_rag.index",
        ) from error
    return faiss


class _Store:
    """A FAISS index that only grows; ids count from 0. Thread-safe."""

    def __init__(self, dimension: int, graph: bool) -> None:
        self._faiss = _faiss()
        self.graph = graph
        self.dimension = dimension
        self._lock = threading.Lock()
        inner = self._faiss.METRIC_INNER_PRODUCT
        if graph:
            self._index: Any = self._faiss.IndexHNSWFlat(dimension, _LINKS, inner)
            self._index.hnsw.efConstruction = 100
            self._flat: Any = self._faiss.downcast_index(self._index.storage)
        else:
            self._index = self._flat = self._faiss.IndexFlatIP(dimension)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: FloatArray) -> None:
        """Append, a chunk at a time, so that searches get their turn."""
        for start in range(0, len(vectors), _CHUNK):
            with self._lock:
                self._index.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))

    def vectors(self, ids: IntArray) -> FloatArray:
        """(i, d) stored vectors."""
        if not len(ids):
            return np.zeros((0, self.dimension), np.float32)
        with self._lock:
            return self._flat.reconstruct_batch(ids)

    def search(self, queries: FloatArray, k: int, mask: BoolArray | None) -> IntArray:
        """(m, k) ids of the nearest vectors, -1 where there are none; `mask` says which may be."""
        faiss = self._faiss
        with self._lock:
            bits = None
            if mask is not None:
                later = np.zeros(len(self) - len(mask), np.bool_)  # added since the view was made
                bits = np.packbits(np.concatenate([mask, later]), bitorder="little")
            selector = None if bits is None else faiss.IDSelectorBitmap(bits)
            few = mask is not None and mask.sum() < _SCAN * len(self)
            if self.graph and not few:
                params = faiss.SearchParametersHNSW(efSearch=max(_EF, k), sel=selector)
                found = self._index.search(queries, k, params=params)
            else:
                params = faiss.SearchParameters(sel=selector)
                found = self._flat.search(queries, k, params=params)
        return found[1]


class FaissView:
    """One state of the index: which vectors of the store belong to which row."""

    def __init__(
        self, rows: Sequence[Row], store: _Store, spans: Sequence[tuple[int, int]], back: Background
    ) -> None:
        self.rows = tuple(rows)
        self._store = store
        self._first: IntArray = np.array([s for s, _ in spans], np.int64)
        self._count: IntArray = np.array([c for _, c in spans], np.int64)
        self._owner: IntArray = np.full(len(store), -1, np.int64)
        ids, owners = self._ids(np.arange(len(spans)))
        self._owner[ids] = owners
        self._live = len(ids) == len(store)
        self._background = back

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> Hits:
        """See `ports.VectorView.search`."""
        if self.rows and queries.shape[1] != self._store.dimension:
            raise BackendError(
                f"the query has {queries.shape[1]} dimensions, the index "
                f"{self._store.dimension}; both need the same model"
            )
        return await asyncio.to_thread(self._search, queries, k, allowed, also)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        return self._store.vectors(self._first[rows])

    def group(self, row: int) -> FloatArray:
        """(v, d) the vectors of one row."""
        return self._store.vectors(self._ids(np.array([row]))[0])

    def _ids(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Vector ids of some rows, side by side, and the row of each."""
        counts = self._count[rows]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        ids = np.arange(total) + np.repeat(self._first[rows] - (ends - counts), counts)
        return ids, np.repeat(rows, counts)

    def _search(
        self, queries: FloatArray, k: int, allowed: IntArray | None, also: IntArray | None
    ) -> Hits:
        every = np.arange(len(self.rows)) if allowed is None else allowed
        if len(every) <= k:
            rows = every
        else:
            rows = self._nearest(queries, k, allowed)
            if also is not None:
                rows = np.union1d(rows, also)
        cosine = self._cosine(queries, rows)
        if len(rows) == len(every):
            mean, std = statistics(cosine)
        else:
            mean, std = self._background.statistics(queries, allowed)
        return Hits(rows, cosine, mean, std)

    def _nearest(self, queries: FloatArray, k: int, allowed: IntArray | None) -> IntArray:
        mask: BoolArray | None = None
        if allowed is not None or not self._live or len(self._store) > len(self._owner):
            inside = np.zeros(len(self.rows) + 1, np.bool_)  # the last one: owner -1
            inside[allowed if allowed is not None else slice(0, -1)] = True
            mask = inside[self._owner]
        reachable = len(self._owner) if mask is None else int(mask.sum())
        wanted = min(2 * k, reachable)
        while True:
            found = self._store.search(queries, wanted, mask)
            # ids past the owners were added for a later view
            valid = (found >= 0) & (found < len(self._owner))
            pairs = zip(found, valid, strict=True)
            best = [np.unique(self._owner[ids[good]]) for ids, good in pairs]
            if wanted == reachable or min(map(len, best)) >= k:
                rows = np.unique(np.concatenate(best))
                return rows[rows >= 0]
            wanted = min(2 * wanted, reachable)

    def _cosine(self, queries: FloatArray, rows: IntArray) -> FloatArray:
        if not len(rows):
            return np.zeros((len(queries), 0), np.float32)
        ids, _ = self._ids(rows)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._count[rows])[:-1]])
        cosines = queries @ self._store.vectors(ids).T
        return np.clip(np.maximum.reduceat(cosines, starts, axis=1), -1.0, 1.0)


class FaissIndex:
    """In process; appends what is new, forgets by rebuilding once a quarter is dead.

    Args:
        hnsw_above: vectors above which a graph replaces the scan. A graph finds nearly all of the
            best (not surely all); cosines of what it finds are exact.

    Raises:
        ConfigError: faiss is not installed.
    """

    def __init__(self, *, hnsw_above: int = _HNSW_ABOVE) -> None:
        _faiss()
        self._hnsw_above = hnsw_above
        self._store: _Store | None = None
        self._spans: dict[str, tuple[int, int]] = {}
        self._digests: dict[str, str] = {}
        self._view: FaissView | None = None

    async def stored(self) -> Mapping[str, str]:
        """Digests of the last update."""
        return self._digests

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> FaissView:
        """The next view; see `ports.VectorIndex.update`."""
        view, spans = await asyncio.to_thread(self._build, rows, changed)
        self._view, self._spans = view, spans
        self._digests = {row.key: row.digest for row in rows}
        return view

    async def aclose(self) -> None:
        """Nothing is held outside memory."""

    def _build(
        self, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> tuple[FaissView, dict[str, tuple[int, int]]]:
        kept, dimension = self._check(rows, changed)
        new = [row.key for row in rows if row.key in changed]
        total = sum(self._spans[key][1] for key in kept) + sum(len(changed[key]) for key in new)
        graph = total > self._hnsw_above
        store = self._store
        spans = {key: self._spans[key] for key in kept}
        grown = (len(store) if store else 0) + sum(len(changed[key]) for key in new)
        stale = store is None or store.graph != graph or total < (1 - _DEAD) * grown
        if stale or (store is not None and store.dimension != dimension):
            fresh = _Store(dimension, graph)
            if store is not None and kept:
                ids = [np.arange(s, s + c) for s, c in spans.values()]
                fresh.add(store.vectors(np.concatenate(ids)))
                spans = _consecutive({key: c for key, (_, c) in spans.items()}, 0)
            store = fresh
        assert store is not None
        spans |= _consecutive({key: len(changed[key]) for key in new}, len(store))
        if new:
            store.add(np.concatenate([changed[key] for key in new]))
        self._store = store
        return self._view_of(rows, store, spans), spans

    def _check(
        self, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> tuple[list[str], int]:
        dimension: int | None = None
        kept: list[str] = []
        for row in rows:
            if row.key in changed:
                dimension = check_vectors(row.key, changed[row.key], dimension)
            elif self._digests.get(row.key) == row.digest:
                kept.append(row.key)
            else:
                raise BackendError(f"tool {row.key}: no vectors given and none stored")
        if kept and self._store is not None:
            if dimension is not None and dimension != self._store.dimension:
                raise BackendError(
                    f"vectors of dimension {dimension} for an index of {self._store.dimension}; "
                    "an index holds the vectors of one model"
                )
            dimension = self._store.dimension
        return kept, dimension or 1

    def _view_of(
        self, rows: Sequence[Row], store: _Store, spans: Mapping[str, tuple[int, int]]
    ) -> FaissView:
        groups = _Lazy(store, spans)
        back = Background(rows, groups, store.dimension)
        return FaissView(rows, store, [spans[row.key] for row in rows], back)


def _consecutive(counts: Mapping[str, int], start: int) -> dict[str, tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    for key, count in counts.items():
        spans[key] = (start, count)
        start += count
    return spans


class _Lazy(Mapping[str, FloatArray]):
    """The vectors of each tool, read from the store when asked for."""

    def __init__(self, store: _Store, spans: Mapping[str, tuple[int, int]]) -> None:
        self._store = store
        self._spans = spans

    def __getitem__(self, key: str) -> FloatArray:
        start, count = self._spans[key]
        return self._store.vectors(np.arange(start, start + count))

    def __contains__(self, key: object) -> bool:
        return key in self._spans

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)
