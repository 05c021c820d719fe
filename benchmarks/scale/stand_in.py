"""A Qdrant server in this process, for answers and not for times: what a search asks, in NumPy.

Owns: `StandIn`, an index that keeps its vectors there and searches through Armory's own view. It
compares with every point, as a server does up to 20,000 tools. Never imports a retriever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from armory.retrieval.indexes.background import Background
from armory.retrieval.indexes.base import Segments
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.indexes.qdrant_access import Searches
from armory.retrieval.indexes.qdrant_catalog import CatalogPoints
from armory.retrieval.indexes.qdrant_view import QdrantView
from armory.retrieval.ports import FloatArray, Row


class _Server:
    """Answers what `Searches` asks."""

    where, collection = "stand-in", "tools"

    def __init__(self, places: CatalogPoints, vectors: Segments) -> None:
        self._places, self._vectors = places, vectors

    async def query(self, requests: Iterable[str]) -> list[list[dict[str, Any]]]:
        """As `Searches.query`."""
        return [self._nearest(json.loads(request)) for request in requests]

    async def points(self, ids: Iterable[str], *, vectors: bool) -> list[dict[str, Any]]:
        """As `Searches.points`, which a probe asks; without vectors."""
        return [{"id": point} for point in ids if point in self._places.first]

    def _nearest(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        scores = self._vectors.best(np.array(request["query"], np.float32))[0]
        inside = np.zeros(len(scores), np.bool_)
        inside[list(self._places.first.values())] = True
        for clause, conditions in request.get("filter", {}).items():
            met = np.zeros(len(scores), np.bool_)
            for condition in conditions:
                met |= self._met(condition)
            inside &= ~met if clause == "must_not" else met
        rows = np.flatnonzero(inside)
        rows = rows[np.argsort(-scores[rows], kind="stable")][: request["limit"]]
        ids = self._places.ids
        return [{"id": ids[i], "score": float(scores[i])} for i in rows.tolist()]

    def _met(self, condition: dict[str, Any]) -> Any:
        met = np.zeros(len(self._places.rows), np.bool_)
        if "has_id" in condition:
            met[[self._places.first[i] for i in condition["has_id"]]] = True
            return met
        names = condition["match"]["any"]
        return np.isin(self._places.servers, [self._places.server_names.index(n) for n in names])


class StandIn:
    """In place of `QdrantIndex`."""

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """Nothing: it is filled once."""
        return {}

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> QdrantView:
        """A view of these rows, all of which are given."""
        places = CatalogPoints(rows)
        groups = [changed[row.key] for row in places.rows]
        dimension = groups[0].shape[1]
        server = cast("Searches", _Server(places, Segments.of(groups, dimension)))
        sampled = np.array(places.sampled, np.int64)
        vectors = Compact.of([groups[i] for i in places.sampled], dimension)
        back = Background(sampled, vectors, len(rows))
        return QdrantView(server, places, back, len(places.first), lambda: None)

    async def aclose(self) -> None:
        """Nothing is held."""
