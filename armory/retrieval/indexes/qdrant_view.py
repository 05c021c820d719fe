"""Searching a Qdrant collection: filters, the search itself, what to do about points of others.

Owns: the client behind threads of its own, and the view that searches; `qdrant` and `qdrant_points`
own writing. Never imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from armory.errors import BackendError
from armory.retrieval.indexes.base import Background, statistics
from armory.retrieval.indexes.qdrant_points import Points, rounded
from armory.retrieval.ports import FloatArray, IntArray, Row, VectorHits

T = TypeVar("T")

#: Points up to which the server is asked to compare with every allowed one.
_EXACT_BELOW = 20_000
#: How many times as many points as wanted are asked for, so that enough are left without those of
#: other gateways; where that is too few, this catalog's are named one by one.
_MOST_REACH = 4.0
_LIST = 256
"""Points up to which a graph search is asked for."""


class Access:
    """The client behind its own threads, every failure a `BackendError`."""

    def __init__(self, client: QdrantClient, where: str, *, local: bool) -> None:
        self.client = client
        self.local = local
        self.where = where
        self.doubted = True
        """Whether points may be gone that were there: nothing was seen yet, or something failed."""
        self._closed = False
        # the local store is not thread-safe: one thread for it
        self._pool = ThreadPoolExecutor(1 if local else 4, "armory-qdrant")

    async def run(self, work: Callable[[QdrantClient], T]) -> T:
        """Run blocking work on the client."""
        if self._closed:
            raise BackendError(f"Qdrant at {self.where}: the connection is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._guarded, work)

    def _guarded(self, work: Callable[[QdrantClient], T]) -> T:
        try:
            return self._told(work)
        except BackendError:
            self.doubted = True
            raise

    def _told(self, work: Callable[[QdrantClient], T]) -> T:
        try:
            return work(self.client)
        except ResponseHandlingException as error:
            raise BackendError(f"Qdrant at {self.where} does not answer: {error}") from error
        except UnexpectedResponse as error:
            hint = "; check tool_rag.qdrant.api_key" if error.status_code in (401, 403) else ""
            text = f"HTTP {error.status_code}: {error.content.decode('utf-8', 'replace')[:300]}"
            raise BackendError(f"Qdrant at {self.where} answered {text}{hint}") from error
        except AssertionError as error:  # the client's way to say that an answer has no result
            raise BackendError(
                f"Qdrant at {self.where} sent something that is no answer; is it a Qdrant server?"
            ) from error
        except (ApiException, ValueError, RuntimeError, OSError) as error:
            raise BackendError(f"Qdrant at {self.where} failed: {str(error)[:500]}") from error

    async def aclose(self) -> None:
        """Close client and threads; once is enough."""
        if self._closed:
            return
        await self.run(lambda client: client.close())
        self._closed = True
        self._pool.shutdown(wait=False)


class QdrantView:
    """One catalog's points in a collection that others may share.

    Args:
        access: the client.
        points: of the model.
        rows: the catalog.
        ids: the point of each row; rows of equal content share one.
        background: for mean and deviation where not every row is scored.
        total: points in the collection, those of others included.
    """

    def __init__(
        self,
        access: Access,
        points: Points,
        rows: Sequence[Row],
        ids: list[str],
        background: Background,
        total: int,
    ) -> None:
        self.rows = tuple(rows)
        self._access = access
        self._points = points
        self._ids = ids
        self._rows_of: dict[str, list[int]] = {}
        for i, identifier in enumerate(ids):
            self._rows_of.setdefault(identifier, []).append(i)
        self._total = total
        others = total / max(1, len(self._rows_of))
        self._reach = 1.0 if others <= 1 else 1.25 * others
        self._background = background
        servers: dict[str, int] = {}
        self._servers: IntArray = np.array(
            [servers.setdefault(row.server, len(servers)) for row in rows], np.int64
        )
        self._server_names = list(servers)
        self._server_sizes = np.bincount(self._servers, minlength=len(servers))

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        """See `ports.VectorView.search`."""
        every = np.arange(len(self.rows)) if allowed is None else allowed
        if not len(every):
            empty, zero = (
                np.zeros((len(queries), 0), np.float32),
                np.zeros(len(queries), np.float32),
            )
            return VectorHits(every, empty, zero, zero)
        whole = len(every) <= k
        wanted = np.zeros(0, np.int64) if also is None else also
        if whole:
            scored = await self._scores(queries, every)
        elif self._reach > _MOST_REACH:
            scored = await self._nearest_named(queries, k, every, wanted)
        else:
            scored = await self._nearest(queries, k, allowed, every, wanted)
        found = {row for hits in scored for row in hits}
        if not found:
            raise BackendError(
                f"Qdrant at {self._access.where} holds none of {len(every)} tools; the collection "
                f"{self._points.name} was emptied by something else"
            )
        rows = np.array(sorted(found.union(every.tolist() if whole else wanted.tolist())), np.int64)
        short = [row for row in rows.tolist() if any(row not in hits for hits in scored)]
        if short and not whole and len(queries) > 1:
            extra = await self._scores(queries, np.array(short))
            scored = [{**hits, **more} for hits, more in zip(scored, extra, strict=True)]
        return self._hits(queries, rows, scored, allowed, len(every))

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        ids = [self._ids[row] for row in rows.tolist()]
        unique = set(ids)
        groups = await self._access.run(lambda c: self._points.vectors(c, unique))
        if lost := len(unique - groups.keys()):
            self._access.doubted = True
            raise BackendError(f"Qdrant at {self._access.where} has lost {lost} tools' vectors")
        return np.stack([groups[identifier][0] for identifier in ids])

    def _hits(
        self,
        queries: FloatArray,
        rows: IntArray,
        scored: Sequence[Mapping[int, float]],
        allowed: IntArray | None,
        size: int,
    ) -> VectorHits:
        """The scores side by side. A row whose point is gone stays, with the mean as its cosine."""
        nothing = float("nan")
        cosine = np.array([[hits.get(r, nothing) for r in rows.tolist()] for hits in scored])
        cosine = np.clip(cosine.astype(np.float32), -1.0, 1.0)
        gone = np.isnan(cosine).any(0)
        lost = int(gone.sum())
        if len(rows) == size and not lost:
            mean, std = statistics(cosine)
        elif len(rows) == size:
            mean, std = statistics(cosine[:, ~gone])
        else:
            mean, std = self._background.statistics(queries, allowed)
        if lost:
            self._access.doubted = True
            cosine[:, gone] = mean[:, None]
        return VectorHits(rows, cosine, mean, std, lost)

    async def _nearest(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None,
        every: IntArray,
        wanted: IntArray,
    ) -> list[dict[int, float]]:
        """Scores of at least the best `k` rows of every query, and of the wanted ones."""
        asked = min(max(k, int(k * self._reach)), self._total or k)
        chosen = self._filter(allowed)
        requests = [self._request(q, asked, chosen) for q in rounded(queries)]
        inside = None if allowed is None else every
        answers = await self._ask(requests + self._by_name(queries, wanted), inside)
        near, named = answers[: len(queries)], answers[len(queries) :]
        if any(size == asked and len(hits) < k for size, hits in near):
            self._reach = max(2.0, 2 * self._reach)  # others have written since
            return await self._nearest_named(queries, k, every, wanted)
        return _joined([h for _, h in near], [h for _, h in named])

    async def _nearest_named(
        self, queries: FloatArray, k: int, every: IntArray, wanted: IntArray
    ) -> list[dict[int, float]]:
        """The same among points that are named one by one."""
        only = models.Filter(must=[self._has(every)])
        requests = [self._request(query, k, only) for query in rounded(queries)]
        answers = await self._ask(requests + self._by_name(queries, wanted), every)
        found = [hits for _, hits in answers]
        return _joined(found[: len(queries)], found[len(queries) :])

    async def _scores(self, queries: FloatArray, rows: IntArray) -> list[dict[int, float]]:
        """Scores of certain rows, as far as they have points."""
        answers = await self._ask(self._by_name(queries, rows), rows)
        return [hits for _, hits in answers]

    def _by_name(self, queries: FloatArray, rows: IntArray) -> list[models.QueryRequest]:
        """Requests for the scores of certain rows; none for none."""
        if not len(rows):
            return []
        only = models.Filter(must=[self._has(rows)])
        return [self._request(query, len(rows), only) for query in rounded(queries)]

    def _has(self, rows: IntArray) -> models.HasIdCondition:
        ids = dict.fromkeys(self._ids[i] for i in rows.tolist())
        return models.HasIdCondition(has_id=list(ids))

    def _filter(self, allowed: IntArray | None) -> models.Filter | None:
        """Whole servers by name, which is indexed, the rest by id; what is allowed, or what is not,
        whichever takes fewer ids. Points of others may come through, none of the allowed is lost.
        """
        if allowed is None or len(allowed) == len(self.rows):
            return None
        denied = np.setdiff1d(np.arange(len(self.rows)), allowed, assume_unique=True)
        if len(self._rows_of) < len(self.rows):  # a point that an allowed row needs stays in
            needed = {self._ids[i] for i in allowed.tolist()}
            denied = denied[[self._ids[i] not in needed for i in denied.tolist()]]
        inside, outside = self._conditions(allowed), self._conditions(denied)
        if inside[1] <= outside[1]:
            return models.Filter(should=inside[0])
        return models.Filter(must_not=outside[0])

    def _conditions(self, rows: IntArray) -> tuple[list[models.Condition], int]:
        """Conditions one of which holds for these rows and no others, and their number of ids."""
        owners = self._servers[rows]
        counts = np.bincount(owners, minlength=len(self._server_sizes))
        whole = np.flatnonzero((counts == self._server_sizes) & (counts > 0))
        rest = rows[~np.isin(owners, whole)]
        options: list[models.Condition] = []
        if len(whole):
            names = [self._server_names[i] for i in whole.tolist()]
            options.append(models.FieldCondition(key="server", match=models.MatchAny(any=names)))
        if len(rest):
            options.append(self._has(rest))
        return options, len(rest)

    def _request(
        self, query: list[float], limit: int, chosen: models.Filter | None
    ) -> models.QueryRequest:
        exact = len(self.rows) <= _EXACT_BELOW or limit > _LIST
        params = models.SearchParams(exact=True) if exact else models.SearchParams(hnsw_ef=256)
        return models.QueryRequest(
            query=[query], filter=chosen, limit=limit, params=params, with_payload=False
        )

    async def _ask(
        self, requests: Sequence[models.QueryRequest], inside: IntArray | None
    ) -> list[tuple[int, dict[int, float]]]:
        """For each request how many points came, and the cosine of the rows inside they are."""
        name = self._points.name
        within = np.full(len(self.rows), inside is None)
        if inside is not None:
            within[inside] = True
        answers = await self._access.run(lambda c: c.query_batch_points(name, requests))
        return [
            (
                len(answer.points),
                {
                    row: float(point.score)
                    for point in answer.points
                    for row in self._rows_of.get(str(point.id), ())
                    if within[row]
                },
            )
            for answer in answers
        ]


def _joined(
    found: Sequence[dict[int, float]], more: Sequence[dict[int, float]]
) -> list[dict[int, float]]:
    """Both for every query; `more` may be empty."""
    return [{**a, **b} for a, b in zip(found, more, strict=True)] if more else list(found)
