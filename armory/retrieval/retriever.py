"""The retriever: indexes tools, then answers queries within a visible set.

Owns: the main path of a search. `indexing.served` has the snapshot that is searched, `search.scope`
prepares a query, `search.candidates` finds its candidates, the ranker scores them, `ranking.answer`
cuts the result, `search.recovery` indexes again after a loss. Never imports policy, upstreams, a
concrete embedder, index or ranker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType

from armory.domain.query import Query, VisibleSet
from armory.domain.results import Loss, Selection, lacking
from armory.domain.tool import ToolRecord
from armory.errors import BackendError, InvalidRequest
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.indexing.indexer import Indexer, Indexing, IndexReport
from armory.retrieval.indexing.served import ServedTools
from armory.retrieval.languages.english import takes_long
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.options import Limits
from armory.retrieval.ports import Embedder, FloatArray, IntArray, VectorIndex
from armory.retrieval.rankers.base import Ranker, Scores
from armory.retrieval.ranking.answer import Ranking
from armory.retrieval.ranking.reorder import Reorder
from armory.retrieval.ranking.rerank import Reranker
from armory.retrieval.ranking.tokens import TokenCounts
from armory.retrieval.search.candidates import CandidateSearch, Experience, Findings
from armory.retrieval.search.dense import DenseSide
from armory.retrieval.search.queue import SearchQueue
from armory.retrieval.search.recovery import Recovery
from armory.retrieval.search.scope import Scope, check_query, prepared, scope_of
from armory.retrieval.search.threads import SearchThreads, is_short, rest_after
from armory.retrieval.search.visible_rows import VisibleRows
from armory.retrieval.settings import RetrieverSettings
from armory.retrieval.snapshot import Snapshot
from armory.threads import SWITCH_INTERVAL

_LEXICAL = "lexical"
"""The ranker that stands in for one that needs vectors while there are none."""
_PERSONAL = "multi_factor"
"""The one that weighs what the caller has used."""


class Retriever:
    """Tool retrieval over one catalog. For one event loop; use `async with`, or `aclose()` when
    done.

    Args:
        embedder: None: words only.
        index: where the vectors are searched (`registry.make_index`); None: words only, whatever
            the embedder.
        rankers: by name; must hold the settings' ranker and `lexical`.
        settings: see `RetrieverSettings`.
        indexing: how tools are read and embedded.
        experience: what calls have shown.
        reranker: cross-encoder over the best 30.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        index: VectorIndex | None,
        rankers: Mapping[str, Ranker],
        settings: RetrieverSettings | None = None,
        *,
        indexing: Indexing | None = None,
        experience: Experience | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self.settings = settings or RetrieverSettings()
        cached = embedder if isinstance(embedder, CachedEmbedder) else None
        if embedder is not None and cached is None:
            cached = CachedEmbedder(embedder, size=self.settings.query_cache)
        self._embedder = cached
        self._index = index
        self._rankers = dict(rankers)
        self._threads = SearchThreads()
        self._queue = SearchQueue(self.settings.searches, self.settings.searches_per_caller)
        self._indexer = Indexer(embedder, index, indexing)
        self._served = ServedTools(self._indexer, self._swapped)
        self._recovery = Recovery(self._index_again, index)
        self._dense = DenseSide(
            cached,
            self.settings.dense_timeout_s,
            self.settings.candidates,
            lambda: None if (now := self._served.snapshot) is None else now.view,
            self._recovery.begin,
        )
        experience = experience or Experience()
        self._candidates = CandidateSearch(self._dense, experience, self._threads)
        self._usage = experience.usage
        self._reorder = Reorder(reranker, self._indexer.document)
        self._visible = VisibleRows(self._threads)
        self._tokens = TokenCounts()

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
        await self._dense.watch.stop()
        await self._recovery.stop()
        await self._indexer.aclose()
        self._threads.shutdown()
        if self._embedder is not None:
            await self._embedder.aclose()
        if self._index is not None:
            await self._index.aclose()

    @property
    def embedder(self) -> Embedder | None:
        """The embedder; None: lexical search only."""
        return self._embedder

    @property
    def _into_english(self) -> bool:
        """Whether queries are put into English: not for a model that may read their language."""
        return self.settings.into_english and (
            self._embedder is None or self._embedder.english_only
        )

    @property
    def tools(self) -> Sequence[ToolRecord]:
        """The tools that are searched now."""
        snapshot = self._served.snapshot
        return () if snapshot is None else snapshot.records

    def examples(self, tool: ToolRecord) -> tuple[str, ...]:
        """The queries that a model generated for an indexed tool."""
        return self._indexer.examples(tool)

    @property
    def degraded(self) -> str | None:
        """Why searching is degraded now, for administrators; or None."""
        return self._lost.why or None

    @property
    def _lost(self) -> Loss:
        return self._served.problem or self._dense.problem

    @property
    def store_there(self) -> bool | None:
        """Whether the vector store answers; None where it is in this process."""
        if not self._dense.watch.watching:  # also while it has not answered yet
            return False if self._indexer.store_failed else None
        return not self._dense.watch.problem

    async def check_store(self) -> str:
        """Probe the vector store now; returns the problem, or ""."""
        if self._index is not None:
            try:
                await self._index.stored(())
            except BackendError as error:
                return str(error)
        return ""

    # -- searching -----------------------------------------------------------------------------

    async def search(
        self,
        query: Query,
        visible: VisibleSet | None = None,
        *,
        explain: bool = False,
    ) -> Selection:
        """Find tools for a query, under the configured limits and its own.

        Args:
            query: texts and overrides.
            visible: only these; None: all.
            explain: fill `ranking` and `withheld` as well.

        Raises:
            InvalidRequest: no text, text of another type, more than 16 texts or 8,000 characters.
            RateLimited: too many searches run or wait already.
        """
        started = time.perf_counter()
        ranking = await self.rank(query, visible)
        limits = self.limits_of(query)
        selection = ranking.select(limits, explain=explain)
        return replace(selection, took_ms=(time.perf_counter() - started) * 1000)

    def limits_of(self, query: Query) -> Limits:
        """The configured limits, with what the query sets itself."""
        return self.settings.limits.of(query)

    async def rank(self, query: Query, visible: VisibleSet | None = None) -> Ranking:
        """Every candidate of a query, ordered and scored; nothing is cut.

        Raises:
            InvalidRequest: no text, text of another type, more than 16 texts or 8,000 characters.
            RateLimited: too many searches run or wait already.
        """
        check_query(query)
        caller = query.user or ""
        cost = await self._queue.enter(caller, sum(map(len, query.texts)))
        rest_s = 0.0
        try:
            if is_short(query):
                return await self._rank(query, visible)
            began = time.perf_counter()
            with SWITCH_INTERVAL.short():  # whatever runs in threads, the loop waits no 5 ms for it
                try:
                    return await self._rank(query, visible)
                finally:
                    rest_s = rest_after(time.perf_counter() - began)
        finally:
            self._queue.leave(caller, cost, rest_s)

    async def _rank(self, query: Query, visible: VisibleSet | None) -> Ranking:
        ranker = self._ranker(query.ranker or self.settings.ranker)
        if query.hour is None and self.settings.rank.context_boosts:
            query = replace(query, hour=time.localtime().tm_hour)
        snapshot = self._served.snapshot
        if snapshot is None:
            return Ranking.empty(ranker, "nothing is indexed yet")
        scope = await self._scope(query, snapshot, await self._visible.rows(snapshot, visible))
        awaited = self._served.awaited(None if visible is None else len(visible), scope.size)
        if not scope.size:
            return Ranking.empty(ranker, lacking(self._lost.told, awaited))
        findings = await self._candidates.find(scope)
        lost = (findings.problem or self._lost).told
        if findings.hits is None:
            if findings.vectors is not None and self._dense.lost:
                self._recovery.begin()  # perhaps the store is back and empty
            if not ranker.works_without_vectors(scope.size):
                if self._embedder is None and not ranker.works_without_vectors(0):
                    lost = f"lexical only: {ranker.name} needs vectors, there is no embedding model"
                ranker = self._rankers[_LEXICAL]
        elif findings.hits.lost:
            self._recovery.begin()
        if ranker.name == _PERSONAL and query.user is not None and self._usage is not None:
            await self._usage.recall(query.user)
        loop = asyncio.get_running_loop()
        features, scores = await loop.run_in_executor(
            self._threads.of(query), self._scored, scope, findings, ranker
        )
        order = await self._reorder.order(scope, features, scores, self.settings.diversity)
        return Ranking(features, scores, order, ranker, self._tokens, lacking(lost, awaited))

    async def _scope(self, query: Query, snapshot: Snapshot, rows: IntArray | None) -> Scope:
        """Prepare the query; slow parts run off the event loop."""
        find = partial(scope_of, query, snapshot, rows, into_english=self._into_english)
        if is_short(query) and not (self._into_english and any(map(takes_long, query.texts))):
            return find()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads.of(query), find)

    def _scored(
        self, scope: Scope, findings: Findings, ranker: Ranker
    ) -> tuple[CandidateFeatures, Scores]:
        """The blocking part of a search."""
        features = self._candidates.features(scope, findings)
        return features, ranker.rank(features, self.settings.rank)

    def _ranker(self, name: str) -> Ranker:
        try:
            return self._rankers[name]
        except KeyError:
            raise InvalidRequest(
                f"unknown ranker {name!r}; known: {', '.join(sorted(self._rankers))}",
                parameter="ranker",
            ) from None

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) query vectors, the same as searches for these texts use.

        Raises:
            BackendError: there is no embedder, or it failed.
        """
        if self._embedder is None:
            raise BackendError("this retriever has no embedder")
        if (snapshot := self._served.snapshot) is not None:
            words = KnownWords(snapshot.postings)
            put = partial(prepared, words=words, into_english=self._into_english)
            texts = await asyncio.to_thread(lambda: [put(text) for text in texts])
        return await self._embedder.embed_queries(texts)

    async def embedding(self, text: str) -> FloatArray | None:
        """(d,) float32 unit vector of a query text; None where only words are searched."""
        return await self._dense.one(text)

    # -- indexing ------------------------------------------------------------------------------

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> IndexReport:
        """Make exactly these tools searchable. Unchanged tools are not embedded again.

        The last snapshot is served meanwhile; the first time, and when much is new, words are
        searchable at once. A failing model or store leaves words searchable and is tried again in
        the background.

        Args:
            tools: all of them.
            outdated: asked now and then whether to give up: other tools are indexed next; None:
                never. What is served then goes on being served.
        """
        self._dense.watch.start()
        report = await self._served.index(tools, outdated)
        if report.given_up:
            return report
        if self._served.problem:
            self._recovery.begin()
        elif report.embedded:
            self._dense.succeeded()
        return report

    def _swapped(self, snapshot: Snapshot) -> None:
        self._visible.swapped(snapshot)
        self._tokens = TokenCounts()

    async def _index_again(self) -> bool:
        """Index the same tools once more; returns whether nothing is lost."""
        await self.index(self._served.wanted)
        return not self._served.problem
