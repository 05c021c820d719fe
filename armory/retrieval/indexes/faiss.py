"""Vectors in FAISS (extra `faiss`): exact up to 50,000 vectors, an HNSW graph above.

Owns: views, what belongs to which tool, when a graph is grown. Never imports an embedder or a
ranker.

What is new is appended, what is gone stays until a quarter is dead. A graph grows in the background
(a minute for 100,000 vectors); until it is there every vector is scanned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from armory.errors import BackendError
from armory.retrieval.indexes.background import Background
from armory.retrieval.indexes.base import check_vectors, statistics
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.indexes.faiss_store import BoolArray, Store, require_faiss
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import Embedder, FloatArray, IntArray, Row, VectorHits
from armory.tasks import spawn

_HNSW_ABOVE = 50_000
#: Share of dead vectors in the store from which it is rebuilt.
_DEAD = 0.25
_READ = 1_024
"""Tools whose vectors are read at a time."""


Spans = Mapping[str, tuple[int, int]]
"""First vector and number of vectors of each tool in a store."""


class _Held:
    """Which vectors of a store belong to which row."""

    def __init__(self, rows: Sequence[Row], store: Store, spans: Spans) -> None:
        self.store = store
        self.first: IntArray = np.array([spans[row.key][0] for row in rows], np.int64)
        self.count: IntArray = np.array([spans[row.key][1] for row in rows], np.int64)
        ids, owners = self.ids(np.arange(len(rows)))
        self.owner: IntArray = np.full(len(store), -1, np.int64)
        self.owner[ids] = owners
        self.live = len(ids) == len(store)

    def ids(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Vector ids of some rows, side by side, and the row of each."""
        counts = self.count[rows]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        ids = np.arange(total) + np.repeat(self.first[rows] - (ends - counts), counts)
        return ids, np.repeat(rows, counts)


class FaissView:
    """One state of the index. Where its vectors lie may change, what they are does not."""

    def __init__(self, rows: Sequence[Row], held: _Held, back: Background) -> None:
        self.rows = tuple(rows)
        self.held = held
        self._background = back

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        """See `ports.VectorView.search`."""
        dimension = self.held.store.dimension
        if self.rows and queries.shape[1] != dimension:
            raise BackendError(
                f"the query has {queries.shape[1]} dimensions, the index {dimension}; both need "
                "the same model"
            )
        return await asyncio.to_thread(self._search, queries, k, allowed, also)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        held = self.held
        return held.store.vectors(held.first[rows])

    def _search(
        self, queries: FloatArray, k: int, allowed: IntArray | None, also: IntArray | None
    ) -> VectorHits:
        held = self.held
        every = np.arange(len(self.rows)) if allowed is None else allowed
        if len(every) <= k:
            rows = every
        else:
            rows = _nearest(held, queries, k, allowed, len(self.rows))
            if also is not None:
                rows = np.union1d(rows, also)
        cosine = _cosine(held, queries, rows)
        if len(rows) == len(every):
            return VectorHits(rows, cosine, *statistics(cosine))
        return self._background.around(self._background.sample(queries, allowed), rows, cosine)


def _nearest(
    held: _Held, queries: FloatArray, k: int, allowed: IntArray | None, size: int
) -> IntArray:
    """At least the best `k` rows of every query, ascending."""
    store, owner = held.store, held.owner
    mask: BoolArray | None = None
    if allowed is not None or not held.live or len(store) > len(owner):
        inside = np.zeros(size + 1, np.bool_)  # the last one: owner -1
        inside[allowed if allowed is not None else slice(0, -1)] = True
        mask = inside[owner]
    reachable = len(owner) if mask is None else int(mask.sum())
    wanted = min(2 * k, reachable)
    while True:
        found = store.search(queries, wanted, mask)
        # ids past the owners were added for a later view
        valid = (found >= 0) & (found < len(owner))
        pairs = zip(found, valid, strict=True)
        best = [np.unique(owner[ids[good]]) for ids, good in pairs]
        if wanted == reachable or min(map(len, best)) >= k:
            rows = np.unique(np.concatenate(best))
            return rows[rows >= 0]
        wanted = min(2 * wanted, reachable)


def _cosine(held: _Held, queries: FloatArray, rows: IntArray) -> FloatArray:
    if not len(rows):
        return np.zeros((len(queries), 0), np.float32)
    ids, _ = held.ids(rows)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(held.count[rows])[:-1]])
    cosines = queries @ held.store.vectors(ids).T
    return np.clip(np.maximum.reduceat(cosines, starts, axis=1), -1.0, 1.0)


class FaissIndex:
    """A FAISS index in this process.

    Args:
        hnsw_above: vectors above which a graph replaces the scan. A graph finds nearly all of the
            best (not surely all); cosines of what it finds are exact.

    Raises:
        ConfigError: faiss is not installed.
    """

    def __init__(self, *, hnsw_above: int = _HNSW_ABOVE) -> None:
        require_faiss()
        self._hnsw_above = hnsw_above
        self._store: Store | None = None
        self._spans: dict[str, tuple[int, int]] = {}
        self._digests: dict[str, str] = {}
        self._view: FaissView | None = None
        self._lock = asyncio.Lock()
        self._growing: asyncio.Task[None] | None = None
        self._closed = False

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """Digests of the last update."""
        return self._digests

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> FaissView:
        """The next view; see `ports.VectorIndex.update`."""
        async with self._lock:
            view, spans = await asyncio.to_thread(self._build, rows, changed)
            self._view, self._spans, self._store = view, spans, view.held.store
            self._digests = {row.key: row.digest for row in rows}
        if self._wants_graph() and (self._growing is None or self._growing.done()):
            self._growing = spawn(self._grow(), "faiss: a graph is built")
        return view

    async def settled(self) -> None:
        """Wait until no graph is being built."""
        while self._growing is not None and not self._growing.done():
            await asyncio.wait([self._growing])

    async def aclose(self) -> None:
        """Abandon a graph that is being built; nothing else is held."""
        self._closed = True
        await self.settled()

    def _vectors(self) -> int:
        return sum(count for _, count in self._spans.values())

    def _wants_graph(self) -> bool:
        """Whether the store in use should be a graph and is none, or one that is too dead."""
        store, live = self._store, self._vectors()
        if store is None or live <= self._hnsw_above:
            return False
        return not store.graph or live < (1 - _DEAD) * len(store)

    async def _grow(self) -> None:
        """Build a graph of what is live, then move the view in use to it."""
        while self._wants_graph() and not self._closed:
            store, spans = self._store, dict(self._spans)
            assert store is not None
            graph, placed = await asyncio.to_thread(self._graph_of, store, spans)
            async with self._lock:
                view = self._view
                if self._closed or view is None or self._store is not store:
                    continue  # rebuilt meanwhile: begin again
                held, now = await asyncio.to_thread(
                    _moved, view.rows, store, self._spans, graph, spans, placed
                )
                view.held, self._store, self._spans = held, graph, now

    def _graph_of(self, store: Store, spans: Spans) -> tuple[Store, dict[str, tuple[int, int]]]:
        graph = Store(store.dimension, graph=True)
        graph.add(store.vectors(_all_ids(spans)), lambda: self._closed)
        return graph, _consecutive({key: count for key, (_, count) in spans.items()}, 0)

    def _build(
        self, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> tuple[FaissView, dict[str, tuple[int, int]]]:
        kept, dimension = self._check(rows, changed)
        new = {row.key: len(changed[row.key]) for row in rows if row.key in changed}
        spans = {key: self._spans[key] for key in kept}
        store = self._store
        if store is None or self._is_spent(store, dimension, spans, sum(new.values())):
            fresh = Store(dimension, graph=False)
            if store is not None and spans:
                fresh.add(store.vectors(_all_ids(spans)))
                spans = _consecutive({key: c for key, (_, c) in spans.items()}, 0)
            store = fresh
        spans |= _consecutive(new, len(store))
        if new:
            store.add(np.concatenate([changed[key] for key in new]))
        held = _Held(rows, store, spans)
        return FaissView(rows, held, _background(rows, held)), spans

    def _is_spent(self, store: Store, dimension: int, kept: Spans, new: int) -> bool:
        """Whether a store gives way to a scan of what is kept: it is for another model, a graph of
        too few vectors, or a scan that is too dead; what becomes of a graph that is, `_grow` says.
        """
        if store.dimension != dimension:
            return True
        live = sum(count for _, count in kept.values()) + new
        if store.graph:
            return live <= self._hnsw_above
        return live < (1 - _DEAD) * (len(store) + new)

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


def _background(rows: Sequence[Row], held: _Held) -> Background:
    chosen = Background.choose([row.key for row in rows])
    parts = (chosen[i : i + _READ] for i in range(0, len(chosen), _READ))
    blocks = (held.store.vectors(held.ids(part)[0]) for part in parts)
    vectors = Compact.read(held.count[chosen], blocks, held.store.dimension)
    return Background(chosen, vectors, len(rows))


def _moved(
    rows: Sequence[Row], store: Store, spans: Spans, graph: Store, old: Spans, placed: Spans
) -> tuple[_Held, dict[str, tuple[int, int]]]:
    """The vectors in use in a graph that was built of earlier ones; what came since is added."""
    same = {key: placed[key] for key, span in spans.items() if old.get(key) == span}
    since = {key: span for key, span in spans.items() if key not in same}
    now = same | _consecutive({key: count for key, (_, count) in since.items()}, len(graph))
    graph.add(store.vectors(_all_ids(since)))
    return _Held(rows, graph, now), now


def _all_ids(spans: Spans) -> IntArray:
    """Ids of the vectors of all tools, side by side."""
    return np.concatenate(
        [np.zeros(0, np.int64), *(np.arange(s, s + c) for s, c in spans.values())]
    )


def _consecutive(counts: Mapping[str, int], start: int) -> dict[str, tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    for key, count in counts.items():
        spans[key] = (start, count)
        start += count
    return spans


def open_index(embedder: Embedder, options: PartOptions) -> FaissIndex:
    """The index of the name `faiss`.

    Raises:
        ConfigError: the extra is not installed.
    """
    return FaissIndex()
