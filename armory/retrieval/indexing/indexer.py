"""Indexing: from a catalog to a searchable snapshot; embeds only what changed.

Owns: what has to be embedded, the document cache, handing vectors to the vector index. What tools
say is `reading`'s. Never imports rankers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from armory.domain.results import NO_LOSS, Loss
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.document import Document
from armory.retrieval.indexing.reading import Reader, Written
from armory.retrieval.indexing.writing import QueryGenerator, QueryWriter
from armory.retrieval.options import STRATEGY, Strategy
from armory.retrieval.ports import Embedder, FloatArray, Row, Sampling, VectorIndex, VectorView
from armory.retrieval.snapshot import Snapshot, with_vectors
from armory.threads import in_turn

_log = Logger(__name__)
_CHUNK = 256
#: Texts from which on a changed catalog is searchable by words before it is embedded: a few are
#: embedded within seconds, and the last snapshot serves meanwhile.
_MANY = 256
#: Share of tools with vectors from which on a snapshot with gaps finds more than words alone (.83
#: against .82 of the wanted tools at three quarters, .75 against .82 at a half; 4,000 tools).
_ENOUGH = 0.75
EMBEDDING = Loss.saying("still embedding the tools")

Publish = Callable[[Snapshot, Loss], None]
Outdated = Callable[[], bool]


class Superseded(Exception):
    """The catalog being indexed is outdated; documents and vectors made so far are kept."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of one indexing run.

    Attributes:
        tools: in the snapshot.
        embedded: texts that went through the model.
        cached: texts whose vectors were known.
        missing: tools without vectors because the model or the store failed.
        problem: what failed.
        given_up: other tools were wanted meanwhile; nothing of this is served.
    """

    tools: int
    embedded: int = 0
    cached: int = 0
    missing: int = 0
    problem: Loss = NO_LOSS
    given_up: bool = False


@dataclass(slots=True)
class _Work:
    """The state of one indexing run."""

    vectors: dict[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    embedded: int = 0
    cached: int = 0
    problem: Loss = NO_LOSS


@dataclass(frozen=True, slots=True)
class _Plan:
    """The work of one indexing run.

    Attributes:
        rows: every tool, in order.
        changed: keys whose vectors the index lacks.
        texts: theirs, by hash.
        todo: hashes of those that no cache knew.
    """

    rows: list[Row]
    changed: list[str]
    texts: dict[str, str]
    todo: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class Indexing:
    """Settings: how tools are read and embedded.

    Attributes:
        strategy: what of a tool is embedded.
        cache: document vectors by (identity, text hash); None: in memory.
        generator: writes queries that are embedded beside the strategy's texts; None: none, or
            those of templates under `synthetic_queries`.
        on_progress: called with (texts done, texts to do) after every chunk.
        on_written: called when the generator has written queries, to have the tools indexed again;
            None: it is never asked, and what it wrote before is used.
        examples: queries of a tool that are at hand; instead of a generator.
    """

    strategy: Strategy = STRATEGY
    cache: DocumentCache | None = None
    generator: QueryGenerator | None = None
    on_progress: Callable[[int, int], None] | None = None
    on_written: Callable[[], None] | None = None
    examples: Written | None = None


class Indexer:
    """Builds snapshots. One at a time; the owner serialises.

    Args:
        embedder: None: words only.
        index: where vectors live; needed with an embedder.
        indexing: how tools are read and embedded.

    Attributes:
        store_failed: whether the index failed when it was asked last.
    """

    def __init__(
        self, embedder: Embedder | None, index: VectorIndex | None, indexing: Indexing | None = None
    ) -> None:
        indexing = indexing or Indexing()
        self._embedder = embedder
        self._index = index
        self._cache = indexing.cache or DocumentCache(None)
        self._progress = indexing.on_progress
        self._writer: QueryWriter | None = None
        written = indexing.examples
        if indexing.generator is not None:
            self._writer = QueryWriter(indexing.generator, self._cache, indexing.on_written)
            written = self._writer.written
        self._reader = Reader(indexing.strategy, written)
        self._outdated: Outdated | None = None
        self.store_failed = False

    async def run(
        self,
        tools: Sequence[ToolRecord],
        publish: Publish | None = None,
        *,
        first: bool = False,
        outdated: Outdated | None = None,
    ) -> tuple[Snapshot, IndexReport]:
        """The snapshot of these tools. A failing model or store costs vectors, never the words.

        Args:
            tools: the whole catalog.
            publish: given snapshots to serve until this one is there, and what they lack.
            first: nothing is served yet, so that words are published at once.
            outdated: asked between slices and batches whether to give up; None: never.

        Raises:
            Superseded: it was given up.
        """
        self._outdated = outdated
        words = await self._reader.read(tools, self._check_wanted)
        if self._writer is not None:
            self._writer.look(self._reader.lacking)
        if self._embedder is None or self._index is None:
            return words, IndexReport(len(tools))
        if publish is not None and first:
            publish(words, EMBEDDING)
        work = _Work()
        try:
            rows, view = await self._vectors(self._embedder, self._index, words, work, publish)
        except BackendError as error:
            self.store_failed = True
            _log.warning("indexing_without_vectors", error=str(error), tools=len(tools))
            problem = work.problem or Loss.of(error)
            return words, IndexReport(len(tools), work.embedded, work.cached, len(tools), problem)
        self.store_failed = False
        missing = len(tools) - len(rows)
        report = IndexReport(len(tools), work.embedded, work.cached, missing, work.problem)
        if len(rows) < _ENOUGH * len(tools):
            return words, report
        return await in_turn(with_vectors, words, rows, view), report

    def document(self, name: str) -> Document:
        """The document of an indexed tool.

        Raises:
            KeyError: it was never indexed.
        """
        return self._reader.document(name)

    def examples(self, tool: ToolRecord) -> tuple[str, ...]:
        """The queries that were written for a tool."""
        return self._reader.examples(tool)

    async def aclose(self) -> None:
        """Stop generating queries, close the cache."""
        if self._writer is not None:
            await self._writer.aclose()
        await asyncio.to_thread(self._cache.close)

    def _check_wanted(self) -> None:
        """Raise `Superseded` if what is being indexed is outdated."""
        if self._outdated is not None and self._outdated():
            raise Superseded

    async def _vectors(
        self,
        embedder: Embedder,
        index: VectorIndex,
        words: Snapshot,
        work: _Work,
        publish: Publish | None,
    ) -> tuple[list[Row], VectorView]:
        every = await in_turn(self._reader.rows, embedder.identity)
        stored = await index.stored(every)
        plan = await in_turn(self._plan, embedder, every, stored, work)
        sent: set[str] = set()
        if publish is not None and len(plan.todo) >= _MANY:
            sent = await self._serve_known(index, words, plan, work, publish)
        await self._embed(embedder, plan, work)
        rows, groups = await in_turn(self._ready, plan, work, sent)
        if isinstance(index, Sampling):
            keys = [key for key in index.wanted(rows) if key not in groups]
            groups |= await in_turn(self._at_hand, embedder, keys)
        return rows, await index.update(rows, groups)

    def _at_hand(self, embedder: Embedder, keys: Sequence[str]) -> dict[str, FloatArray]:
        """Vectors of tools from the cache; tools that it lacks are left out."""
        texts = {key: [text_hash(t) for t in self._reader.document(key).texts] for key in keys}
        known = self._cache.get(
            embedder.identity, [h for found in texts.values() for h in found], embedder.dimension
        )
        return {
            key: np.stack([known[h] for h in found])
            for key, found in texts.items()
            if all(h in known for h in found)
        }

    async def _serve_known(
        self, index: VectorIndex, words: Snapshot, plan: _Plan, work: _Work, publish: Publish
    ) -> set[str]:
        """Serve the tools whose vectors are known; returns the keys that the index got so."""
        rows, groups = await in_turn(self._ready, plan, work, set[str]())
        if len(rows) < _ENOUGH * len(plan.rows):
            publish(words, EMBEDDING)
            return set()
        view = await index.update(rows, groups)
        publish(await in_turn(with_vectors, words, rows, view), EMBEDDING)
        return set(groups)

    def _plan(
        self,
        embedder: Embedder,
        rows: list[Row],
        stored: Mapping[str, str],
        work: _Work,
    ) -> _Plan:
        """Which tools need new vectors, which of their texts have none yet, shortest first."""
        changed = [row.key for row in rows if stored.get(row.key) != row.digest]
        texts = {text_hash(t): t for key in changed for t in self._reader.document(key).texts}
        if texts:
            work.vectors = self._cache.get(embedder.identity, texts, embedder.dimension)
        work.cached = len(work.vectors)
        todo = sorted((h for h in texts if h not in work.vectors), key=lambda h: len(texts[h]))
        return _Plan(rows, changed, texts, todo)

    def _ready(
        self, plan: _Plan, work: _Work, sent: set[str]
    ) -> tuple[list[Row], dict[str, FloatArray]]:
        """Rows of the tools that have all their vectors, and the vectors of those not yet sent."""
        groups: dict[str, FloatArray] = {}
        absent: set[str] = set()
        for key in plan.changed:
            if key in sent:
                continue
            found = [work.vectors.get(text_hash(t)) for t in self._reader.document(key).texts]
            known = [vector for vector in found if vector is not None]
            if len(known) == len(found):
                groups[key] = np.stack(known)
            else:
                absent.add(key)
        rows = [row for row in plan.rows if row.key not in absent] if absent else plan.rows
        return rows, groups

    async def _embed(self, embedder: Embedder, plan: _Plan, work: _Work) -> None:
        for start in range(0, len(plan.todo), _CHUNK):
            self._check_wanted()
            part = plan.todo[start : start + _CHUNK]
            try:
                vectors = await embedder.embed_documents([plan.texts[h] for h in part])
            except BackendError as error:
                work.problem = Loss.of(error)
                _log.warning("embedding_failed", done=work.embedded, error=str(error))
                return
            new = dict(zip(part, vectors, strict=True))
            work.vectors.update(new)
            work.embedded += len(part)
            await asyncio.to_thread(self._cache.put, embedder.identity, new)
            if self._progress is not None:
                self._progress(work.embedded, len(plan.todo))
