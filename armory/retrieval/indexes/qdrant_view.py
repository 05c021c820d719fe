"""Reading from a Qdrant collection: points, filters, the search itself.

Owns: the client behind threads of its own, and the view that searches; `qdrant` owns writing. Never
imports an embedder or a ranker.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
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
from armory.retrieval.ports import FloatArray, IntArray, Row, VectorHits

T = TypeVar("T")

#: Points a request.
BATCH = 256
#: Points up to which the server is asked to compare with every allowed one.
_EXACT_BELOW = 20_000
_NAMESPACE = uuid.UUID("4bb8a0a5-7f43-4b0e-9d38-6a0f6a3f6e2b")


def point_id(key: str) -> str:
    """The id of a tool's point: stable over restarts and replicas."""
    return str(uuid.uuid5(_NAMESPACE, key.encode("utf-8", "replace").decode()))


def rounded(vectors: FloatArray) -> list[list[float]]:
    """Vectors as the client takes them."""
    return vectors.astype(np.float64).tolist()


class Access:
    """The client behind its own threads, every failure a `BackendError`."""

    def __init__(self, client: QdrantClient, where: str, *, local: bool) -> None:
        self.client = client
        self.local = local
        self.where = where
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
    """One state of a server's collection: which points are which rows."""

    def __init__(
        self, access: Access, collection: str, rows: Sequence[Row], background: Background
    ) -> None:
        self.rows = tuple(rows)
        self._access = access
        self._collection = collection
        self._ids = [point_id(row.key) for row in rows]
        self._row_of = {identifier: i for i, identifier in enumerate(self._ids)}
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
        found = await self._query(queries, min(k, len(every)), self._filter(allowed))
        rows = np.unique(np.array([row for hit in found for row in hit], np.int64))
        if not len(rows):
            raise BackendError(
                f"Qdrant at {self._access.where} holds none of {len(every)} tools; the collection "
                f"{self._collection} was emptied by something else"
            )
        if len(every) > k and also is not None:
            rows = np.union1d(rows, also)
        missing = [row for row in rows.tolist() if any(row not in hit for hit in found)]
        if missing:
            extra = await self._score(queries, missing)
            found = [{**hit, **more} for hit, more in zip(found, extra, strict=True)]
            rows = np.array([r for r in rows.tolist() if all(r in hit for hit in found)], np.int64)
        cosine = np.array([[hit[r] for r in rows.tolist()] for hit in found], np.float32)
        cosine = np.clip(cosine.reshape(len(queries), len(rows)), -1.0, 1.0)
        if len(rows) == len(every):
            mean, std = statistics(cosine)
        else:
            mean, std = self._background.statistics(queries, allowed)
        return VectorHits(rows, cosine, mean, std)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        ids = [self._ids[row] for row in rows.tolist()]
        groups = await self._access.run(lambda c: retrieve(c, self._collection, ids))
        return np.stack([groups[identifier][0] for identifier in ids])

    async def _score(self, queries: FloatArray, rows: Sequence[int]) -> list[dict[int, float]]:
        """Cosines of certain rows."""
        wanted = models.HasIdCondition(has_id=[self._ids[i] for i in rows])
        return await self._query(queries, len(rows), models.Filter(must=[wanted]))

    def _filter(self, allowed: IntArray | None) -> models.Filter | None:
        """Whole servers by name, which is indexed, the rest by id; what is allowed, or what is not,
        whichever takes fewer ids.
        """
        if allowed is None or len(allowed) == len(self.rows):
            return None
        denied = np.setdiff1d(np.arange(len(self.rows)), allowed, assume_unique=True)
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
            options.append(models.HasIdCondition(has_id=[self._ids[i] for i in rest.tolist()]))
        return options, len(rest)

    async def _query(
        self, queries: FloatArray, limit: int, chosen: models.Filter | None
    ) -> list[dict[int, float]]:
        """Cosine by row, for every query. Points of other replicas' newer tools are left out."""
        exact = len(self.rows) <= _EXACT_BELOW or limit > BATCH
        params = models.SearchParams(exact=True) if exact else models.SearchParams(hnsw_ef=256)
        requests = [
            models.QueryRequest(
                query=[vector], filter=chosen, limit=limit, params=params, with_payload=False
            )
            for vector in rounded(queries)
        ]
        answers = await self._access.run(lambda c: c.query_batch_points(self._collection, requests))
        return [
            {
                self._row_of[str(point.id)]: float(point.score)
                for point in answer.points
                if str(point.id) in self._row_of
            }
            for answer in answers
        ]


def retrieve(client: QdrantClient, collection: str, ids: Sequence[str]) -> dict[str, FloatArray]:
    """Vectors of points by id."""
    points = client.retrieve(collection, list(ids), with_payload=False, with_vectors=True)
    return {str(p.id): np.array(p.vector, np.float32) for p in points}
