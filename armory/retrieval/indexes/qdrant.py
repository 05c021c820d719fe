"""Vectors in Qdrant: in memory, in a folder, or on a server that replicas share.

Owns: the only import of `qdrant_client`; collections, aliases, filters. Never imports an embedder
or a ranker.

A tool is one point with a multivector; the server takes the best of its vectors (MaxSim with one
query vector). A collection belongs to one model: its name is an alias made of the configured name,
the embedder's identity and the dimension, so another model means another collection.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numpy as np
import structlog
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from armory.errors import BackendError, ConfigError
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexes.base import Background, check_vectors, statistics
from armory.retrieval.ports import FloatArray, Hits, IntArray, Row

_log = structlog.get_logger(__name__)
T = TypeVar("T")

LOCAL_LIMIT = 20_000
_BATCH = 256
_PAGE = 1_000
#: Points up to which the server is asked to compare with every allowed one.
_EXACT_BELOW = 20_000
#: Allowed tools up to which the local mode is given a filter.
_SMALL = 64
_NAMESPACE = uuid.UUID("4bb8a0a5-7f43-4b0e-9d38-6a0f6a3f6e2b")


def point_id(key: str) -> str:
    """The id of a tool's point: stable over restarts and replicas."""
    return str(uuid.uuid5(_NAMESPACE, key.encode("utf-8", "replace").decode()))


def _rounded(vectors: FloatArray) -> list[list[float]]:
    return vectors.astype(np.float64).tolist()


class _Access:
    """The client behind its own threads, every failure a `BackendError`."""

    def __init__(self, client: QdrantClient, where: str, *, local: bool) -> None:
        self.client = client
        self.local = local
        self._where = where
        self._closed = False
        # the local store is not thread-safe: one thread for it
        self._pool = ThreadPoolExecutor(1 if local else 4, "armory-qdrant")

    async def run(self, work: Callable[[QdrantClient], T]) -> T:
        """Run blocking work on the client."""
        if self._closed:
            raise BackendError(f"Qdrant at {self._where}: the connection is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._guarded, work)

    def _guarded(self, work: Callable[[QdrantClient], T]) -> T:
        try:
            return work(self.client)
        except ResponseHandlingException as error:
            raise BackendError(f"Qdrant at {self._where} does not answer: {error}") from error
        except (ApiException, ValueError, RuntimeError, OSError) as error:
            raise BackendError(f"Qdrant at {self._where} failed: {str(error)[:500]}") from error

    async def aclose(self) -> None:
        """Close client and threads; once is enough."""
        if self._closed:
            return
        await self.run(lambda client: client.close())
        self._closed = True
        self._pool.shutdown(wait=False)


class QdrantView:
    """One state of the collection: which points are which rows."""

    def __init__(
        self, access: _Access, collection: str, rows: Sequence[Row], background: Background
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
    ) -> Hits:
        """See `ports.VectorView.search`."""
        every = np.arange(len(self.rows)) if allowed is None else allowed
        if not len(every):
            empty, zero = (
                np.zeros((len(queries), 0), np.float32),
                np.zeros(len(queries), np.float32),
            )
            return Hits(every, empty, zero, zero)
        if self._access.local and len(every) > _SMALL and allowed is not None:
            found = await self._widening(queries, min(k, len(every)), allowed)
        else:
            found = await self._query(queries, min(k, len(every)), self._filter(allowed))
        rows = np.unique(np.array([row for hit in found for row in hit], np.int64))
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
        return Hits(rows, cosine, mean, std)

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) the first vector of each row."""
        ids = [self._ids[row] for row in rows.tolist()]
        groups = await self._access.run(lambda c: _retrieve(c, self._collection, ids))
        return np.stack([groups[identifier][0] for identifier in ids])

    async def _widening(
        self, queries: FloatArray, k: int, allowed: IntArray
    ) -> list[dict[int, float]]:
        """The local mode's filters cost (points x ids): ask for more and more instead, and sift."""
        inside = set(allowed.tolist())
        limit = 2 * k
        while True:
            limit = min(limit, len(self.rows))
            found = await self._query(queries, limit, None)
            sifted = [{r: c for r, c in hit.items() if r in inside} for hit in found]
            if limit == len(self.rows) or min(map(len, sifted)) >= k:
                return sifted
            limit *= 4

    async def _score(self, queries: FloatArray, rows: Sequence[int]) -> list[dict[int, float]]:
        """Cosines of certain rows."""
        if not self._access.local:
            return await self._query(queries, len(rows), self._exactly(rows))
        ids = [self._ids[row] for row in rows]
        groups = await self._access.run(lambda c: _retrieve(c, self._collection, ids))
        known = [(row, groups[i]) for row, i in zip(rows, ids, strict=True) if i in groups]
        return [{row: float((group @ q).max()) for row, group in known} for q in queries]

    def _filter(self, allowed: IntArray | None) -> models.Filter | None:
        """Whole servers by name, which is indexed, the rest by id."""
        if allowed is None or len(allowed) == len(self.rows):
            return None
        owners = self._servers[allowed]
        counts = np.bincount(owners, minlength=len(self._server_sizes))
        whole = np.flatnonzero((counts == self._server_sizes) & (counts > 0))
        rest = allowed[~np.isin(owners, whole)]
        options: list[models.Condition] = []
        if len(whole):
            names = [self._server_names[i] for i in whole.tolist()]
            options.append(models.FieldCondition(key="server", match=models.MatchAny(any=names)))
        if len(rest):
            options.append(models.HasIdCondition(has_id=[self._ids[i] for i in rest.tolist()]))
        return models.Filter(should=options)

    def _exactly(self, rows: Sequence[int]) -> models.Filter:
        wanted = models.HasIdCondition(has_id=[self._ids[i] for i in rows])
        return models.Filter(must=[wanted])

    async def _query(
        self, queries: FloatArray, limit: int, chosen: models.Filter | None
    ) -> list[dict[int, float]]:
        """Cosine by row, for every query. Points of other replicas' newer tools are left out."""
        exact = len(self.rows) <= _EXACT_BELOW or limit > _BATCH
        params = models.SearchParams(exact=True) if exact else models.SearchParams(hnsw_ef=256)
        if self._access.local:  # always exact, and warns about parameters
            params = None
        requests = [
            models.QueryRequest(
                query=[vector], filter=chosen, limit=limit, params=params, with_payload=False
            )
            for vector in _rounded(queries)
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


class QdrantIndex:
    """One model's vectors in a Qdrant collection.

    Args:
        identity: of the embedder; part of the collection's name.
        dimension: of its vectors.
        url: server or cluster; None with `path` None: in memory.
        path: folder of the local mode; one process at a time, small catalogues.
        api_key: for the server.
        collection: first part of the alias.
        timeout_s: of one request.

    Raises:
        ConfigError: `url` and `path` together, or the folder is locked by another process.
    """

    def __init__(
        self,
        identity: str,
        dimension: int,
        *,
        url: str | None = None,
        path: str | None = None,
        api_key: str | None = None,
        collection: str = "armory",
        timeout_s: float = 5.0,
    ) -> None:
        if url and path:
            raise ConfigError("url and path exclude each other", path="tool_rag.qdrant")
        self._dimension = dimension
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", identity)[:60]
        self.alias = f"{collection}-{slug}-{text_hash(identity)[:6]}-{dimension}"
        where = url or path or "memory"
        try:
            if url:
                client = QdrantClient(
                    url=url, api_key=api_key, timeout=int(timeout_s) or 1, check_compatibility=False
                )
            elif path:
                client = QdrantClient(path=path, force_disable_check_same_thread=True)
            else:
                client = QdrantClient(location=":memory:")
        except (RuntimeError, ValueError, OSError) as error:
            raise ConfigError(
                f"the Qdrant store at {where} cannot be opened: {error}; a folder serves one "
                "process at a time: stop the other one, or use a server (url)",
                path="tool_rag.qdrant",
            ) from error
        self._access = _Access(client, where, local=not url)

    async def stored(self) -> Mapping[str, str]:
        """Digest by key of every point of the model's collection."""
        return await self._access.run(self._stored)

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> QdrantView:
        """The next view; see `ports.VectorIndex.update`."""
        for key, vectors in changed.items():
            check_vectors(key, vectors, self._dimension)
        if self._access.local and len(rows) > LOCAL_LIMIT:
            _log.warning(
                "qdrant_local_mode_is_for_small_catalogues", tools=len(rows), limit=LOCAL_LIMIT
            )
        background = await self._access.run(lambda client: self._update(client, rows, changed))
        return QdrantView(self._access, self.alias, rows, background)

    async def recreate(self) -> None:
        """Copy everything into a new collection and switch the alias; searches go on meanwhile.

        For collections made by an older version, or whose parameters are to change.
        """
        await self._access.run(self._recreate)

    async def aclose(self) -> None:
        """Close the connection or the folder."""
        await self._access.aclose()

    def _stored(self, client: QdrantClient) -> dict[str, str]:
        self._ensure(client)
        found: dict[str, str] = {}
        for point in _scroll(client, self.alias):
            payload = point.payload or {}
            found[str(payload.get("key"))] = str(payload.get("digest"))
        return found

    def _target(self, client: QdrantClient) -> str | None:
        aliases = client.get_aliases().aliases
        names = [a.collection_name for a in aliases if a.alias_name == self.alias]
        return names[0] if names else None

    def _ensure(self, client: QdrantClient) -> None:
        if self._target(client) is None:
            self._point_alias(client, self._create(client), None)

    def _create(self, client: QdrantClient) -> str:
        name = f"{self.alias}-{time.time_ns():x}"
        client.create_collection(
            name,
            vectors_config=models.VectorParams(
                size=self._dimension,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(
                    comparator=models.MultiVectorComparator.MAX_SIM
                ),
            ),
        )
        if not self._access.local:  # the local mode has no payload indexes
            for field in ("key", "server", "category"):
                client.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD)
        return name

    def _point_alias(self, client: QdrantClient, name: str, old: str | None) -> None:
        """Move the alias in one step; several replicas that start at once agree on the last."""
        operations: list[models.AliasOperations] = []
        if old is not None:
            operations.append(
                models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.alias))
            )
        operations.append(
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=name, alias_name=self.alias)
            )
        )
        client.update_collection_aliases(operations)
        if old is not None:
            client.delete_collection(old)

    def _recreate(self, client: QdrantClient) -> None:
        old = self._target(client)
        name = self._create(client)
        if old is not None:
            for page in _chunks(_scroll(client, self.alias, vectors=True), _BATCH):
                client.upsert(
                    name,
                    [
                        models.PointStruct(id=p.id, vector=cast("Any", p.vector), payload=p.payload)
                        for p in page
                    ],
                    wait=True,
                )
        self._point_alias(client, name, old)

    def _update(
        self, client: QdrantClient, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> Background:
        known = self._stored(client)
        wanted = {row.key: row for row in rows}
        for row in rows:
            if row.key not in changed and known.get(row.key) != row.digest:
                raise BackendError(f"tool {row.key}: no vectors given and none stored")
        points = (
            models.PointStruct(
                id=point_id(key),
                vector=_rounded(vectors),
                payload={
                    "key": key,
                    "digest": wanted[key].digest,
                    "server": wanted[key].server,
                    "category": wanted[key].category,
                },
            )
            for key, vectors in changed.items()
            if key in wanted
        )
        for page in _chunks(points, _BATCH):
            client.upsert(self.alias, page, wait=True)
        gone = [point_id(key) for key in known if key not in wanted]
        for page in _chunks(gone, _PAGE):
            client.delete(self.alias, models.PointIdsList(points=list(page)), wait=True)
        return self._background(client, rows, changed)

    def _background(
        self, client: QdrantClient, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> Background:
        """Vectors of the sample; those that were stored before are fetched."""
        names = Background.choose([row.key for row in rows])
        absent = {point_id(key): key for key in names if key not in changed}
        groups = {key: changed[key] for key in names if key in changed}
        for page in _chunks(absent, _BATCH):
            for identifier, vectors in _retrieve(client, self.alias, page).items():
                groups[absent[identifier]] = vectors
        return Background(rows, groups, self._dimension)


def _scroll(
    client: QdrantClient, collection: str, *, vectors: bool = False
) -> Iterable[models.Record]:
    offset: Any = None
    while True:
        page, offset = client.scroll(
            collection, limit=_PAGE, offset=offset, with_payload=True, with_vectors=vectors
        )
        yield from page
        if offset is None:
            return


def _retrieve(client: QdrantClient, collection: str, ids: Sequence[str]) -> dict[str, FloatArray]:
    points = client.retrieve(collection, list(ids), with_payload=False, with_vectors=True)
    return {str(p.id): np.array(p.vector, np.float32) for p in points}


def _chunks(items: Iterable[T], size: int) -> Iterable[list[T]]:
    page: list[T] = []
    for item in items:
        page.append(item)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page
