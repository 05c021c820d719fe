"""Searches for REST, and the cache of their results.

Owns: the cache of results, the shape of a found tool. Never knows a route.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from armory.domain.principal import Principal
from armory.domain.query import Query, VisibleSet
from armory.domain.results import Match
from armory.domain.tool import ToolRecord
from armory.gateway.views.definitions import ui_meta
from armory.retrieval.features import best_cosine
from armory.retrieval.options import Limits
from armory.retrieval.rankers.factors import UNMEASURED
from armory.retrieval.ranking.answer import Ranking
from armory.storage.readthrough import ReadThrough
from armory.telemetry import conventions as c
from armory.web.rest.findable import Findable, FindableTools
from armory.web.rest.services import RestServices

RESULT_TTL_S = 300.0
_DIGITS = 6
_ROUNDED = 0.5 * 10**-_DIGITS
"""The most by which rounding can raise a score that is shown."""


class SearchOutcome(msgspec.Struct, frozen=True):
    """The result of a search, as it is cached.

    Attributes:
        tools: the JSON array of tools, as bytes: other replicas read them from the shared cache.
        names: exposed names, best first.
        visible: number of tools searched.
        top_score: best score of them, in the ranker's own formula.
        degraded: what was lost, or None; such answers are not kept.
        debug: JSON object of the ranking's numbers, where asked for.
        settled: whether the index held all that is visible, as it is now; else not kept either.
    """

    tools: bytes
    names: tuple[str, ...]
    visible: int
    top_score: float
    degraded: str | None = None
    debug: bytes | None = None
    settled: bool = True


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search: all that decides its answer, besides the visible set."""

    query: Query
    top_k: int
    min_score: float | None = None
    debug: bool = False

    @property
    def limits(self) -> Limits:
        """The limits of the ranking: the best `top_k`, whatever their score; `min_score` applies to
        the ranker's own formula, as answers show it.
        """
        least = None if self.min_score is None else self.min_score - _ROUNDED
        return Limits(threshold=None, max_tools=self.top_k, min_raw=least)


class Searching:
    """Searches for REST.

    Args:
        services: see `RestServices`.
    """

    def __init__(self, services: RestServices) -> None:
        self._services = services
        accounts = services.accounts
        self._kept: ReadThrough[SearchOutcome] = ReadThrough(
            "found",
            SearchOutcome,
            cache=accounts.cache,
            feed=accounts.feed,
            ttl_s=lambda found: RESULT_TTL_S if found.settled and not found.degraded else 0.0,
            max_entries=5_000,
        )
        self._findable = FindableTools(services)

    def visible(self, principal: Principal, *, packs: bool) -> VisibleSet:
        """The tools that `principal` may find: of the catalog and registered ones, by policy.

        The same object while nothing of it changes, so that retrieval can cache its mask.
        """
        return self._findable.of(principal, packs=packs).visible

    async def search(
        self, principal: Principal, wanted: SearchRequest, *, packs: bool
    ) -> SearchOutcome:
        """The answer to a query, cached for five minutes for callers that would get the same.

        Raises:
            InvalidRequest: a query that cannot be searched for.
            BackendError: nothing could be searched.
        """
        among = self._findable.of(principal, packs=packs)
        key = self._key(wanted, among.digest)
        found = self._kept.get(key, lambda: self._look(wanted, among))
        tracing = self._services.tracing
        if tracing is None:
            return await found
        return await tracing.searched(
            found, wanted.query.texts, lambda found: self._facts(wanted, found)
        )

    def _facts(self, wanted: SearchRequest, found: SearchOutcome) -> dict[str, Any]:
        facts: dict[str, Any] = {
            c.CANDIDATES: found.visible,
            c.RETURNED: len(found.names),
            c.TOP_SCORE: float(found.top_score),
            c.CATALOG_VERSION: self._services.catalog().version,
        }
        if wanted.min_score is not None:
            facts[c.THRESHOLD] = wanted.min_score
        if found.degraded is not None:
            facts[c.DEGRADED] = found.degraded
        return facts

    async def _look(self, wanted: SearchRequest, among: Findable) -> SearchOutcome:
        settled = self._findable.is_indexed(among)
        ranking = await self._services.engine.rank(wanted.query, among.visible)
        cut = ranking.cut(wanted.limits)
        matches = [ranking.match(position) for position in cut.shown]
        debug = None
        if wanted.debug:
            usage, user = ranking.features.usage, wanted.query.user
            if usage is not None and user is not None:
                await usage.recall(user)
            debug = msgspec.json.encode(_debug(ranking, cut.shown, matches, wanted.query.user))
        return SearchOutcome(
            msgspec.json.encode([tool_json(match) for match in matches]),
            tuple(match.tool.name for match in matches),
            ranking.features.visible,
            matches[0].raw_score if matches else 0.0,
            ranking.degraded,
            debug,
            settled,
        )

    def _key(self, wanted: SearchRequest, digest: str) -> str:
        query = wanted.query
        parts = (
            self._services.variant(),
            digest,
            query.texts,
            query.ranker,
            query.user,
            time.localtime().tm_hour if query.hour is None else query.hour,
            query.last_tool,
            sorted(query.servers) if query.servers is not None else None,
            sorted(query.categories) if query.categories is not None else None,
            wanted.top_k,
            wanted.min_score,
            wanted.debug,
        )
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def tool_json(match: Match) -> dict[str, Any]:
    """One found tool: `score` is the ranker's formula, `relevance` the calibrated score."""
    return record_json(
        match.tool, score=match.raw_score, relevance=match.score, reason=match.reason
    )


def record_json(
    record: ToolRecord, *, score: float, relevance: float, reason: str
) -> dict[str, Any]:
    """One tool as REST shows it."""
    shown: dict[str, Any] = {
        "name": record.name,
        "server": record.server,
        "description": record.description,
        "inputSchema": record.arguments_schema,
        "score": round(score, _DIGITS),
        "relevance": round(relevance, _DIGITS),
        "reason": reason,
    }
    if ui := ui_meta(record):
        shown["_meta"] = ui
    return shown


def _debug(
    ranking: Ranking, shown: Sequence[int], matches: Sequence[Match], user: str | None
) -> dict[str, Any]:
    """The numbers behind the found tools, one list each, and the query's vector."""
    features = ranking.features
    vector = features.whole[0].vector if features.subqueries else None
    cosine = best_cosine(features.subqueries)
    names = [match.tool.name for match in matches]
    similarity = [0.0 if cosine is None else float(cosine[position]) for position in shown]
    none = [0.0] * len(names)
    factors = {"popularity": none, "history": none, "performance": [UNMEASURED] * len(names)}
    if features.usage is not None:
        usage = features.usage.statistics(user, names)
        factors = {name: getattr(usage, name).tolist() for name in factors}
    # a ranker that weighs them has its own: its history has what was learned from use as well
    popularity, history, performance = (
        [match.signals.get(name, value) for match, value in zip(matches, values, strict=True)]
        for name, values in factors.items()
    )
    return {
        "query_embedding": [] if vector is None else vector.tolist(),
        "embedding_similarity_scores": similarity,
        "popularity_scores": popularity,
        "user_history_scores": history,
        "performance_scores": performance,
    }
