"""Searching a Qdrant collection: filters, the search itself, what to do about points of others.

Owns: the view that searches; `qdrant` and `qdrant_points` own writing, `qdrant_access` the way
there. Never imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from cachetools import LRUCache

from armory.errors import BackendError
from armory.retrieval.indexes.background import Background
from armory.retrieval.indexes.base import statistics
from armory.retrieval.indexes.qdrant_access import Missing, Searches, StoreFailed
from armory.retrieval.indexes.qdrant_catalog import CatalogPoints
from armory.retrieval.ports import FloatArray, IntArray, VectorHits
from armory.tasks import start, stop

#: Points up to which the server is asked to compare with every allowed one.
_EXACT_BELOW = 20_000
#: How many times as many points as wanted are asked for, so that enough are left without those of
#: other gateways; where that is too few, this catalog's are named one by one.
_MOST_REACH = 4.0
#: How many times as many points as wanted are asked for, where that spares naming more tools than
#: these one by one: an id takes 40 bytes of the request, and as long to look up as to compare.
_MOST_WIDE = 8
_SPARE = 1.25
_LIST = 2_000
"""Points up to which a graph search is asked for."""
_EF = 256
"""Least breadth of a graph search."""
#: However a collection is quantized, scores are those of the vectors themselves.
_EXACT = '{"exact":true,"quantization":{"ignore":true}}'
_RESCORED = '"quantization":{"rescore":true,"oversampling":2.0}'
_FILTERS = 16
"""Filters kept: each may be some 100 kB."""
_PROBED = 8
"""Points that a probe asks for."""
_Filter = dict[str, Any]


class QdrantView:
    """One catalog's points in a collection that others may share.

    Args:
        searches: of the model's collection.
        places: the catalog.
        background: what is known of the tools that are not scored.
        total: points in the collection, those of others included.
        doubt: called where a point is seen to be gone.
    """

    def __init__(
        self,
        searches: Searches,
        places: CatalogPoints,
        background: Background,
        total: int,
        doubt: Callable[[], None],
    ) -> None:
        self.rows = places.rows
        self._searches = searches
        self._doubt = doubt
        self._places, self._ids = places, places.ids
        self._total = total
        others = total / max(1, len(places.first))
        self._reach = 1.0 if others <= 1 else 1.25 * others
        self._background = background
        self._server_sizes = np.bincount(places.servers, minlength=len(places.server_names))
        self._filters: LRUCache[int, tuple[IntArray, str, int]] = LRUCache(_FILTERS)

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        """See `ports.VectorView.search`."""
        try:
            return await self._search(queries, k, allowed, also)
        except BackendError:
            self._doubt()
            raise

    async def _search(
        self, queries: FloatArray, k: int, allowed: IntArray | None, also: IntArray | None
    ) -> VectorHits:
        every = np.arange(len(self.rows)) if allowed is None else allowed
        if not len(every):
            empty, zero = (
                np.zeros((len(queries), 0), np.float32),
                np.zeros(len(queries), np.float32),
            )
            return VectorHits(every, empty, zero, zero)
        if len(every) <= k:
            return await self._all(queries, every)
        sampling = start(
            asyncio.to_thread(self._background.sample, queries, allowed), "cosines of a sample"
        )
        try:  # while Qdrant searches
            rows, hits = await self._best(queries, k, allowed, every, also)
            known = self._background.around(await sampling, rows, hits)
        finally:
            await stop(sampling)
            del sampling  # whose error holds this frame by its trace
        return replace(known, lost=self._lost(hits))

    async def _all(self, queries: FloatArray, every: IntArray) -> VectorHits:
        """Every row scored by Qdrant."""
        scored = await self._scores(queries, every)
        if not any(scored):
            raise self._emptied(every)
        hits = _side_by_side(every, scored)
        lost, gone = self._lost(hits), np.isnan(hits).any(0)
        mean, std = statistics(hits[:, ~gone])
        hits[:, gone] = mean[:, None]
        return VectorHits(every, hits, mean, std, lost)

    async def _best(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None,
        every: IntArray,
        also: IntArray | None,
    ) -> tuple[IntArray, FloatArray]:
        """Ascending rows (c,) of the best of each query and of those wanted also, and their (m, c)
        cosines; NaN where Qdrant has none.
        """
        wanted = np.zeros(0, np.int64) if also is None else also
        if self._reach > _MOST_REACH:
            scored = await self._nearest_named(queries, k, every, wanted)
        else:
            scored = await self._nearest(queries, k, allowed, every, wanted)
        found = {row for hits in scored for row in hits}
        if not found:
            raise self._emptied(every)
        found.update(wanted.tolist())
        rows = np.array(sorted(found), np.int64)
        short = set[int]().union(*(found - hits.keys() for hits in scored))
        if short and len(queries) > 1:
            extra = await self._scores(queries, np.array(sorted(short)))
            scored = [{**hits, **more} for hits, more in zip(scored, extra, strict=True)]
        return rows, _side_by_side(rows, scored)

    def _lost(self, hits: FloatArray) -> int:
        """How many of the tools have no cosine: their points are gone."""
        lost = int(np.isnan(hits).any(0).sum())
        if lost:
            self._doubt()
        return lost

    def _emptied(self, every: IntArray) -> BackendError:
        return StoreFailed(
            f"Qdrant at {self._searches.where} holds none of {len(every)} tools; the "
            f"collection {self._searches.collection} was emptied by something else"
        )

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        ids = [self._ids[row] for row in rows.tolist()]
        unique = dict.fromkeys(ids)
        found = await self._searches.points(unique, vectors=True)
        groups = {str(point["id"]): point["vector"] for point in found}
        if lost := len(unique.keys() - groups.keys()):
            self._doubt()
            raise StoreFailed(f"Qdrant at {self._searches.where} has lost {lost} tools' vectors")
        return np.array([groups[identifier][0] for identifier in ids], np.float32)

    async def probe(self) -> bool:
        """See `ports.Probed.probe`: a few points stand for all."""
        step = max(1, len(self._ids) // _PROBED)
        ids = dict.fromkeys(self._ids[::step][:_PROBED])
        try:
            found = await self._searches.points(ids, vectors=False)
        except Missing:
            found = []
        if len(found) < len(ids):
            self._doubt()
        return len(found) == len(ids)

    async def _nearest(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None,
        every: IntArray,
        wanted: IntArray,
    ) -> list[dict[int, float]]:
        """Scores of the best `k` rows of every query, and of the wanted ones."""
        inside = None if allowed is None else every
        for chosen, asked in self._ways(k, allowed):
            requests = [self._request(q, asked, chosen) for q in _texts(queries)]
            answers = await self._ask(requests + self._by_name(queries, wanted), inside)
            near, named = answers[: len(queries)], answers[len(queries) :]
            if all(size < asked or len(hits) >= k for size, hits in near):
                return _joined([_first(h, k) for _, h in near], [h for _, h in named])
        self._reach = max(2.0, 2 * self._reach)  # others have written since
        return await self._nearest_named(queries, k, every, wanted)

    def _ways(self, k: int, allowed: IntArray | None) -> Iterator[tuple[str, int]]:
        """What to ask for, as (filter, points), until `k` allowed rows are among the answer."""
        most, asked = self._total or k, max(k, int(k * self._reach))
        chosen, ids = self._filtered(allowed)
        if allowed is not None and ids:
            wide = int(_SPARE * asked * len(self.rows) / len(allowed))
            if wide <= min(_MOST_WIDE * k, ids):
                yield "", min(wide, most)
        yield chosen, min(asked, most)

    async def _nearest_named(
        self, queries: FloatArray, k: int, every: IntArray, wanted: IntArray
    ) -> list[dict[int, float]]:
        """The nearest of `every` to each query, with the scores of `wanted`; the points are named
        one by one.
        """
        only = _filter("must", [self._has(every)])
        requests = [self._request(query, k, only) for query in _texts(queries)]
        answers = await self._ask(requests + self._by_name(queries, wanted), every)
        found = [hits for _, hits in answers]
        near = [_first(hits, k) for hits in found[: len(queries)]]
        return _joined(near, found[len(queries) :])

    async def _scores(self, queries: FloatArray, rows: IntArray) -> list[dict[int, float]]:
        """Scores of certain rows, as far as they have points."""
        answers = await self._ask(self._by_name(queries, rows), rows)
        return [hits for _, hits in answers]

    def _by_name(self, queries: FloatArray, rows: IntArray) -> list[str]:
        """Requests for the scores of certain rows; none for none."""
        if not len(rows):
            return []
        only = _filter("must", [self._has(rows)])
        return [self._request(query, len(rows), only) for query in _texts(queries)]

    def _has(self, rows: IntArray) -> _Filter:
        ids = dict.fromkeys(self._ids[i] for i in rows.tolist())
        return {"has_id": list(ids)}

    def _filtered(self, allowed: IntArray | None) -> tuple[str, int]:
        """The filter and how many ids are in it, made once for as long as a visible set stays."""
        if allowed is None or len(allowed) == len(self.rows):
            return "", 0
        known = self._filters.get(id(allowed))
        if known is None or known[0] is not allowed:
            known = (allowed, *self._filter(allowed))
            self._filters[id(allowed)] = known
        return known[1:]

    def _filter(self, allowed: IntArray) -> tuple[str, int]:
        """Whole servers by name, which is indexed, the rest by id; what is allowed, or what is not,
        whichever takes fewer ids. Points of others may come through, none of the allowed is lost.
        """
        denied = np.setdiff1d(np.arange(len(self.rows)), allowed, assume_unique=True)
        if len(self._places.first) < len(self.rows):  # a point that an allowed row needs stays in
            needed = {self._ids[i] for i in allowed.tolist()}
            denied = denied[[self._ids[i] not in needed for i in denied.tolist()]]
        inside, outside = self._conditions(allowed), self._conditions(denied)
        if inside[1] <= outside[1]:
            return _filter("should", inside[0]), inside[1]
        return _filter("must_not", outside[0]), outside[1]

    def _conditions(self, rows: IntArray) -> tuple[list[_Filter], int]:
        """Conditions one of which holds for these rows and no others, and their number of ids."""
        owners = self._places.servers[rows]
        counts = np.bincount(owners, minlength=len(self._server_sizes))
        whole = np.flatnonzero((counts == self._server_sizes) & (counts > 0))
        rest = rows[~np.isin(owners, whole)]
        options: list[_Filter] = []
        if len(whole):
            names = [self._places.server_names[i] for i in whole.tolist()]
            options.append({"key": "server", "match": {"any": names}})
        if len(rest):
            options.append(self._has(rest))
        return options, len(rest)

    def _request(self, query: str, limit: int, chosen: str) -> str:
        exact = len(self.rows) <= _EXACT_BELOW or limit > _LIST
        params = _EXACT if exact else f'{{"hnsw_ef":{max(_EF, limit)},{_RESCORED}}}'
        return f'{{"query":[{query}],{chosen}"limit":{limit},"params":{params}}}'

    async def _ask(
        self, requests: Sequence[str], inside: IntArray | None
    ) -> list[tuple[int, dict[int, float]]]:
        """For each request how many points came, and the cosine of the rows inside they are."""
        within = np.full(len(self.rows), inside is None)
        if inside is not None:
            within[inside] = True
        rows_of = self._places.rows_of
        return [
            (
                len(points),
                {
                    row: float(point["score"])
                    for point in points
                    for row in rows_of(point["id"])
                    if within[row]
                },
            )
            for points in await self._searches.query(requests)
        ]


def _side_by_side(rows: IntArray, scored: Sequence[Mapping[int, float]]) -> FloatArray:
    """(m, r) the cosines of rows; NaN where a row's point is gone."""
    nothing = float("nan")
    cosine = np.array([[hits.get(r, nothing) for r in rows.tolist()] for hits in scored])
    return np.clip(cosine.astype(np.float32), -1.0, 1.0)


def _texts(queries: FloatArray) -> list[str]:
    """Each query as JSON."""
    return [json.dumps(query) for query in queries.astype(np.float64).tolist()]


def _filter(clause: str, conditions: Sequence[_Filter]) -> str:
    """The member `filter` of a request, with the comma after it."""
    return f'"filter":{json.dumps({clause: conditions})},'


def _first(hits: dict[int, float], k: int) -> dict[int, float]:
    """The best `k`, which come first: what others have written must not decide how many."""
    return hits if len(hits) <= k else dict(itertools.islice(hits.items(), k))


def _joined(
    found: Sequence[dict[int, float]], more: Sequence[dict[int, float]]
) -> list[dict[int, float]]:
    """Both for every query; `more` may be empty."""
    return [{**a, **b} for a, b in zip(found, more, strict=True)] if more else list(found)
