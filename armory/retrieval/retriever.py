"""The retriever: index tools, then answer queries inside a visible set.

Owns: the straight line of a search, the snapshot that is served, indexing again after a loss. The
dense half and its failures are in `dense`, what is shown in `selection`. Never imports policy,
upstreams, a concrete embedder, index or ranker.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType

import numpy as np
import structlog
from cachetools import LRUCache

from armory.domain.query import Query, VisibleSet
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord
from armory.errors import BackendError, InvalidRequest
from armory.retrieval.dense import DenseSide
from armory.retrieval.diversity import mmr
from armory.retrieval.document import Strategy
from armory.retrieval.embedders.cache import CachedEmbedder, DocumentCache
from armory.retrieval.evidence import (
    allowed_rows,
    check_query,
    filtered,
    gather,
    legs_of,
    remembered,
    words_of,
)
from armory.retrieval.fallback import BACKOFF_S, stand_in, word_share
from armory.retrieval.indexer import Indexer, IndexReport, QueryGenerator
from armory.retrieval.ports import (
    CandidateFeatures,
    Embedder,
    FloatArray,
    IntArray,
    Ranked,
    Ranker,
    UsageSource,
    UseMemory,
    VectorIndex,
)
from armory.retrieval.rerank import Reranker, reranked
from armory.retrieval.selection import (
    RetrieverSettings,
    Verdict,
    cut,
    limits_for,
    match_of,
)
from armory.retrieval.snapshot import Snapshot
from armory.retrieval.tokens import TokenCounts

_log = structlog.get_logger(__name__)
_MASKS = 512
_NONE: IntArray = np.zeros(0, np.int64)
_RERANKED = 30
_DIVERSE = 50


class Retriever:
    """Tool retrieval over one catalogue. One event loop; `async with` or `aclose()` when done.

    Args:
        embedder: None: words only.
        index: None with an embedder: the exact index must be given by the caller (`registry`).
        rankers: by name; must hold the settings' ranker and `lexical`.
        settings: see `RetrieverSettings`.
        strategy: what of a tool is embedded.
        cache: document vectors on disk.
        query_cache: query vectors kept in memory; 0: none.
        generator: synthetic queries by a model; None: by templates.
        usage: statistics of calls, for `multi_factor`.
        uses: past queries that led to tools.
        reranker: cross-encoder over the best 30.
        on_progress: called with (texts embedded, texts to embed).
    """

    def __init__(
        self,
        embedder: Embedder | None,
        index: VectorIndex | None,
        rankers: Mapping[str, Ranker],
        settings: RetrieverSettings | None = None,
        *,
        strategy: Strategy = "description_params",
        cache: DocumentCache | None = None,
        query_cache: int = 10_000,
        generator: QueryGenerator | None = None,
        usage: UsageSource | None = None,
        uses: UseMemory | None = None,
        reranker: Reranker | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        cached = embedder if isinstance(embedder, CachedEmbedder) else None
        if embedder is not None and cached is None:
            cached = CachedEmbedder(embedder, size=query_cache)
        self.settings = settings or RetrieverSettings()
        self._embedder = cached
        self._index = index
        self._rankers = dict(rankers)
        self._usage = usage
        self._uses = uses
        self._reranker = reranker
        self._indexer = Indexer(
            embedder, index, strategy=strategy, cache=cache, generator=generator,
            on_progress=on_progress,
        )  # fmt: skip
        self._snapshot: Snapshot | None = None
        self._masks: LRUCache[int, tuple[VisibleSet, IntArray | None]] = LRUCache(_MASKS)
        self._tokens = TokenCounts()
        self._problem = ""
        self._dense = DenseSide(cached, self.settings.dense_timeout_s, self.settings.candidates)
        self._lock = asyncio.Lock()
        self._recovery: asyncio.Task[None] | None = None
        self._tools: Sequence[ToolRecord] = ()
        self._pool = ThreadPoolExecutor(2, "armory-search")

    async def __aenter__(self) -> Retriever:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop recovering, close embedder and index."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._embedder is not None:
            await self._embedder.aclose()
        if self._index is not None:
            await self._index.aclose()

    @property
    def embedder(self) -> Embedder | None:
        """What makes the vectors; None: words only."""
        return self._embedder

    @property
    def tools(self) -> Sequence[ToolRecord]:
        """What is searched now."""
        return self._snapshot.records if self._snapshot is not None else ()

    @property
    def degraded(self) -> str | None:
        """What searching lacks at the moment, or None."""
        return self._problem or None

    async def index(self, tools: Sequence[ToolRecord]) -> IndexReport:
        """Make exactly these tools searchable. What did not change is not embedded again.

        The last snapshot is served meanwhile; the first time, and when much is new, words are
        searchable at once. A failing model or store leaves words searchable and is tried again in
        the background.
        """
        self._tools = tools
        async with self._lock:
            first = self._snapshot is None
            snapshot, report = await self._indexer.run(tools, self._publish, first=first)
            problem = report.problem
            if report.missing and not problem:
                problem = f"{report.missing} tools have no vectors"
            self._publish(snapshot, problem)
        if report.embedded and not problem:
            self._dense.succeeded()
        _log.info(
            "tools_indexed", tools=report.tools, embedded=report.embedded, cached=report.cached,
            missing=report.missing,
        )  # fmt: skip
        if problem:
            self._mend()
        return report

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) query vectors, cached like those of searches.

        Raises:
            BackendError: there is no embedder, or it failed.
        """
        if self._embedder is None:
            raise BackendError("this retriever has no embedder")
        return await self._embedder.embed_queries(texts)

    async def search(
        self,
        query: Query,
        visible: VisibleSet | None = None,
        *,
        explain: bool = False,
        full_ranking: bool = False,
    ) -> Selection:
        """The tools that the query wants.

        Args:
            query: texts and overrides.
            visible: only these; None: all.
            explain: fill `ranking` and `withheld` as well.
            full_ranking: fill `ranking`.

        Raises:
            InvalidRequest: no text, text of another type, or more than 8,000 characters.
        """
        started = time.perf_counter()
        verdict = await self.judge(query, visible)
        limits = limits_for(query, self.settings.limits)
        if verdict.evidence is None or verdict.ranked is None:
            return Selection((), 0, limits.threshold, degraded=verdict.degraded)
        evidence, ranked = verdict.evidence, verdict.ranked
        withheld: dict[int, str] | None = {} if explain else None
        shown = self.shown(query, verdict, withheld)
        everything = verdict.order.tolist() if explain or full_ranking else []
        selection = Selection(
            matches=tuple(match_of(verdict, i) for i in shown),
            visible=evidence.visible,
            threshold=limits.threshold,
            refused=ranked.refused,
            degraded=verdict.degraded,
            top_score=float(ranked.score.max()) if len(ranked.score) else 0.0,
            ranking=tuple(match_of(verdict, i) for i in everything),
            withheld={evidence.records[i].name: why for i, why in (withheld or {}).items()},
        )
        return replace(selection, took_ms=(time.perf_counter() - started) * 1000)

    async def judge(self, query: Query, visible: VisibleSet | None = None) -> Verdict:
        """Evidence and ranking of a query, nothing cut; what evaluation and tuning read."""
        check_query(query)
        ranker = self._ranker(query.ranker or self.settings.ranker)
        snapshot = self._snapshot
        if snapshot is None:
            return Verdict(None, None, _NONE, "nothing is indexed yet", ranker)
        allowed = filtered(snapshot, await self._allowed(snapshot, visible), query)
        if not len(snapshot.records) or (allowed is not None and not len(allowed)):
            return Verdict(None, None, _NONE, self.degraded, ranker)
        legs = legs_of(query.texts)
        loop = asyncio.get_running_loop()
        words_soon = loop.run_in_executor(self._pool, words_of, snapshot, legs, allowed)
        vectors, problem = await self._dense.vectors(snapshot, legs)
        words = await words_soon
        hits = recalled = None
        if vectors is not None:
            also = words.best
            if self._uses is not None:
                recalled = await asyncio.to_thread(self._uses.recall, vectors, query.user)
                also = np.union1d(also, remembered(snapshot, allowed, recalled))
            hits, problem = await self._dense.hits(snapshot, vectors, allowed, also)
            if hits is None and self._dense.lost:  # perhaps the store is back and empty
                self._mend()
        if hits is None:
            tools = len(snapshot.records) if allowed is None else len(allowed)
            ranker = stand_in(ranker, self._rankers, tools)

        def rank() -> tuple[CandidateFeatures, Ranked]:
            evidence = gather(
                snapshot, query, legs, allowed, words, hits, vectors, recalled,
                self._dense.identity, self._usage,
            )  # fmt: skip
            return evidence, ranker.rank(evidence, self.settings.rank)

        evidence, ranked = await loop.run_in_executor(self._pool, rank)
        order = await self._reorder(snapshot, query, evidence, ranked, hits is not None)
        return Verdict(evidence, ranked, order, problem or self.degraded, ranker)

    async def embedding(self, text: str) -> FloatArray | None:
        """(d,) float32 unit vector of a query text; None where only words are searched."""
        return await self._dense.one(text)

    def shown(
        self, query: Query, verdict: Verdict, withheld: dict[int, str] | None = None
    ) -> list[int]:
        """Positions of the candidates that a listing shows, best first.

        `withheld`, when given, is filled with why each other one is not shown.
        """
        if verdict.evidence is None or verdict.ranked is None:
            return []
        records, tokens = verdict.evidence.records, self._tokens
        words = None if verdict.evidence.dense else word_share(verdict.evidence)
        limits = limits_for(query, self.settings.limits)
        plain = query.threshold is None
        return cut(
            verdict.ranked, verdict.order, limits, lambda place: tokens.of(records[place]),
            withheld, words=words, plain=plain,
        )  # fmt: skip

    def _ranker(self, name: str) -> Ranker:
        try:
            return self._rankers[name]
        except KeyError:
            raise InvalidRequest(
                f"unknown ranker {name!r}; known: {', '.join(sorted(self._rankers))}",
                parameter="ranker",
            ) from None

    async def _allowed(self, snapshot: Snapshot, visible: VisibleSet | None) -> IntArray | None:
        if visible is None:
            return None
        known = self._masks.get(id(visible))
        if known is not None and known[0] is visible:
            return known[1]
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._pool, allowed_rows, snapshot, visible.names)
        if snapshot is self._snapshot:  # another one has other rows
            self._masks[id(visible)] = (visible, rows)
        return rows

    def _publish(self, snapshot: Snapshot, problem: str) -> None:
        self._snapshot = snapshot
        self._masks.clear()
        self._tokens = TokenCounts()
        self._problem = problem and (
            f"lexical only: {problem}" if snapshot.view is None else f"incomplete: {problem}"
        )

    def _mend(self) -> None:
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Index again, ever more patiently, until nothing is missing."""
        for attempt in itertools.count():
            await asyncio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
            await self.index(self._tools)
            if not self._problem:
                return

    async def _reorder(
        self,
        snapshot: Snapshot,
        query: Query,
        evidence: CandidateFeatures,
        ranked: Ranked,
        dense: bool,
    ) -> IntArray:
        order = ranked.order
        if self._reranker is not None:
            best = [evidence.records[i] for i in order[:_RERANKED].tolist()]
            texts = [self._indexer.document(record.name).texts[0] for record in best]
            order = await reranked(self._reranker, query.texts, texts, order)
        weight = self.settings.diversity
        if weight is not None and dense and snapshot.view is not None and snapshot.dense is None:
            first = order[:_DIVERSE]
            vectors = await snapshot.view.vectors(evidence.rows[first])
            picked = mmr(ranked.score[first], vectors, weight)
            order = np.concatenate([first[picked], order[_DIVERSE:]])
        return order
