"""Vectors in Qdrant: in memory, in a folder, or on a server that replicas share.

Owns: collections, aliases, what is written; with `qdrant_view` the only import of
`qdrant_client`. Never imports an embedder or a ranker.

A tool is one point with a multivector; the server takes the best of its vectors (MaxSim with one
query vector). A collection belongs to one model: its name is an alias made of the configured name,
the embedder's identity and the dimension, so another model means another collection.

The client library's local mode visits every point in Python to search: seconds among 10,000. There
the points are what is kept, and a matrix beside them is what is searched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import structlog
from qdrant_client import QdrantClient, models

from armory.errors import BackendError, ConfigError
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexes.base import Background, check_vectors
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.qdrant_view import (
    BATCH,
    Access,
    QdrantView,
    point_id,
    retrieve,
    rounded,
)
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import Embedder, FloatArray, Row, VectorView

_log = structlog.get_logger(__name__)
T = TypeVar("T")

LOCAL_LIMIT = 20_000
_PAGE = 1_000


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
        self._access = Access(client, where, local=not url)
        self._exact = ExactIndex()  # what the local mode is searched by
        self._kept: dict[str, str] | None = None  # what it holds: nobody else writes there

    async def stored(self) -> Mapping[str, str]:
        """Digest by key of every point of the model's collection."""
        return await self._access.run(self._stored)

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> VectorView:
        """The next view; see `ports.VectorIndex.update`."""
        for key, vectors in changed.items():
            check_vectors(key, vectors, self._dimension)
        await self._access.run(lambda client: self._write(client, rows, changed))
        if not self._access.local:
            return QdrantView(
                self._access,
                self.alias,
                rows,
                await self._access.run(lambda client: self._background(client, rows, changed)),
            )
        if len(rows) > LOCAL_LIMIT:
            _log.warning(
                "qdrant_local_mode_is_for_small_catalogues", tools=len(rows), limit=LOCAL_LIMIT
            )
        known = await self._exact.stored()
        absent = [r.key for r in rows if r.key not in changed and known.get(r.key) != r.digest]
        read = await self._access.run(lambda client: self._read(client, absent))
        return await self._exact.update(rows, {**read, **changed})

    async def aclose(self) -> None:
        """Close the connection or the folder."""
        await self._access.aclose()

    def _stored(self, client: QdrantClient) -> Mapping[str, str]:
        if self._kept is not None:
            return self._kept
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
            self._point_alias(client, self._create(client))

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

    def _point_alias(self, client: QdrantClient, name: str) -> None:
        """Several replicas that start at once agree on the last."""
        alias = models.CreateAlias(collection_name=name, alias_name=self.alias)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])

    def _write(
        self, client: QdrantClient, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> None:
        known = self._stored(client)
        wanted = {row.key: row for row in rows}
        for row in rows:
            if row.key not in changed and known.get(row.key) != row.digest:
                raise BackendError(f"tool {row.key}: no vectors given and none stored")
        points = (
            models.PointStruct(
                id=point_id(key),
                vector=rounded(vectors),
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
        self._kept = None
        for page in _chunks(points, BATCH):
            client.upsert(self.alias, page, wait=True)
        gone = [point_id(key) for key in known if key not in wanted]
        for page in _chunks(gone, _PAGE):
            client.delete(self.alias, models.PointIdsList(points=list(page)), wait=True)
        if self._access.local:
            self._kept = {row.key: row.digest for row in rows}

    def _read(self, client: QdrantClient, keys: Iterable[str]) -> dict[str, FloatArray]:
        """Stored vectors of some tools."""
        found: dict[str, FloatArray] = {}
        for page in _chunks(keys, BATCH):
            names = {point_id(key): key for key in page}
            for identifier, vectors in retrieve(client, self.alias, list(names)).items():
                found[names[identifier]] = vectors
        return found

    def _background(
        self, client: QdrantClient, rows: Sequence[Row], changed: Mapping[str, FloatArray]
    ) -> Background:
        """Vectors of the sample; those that were stored before are fetched."""
        names = Background.choose([row.key for row in rows])
        groups = self._read(client, (key for key in names if key not in changed))
        groups |= {key: changed[key] for key in names if key in changed}
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


def _chunks(items: Iterable[T], size: int) -> Iterable[list[T]]:
    page: list[T] = []
    for item in items:
        page.append(item)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


def open_index(embedder: Embedder, options: PartOptions) -> QdrantIndex:
    """The index of the name `qdrant`.

    Raises:
        ConfigError: the store cannot be opened.
    """
    settings = options.qdrant
    return QdrantIndex(
        embedder.identity,
        embedder.dimension,
        url=settings.url,
        path=settings.path,
        api_key=settings.api_key,
        collection=settings.collection,
    )
