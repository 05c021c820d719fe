"""Vectors in Qdrant: in memory, in a folder, or on a server that gateways share.

Owns: `QdrantIndex`, and which points of a catalog are missing. `qdrant_catalog` knows which those
are, `qdrant_points` writes them, `qdrant_view` searches. Never imports an embedder or a ranker.

A tool is one point with a multivector; the server takes the best of its vectors (MaxSim with one
query vector). A collection belongs to one model: its name is made of the configured name, the
embedder's identity and the dimension, so another model means another collection. Points are named
by content and shared by whoever needs them; which ones are a catalog's, its gateway knows.

The client library's local mode visits every point in Python to search: seconds among 10,000. There
the points are what is kept, and a matrix beside them is what is searched.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import QdrantClient

from armory.domain.hosts import LOOPBACK
from armory.errors import BackendError, ConfigError
from armory.logger import Logger
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexes.background import Background
from armory.retrieval.indexes.base import check_vectors
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.qdrant_access import Access, Searches
from armory.retrieval.indexes.qdrant_catalog import CatalogPoints
from armory.retrieval.indexes.qdrant_points import LAYOUT, Points, chunks
from armory.retrieval.indexes.qdrant_upkeep import Upkeep
from armory.retrieval.indexes.qdrant_view import QdrantView
from armory.retrieval.options import PartOptions, QdrantSettings
from armory.retrieval.ports import Embedder, FloatArray, IntArray, Row, VectorView

_log = Logger(__name__)

LOCAL_LIMIT = 20_000
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_FETCHED = 64
"""Tools whose vectors are fetched in one request: some milliseconds of JSON."""


class QdrantIndex:
    """One model's vectors in a Qdrant collection.

    Args:
        identity: of the embedder; part of the collection's name.
        dimension: of its vectors.
        settings: where; neither `url` nor `path`: in memory.
        timeout_s: of one request.

    Raises:
        ConfigError: `url` and `path` together, or the folder is locked by another process.
    """

    def __init__(
        self,
        identity: str,
        dimension: int,
        settings: QdrantSettings | None = None,
        *,
        timeout_s: float = 5.0,
    ) -> None:
        settings = settings or QdrantSettings()
        self._dimension = dimension
        slug = _NOT_IN_NAMES.sub("-", identity)[:60]
        name = f"{settings.collection}-{slug}-{text_hash(identity)[:6]}-{dimension}-v{LAYOUT}"
        self.collection = name
        where, local = settings.url or settings.path or "memory", not settings.url
        self._access = Access(_client(settings, timeout_s), where, local=local)
        self._searches = Searches(where, settings.api_key, name, timeout_s)
        self._points = Points(name, dimension, local=local, quantization=settings.quantization)
        self._upkeep = Upkeep(
            self._access,
            self._points,
            settings.collection,
            settings.unused_days,
            lambda: {*self._held, *self._new},
        )
        self._exact = ExactIndex()  # what the local mode is searched by
        self._places = CatalogPoints(())
        self._held: Collection[str] = ()  # points that are known to be there, and further ones
        self._new: set[str] = set()
        #: The points of a catalog that are not among those held, which both are beside them.
        self._lacking: tuple[CatalogPoints, Collection[str], set[str]] | None = None
        #: Points of the last sample, and their vectors.
        self._sample: tuple[list[str], Compact] = [], Compact.of((), dimension)

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """Digests of those rows that have a point; whoever wrote it."""
        places = await self._placed(rows)
        if not self._access.local:
            self._upkeep.start()
        if self._access.doubted:
            self._access.doubted = False  # a failure doubts again
            self._held = await self._access.run(lambda client: self._found(client, places.first))
            self._new = set()
        elif absent := self._absent(places):
            self._new |= await self._access.run(lambda c: self._points.present(c, absent))
        if not (lacking := self._absent(places)):
            return places.digests
        found = places.digests.copy()
        for point in lacking:
            for i in places.rows_of(point):
                del found[places.rows[i].key]
        return found

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> VectorView:
        """The next view; see `ports.VectorIndex.update`. Points of others stay as they are."""
        for key, vectors in changed.items():
            check_vectors(key, vectors, self._dimension)
        places = await self._placed(rows)
        if self._access.doubted or self._absent(places):
            await self.stored(rows)
            for point in self._absent(places):
                for key in (places.rows[i].key for i in places.rows_of(point)):
                    if key not in changed:
                        raise BackendError(f"tool {key}: no vectors given and none stored")
        write = self._access.run(lambda client: self._write(client, places, changed))
        if self._access.local:
            await write
            self._hold(places)
            return await self._searched_here(places, changed)
        counted, _ = await asyncio.gather(self._access.run(self._points.count), write)
        total = max(counted, len(places.first))  # which may not have been written when it counted
        self._hold(places)
        background = await self._background(places, changed)
        return QdrantView(self._searches, places, background, total, self._doubt)

    async def aclose(self) -> None:
        """Close the connection or the folder."""
        await self._upkeep.stop()
        await self._searches.aclose()
        await self._access.aclose()

    def _doubt(self) -> None:
        self._access.doubted = True

    async def _placed(self, rows: Sequence[Row]) -> CatalogPoints:
        """The points of these rows, made once for as long as they stay."""
        if not rows:  # is the server there? is all that is asked
            return CatalogPoints(())
        before = self._places
        if not before.are_of(rows):
            self._places = await asyncio.to_thread(CatalogPoints, rows, before)
        return self._places

    def _absent(self, places: CatalogPoints) -> set[str]:
        """The points that are not known to be there."""
        if places.first is self._held:
            return set()
        known, held = self._lacking, self._held
        if known is None or known[0] is not places or known[1] is not held:
            known = places, held, {point for point in places.first if point not in held}
            self._lacking = known
        return known[2] - self._new

    def _hold(self, places: CatalogPoints) -> None:
        """Every point of these is there."""
        self._held, self._new, self._lacking = places.first, set(), None

    def _found(self, client: QdrantClient, ids: Iterable[str]) -> set[str]:
        """Which points there are, when perhaps there is not even a collection."""
        self._points.ensure(client)
        return self._points.present(client, ids)

    def _write(
        self, client: QdrantClient, places: CatalogPoints, changed: Mapping[str, FloatArray]
    ) -> None:
        """What is new. A row whose content another one has already costs nothing."""
        fresh: list[tuple[str, Row, FloatArray]] = []
        for point in self._absent(places):
            given = (places.rows[i] for i in places.rows_of(point))
            row = next((row for row in given if row.key in changed), None)
            if row is not None:
                fresh.append((point, row, changed[row.key]))
        self._points.put(client, fresh)
        self._new.update(point for point, _, _ in fresh)

    async def _searched_here(
        self, places: CatalogPoints, changed: Mapping[str, FloatArray]
    ) -> VectorView:
        """The local mode's view: the matrix, its gaps filled from the points."""
        rows = places.rows
        if len(rows) > LOCAL_LIMIT:
            _log.warning(
                "qdrant_local_mode_is_for_small_catalogs", tools=len(rows), limit=LOCAL_LIMIT
            )
        known = await self._exact.stored(rows)
        absent = {
            row.key: point
            for point, row in zip(places.ids, rows, strict=True)
            if row.key not in changed and known.get(row.key) != row.digest
        }
        found = await self._access.run(lambda c: self._points.vectors(c, set(absent.values())))
        read = {key: found[point] for key, point in absent.items()}
        return await self._exact.update(rows, {**read, **changed})

    def wanted(self, rows: Sequence[Row]) -> list[str]:
        """Keys of the sample that were never seen here; see `ports.Sampling`."""
        if self._access.local:
            return []
        places = self._places if self._places.are_of(rows) else CatalogPoints(rows, self._places)
        known = set(self._sample[0])
        return [places.rows[i].key for i in places.sampled if places.ids[i] not in known]

    async def _background(
        self, places: CatalogPoints, changed: Mapping[str, FloatArray]
    ) -> Background:
        """Vectors of the sample; only those that were never seen here are fetched."""
        total, points = len(places.rows), [places.ids[i] for i in places.sampled]
        before, vectors = self._sample
        if points == before:
            return Background(np.array(places.sampled, np.int64), vectors, total)
        known = {point: i for i, point in enumerate(before)}
        fresh: dict[str, FloatArray] = {}
        for i, point in zip(places.sampled, points, strict=True):
            if point not in known and (given := changed.get(places.rows[i].key)) is not None:
                fresh[point] = given
        absent = (point for point in points if point not in known and point not in fresh)
        for page in chunks(absent, _FETCHED):
            for found in await self._searches.points(page, vectors=True):
                fresh[found["id"]] = np.array(found["vector"], np.float32)
        known |= {point: len(before) + i for i, point in enumerate(fresh)}
        # one that is gone since is left out: a search tells
        there = [(i, p) for i, p in zip(places.sampled, points, strict=True) if p in known]
        source = np.array([known[point] for _, point in there], np.int64)
        vectors = await asyncio.to_thread(_next, vectors, source, list(fresh.values()))
        self._sample = [point for _, point in there], vectors
        return Background(np.array([i for i, _ in there], np.int64), vectors, total)


def _next(vectors: Compact, source: IntArray, fresh: Sequence[FloatArray]) -> Compact:
    """See `Compact.after`."""
    dimension = fresh[0].shape[1] if fresh else vectors.dimension
    return vectors.after(source, Compact.of(fresh, dimension))


def _client(settings: QdrantSettings, timeout_s: float) -> QdrantClient:
    """The client library, which has not asked anything yet.

    Raises:
        ConfigError: `url` and `path` together, or the folder cannot be opened.
    """
    url, path, key = settings.url, settings.path, settings.api_key
    if url and path:
        raise ConfigError("url and path exclude each other", path="tool_rag.qdrant")
    if url and key and urlsplit(url).scheme == "http" and urlsplit(url).hostname not in LOOPBACK:
        _log.warning("qdrant_key_sent_in_clear", url=url, fix="use https")
    try:
        if url:
            with warnings.catch_warnings():  # what it warns of was logged
                warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
                seconds = int(timeout_s) or 1
                return QdrantClient(
                    url=url, api_key=key, timeout=seconds, check_compatibility=False
                )
        if path:
            return QdrantClient(path=path, force_disable_check_same_thread=True)
        return QdrantClient(location=":memory:")
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError(
            f"the Qdrant store at {url or path or 'memory'} cannot be opened: {error}; a folder "
            "serves one process at a time: stop the other one, or use a server (url)",
            path="tool_rag.qdrant",
        ) from error


def open_index(embedder: Embedder, options: PartOptions) -> QdrantIndex:
    """The index of the name `qdrant`.

    Raises:
        ConfigError: the store cannot be opened.
    """
    return QdrantIndex(embedder.identity, embedder.dimension, options.qdrant)
