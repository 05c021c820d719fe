"""From a catalog to something that can be searched; embeds only what changed.

Owns: documents, the lexical index, the document cache, handing vectors to the vector index. Never
imports rankers.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import structlog

from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.document import Document, document_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.options import STRATEGY, Strategy
from armory.retrieval.ports import Embedder, FloatArray, Row, Sampling, VectorIndex, VectorView
from armory.retrieval.snapshot import Snapshot, with_vectors, words_only

_log = structlog.get_logger(__name__)
_CHUNK = 256
_SLICE = 200
#: How long pure Python may keep other threads waiting, and how long it then steps aside, seconds.
_TURN_S = 0.001
_ASIDE_S = 0.00005
#: Texts from which on a changed catalog is searchable by words before it is embedded: a few are
#: embedded within seconds, and the last snapshot serves meanwhile.
_MANY = 256
#: Share of tools with vectors from which on a snapshot with gaps finds more than words alone (.83
#: against .82 of the wanted tools at three quarters, .75 against .82 at a half; 4,000 tools).
_ENOUGH = 0.75
#: Tools that may go, over what is there, until the lexical index is made anew: it never forgets a
#: word.
_GONE = 2_000
EMBEDDING = "still embedding the tools"

Publish = Callable[[Snapshot, str], None]
Outdated = Callable[[], bool]


class Superseded(Exception):
    """What was being indexed is no longer wanted; what was read and embedded of it is kept."""


def content_key(tool: ToolRecord) -> str:
    """Under what a tool's generated queries are cached: changes with anything they depend on."""
    return text_hash(f"{tool.fingerprint}\0{tool.description}\0{tool.server_title}")


class QueryGenerator(Protocol):
    """Makes example queries of a tool, for the strategy `synthetic_queries`."""

    @property
    def identity(self) -> str:
        """Names model and prompt: equal identity, equal purpose. Key of the cache."""
        ...

    async def generate(self, tool: ToolRecord) -> Sequence[str]:
        """Example queries, best first.

        Raises:
            BackendError: the model failed; templates are used instead.
        """
        ...


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing did.

    Attributes:
        tools: in the snapshot.
        embedded: texts that went through the model.
        cached: texts whose vectors were known.
        missing: tools without vectors because the model or the store failed.
        problem: what failed; "" when nothing did.
        given_up: other tools were wanted meanwhile; nothing of this is served.
    """

    tools: int
    embedded: int = 0
    cached: int = 0
    missing: int = 0
    problem: str = ""
    given_up: bool = False


@dataclass(slots=True)
class _Work:
    """Running state of one indexing."""

    vectors: dict[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    embedded: int = 0
    cached: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one indexing has to do.

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
    """How tools are read and embedded.

    Attributes:
        strategy: what of a tool is embedded.
        cache: document vectors by (identity, text hash); None: in memory.
        generator: makes queries that are embedded beside the strategy's texts; None: none, or
            those of templates under `synthetic_queries`.
        on_progress: called with (texts done, texts to do) after every chunk.
    """

    strategy: Strategy = STRATEGY
    cache: DocumentCache | None = None
    generator: QueryGenerator | None = None
    on_progress: Callable[[int, int], None] | None = None


class Indexer:
    """Builds snapshots. One at a time; the owner serialises.

    Args:
        embedder: None: words only.
        index: where vectors live; needed with an embedder.
        indexing: how tools are read and embedded.
    """

    def __init__(
        self, embedder: Embedder | None, index: VectorIndex | None, indexing: Indexing | None = None
    ) -> None:
        indexing = indexing or Indexing()
        self._embedder = embedder
        self._index = index
        self._strategy: Strategy = indexing.strategy
        self._cache = indexing.cache or DocumentCache(None)
        self._generator = indexing.generator
        self._progress = indexing.on_progress
        self._lexical = LexicalIndex()
        self._gone = 0
        self._documents: dict[str, tuple[ToolRecord, Document]] = {}
        self._rows: dict[str, Row] = {}
        self._outdated: Outdated | None = None

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
        await self._read(tools)
        self._go_on()
        words = await asyncio.to_thread(self._words, tools)
        if self._embedder is None or self._index is None:
            return words, IndexReport(len(tools))
        if publish is not None and first:
            publish(words, EMBEDDING)
        work = _Work()
        try:
            rows, view = await self._vectors(self._embedder, self._index, words, work, publish)
        except BackendError as error:
            _log.warning("indexing_without_vectors", error=str(error), tools=len(tools))
            problem = work.problem or str(error)
            return words, IndexReport(len(tools), work.embedded, work.cached, len(tools), problem)
        missing = len(tools) - len(rows)
        report = IndexReport(len(tools), work.embedded, work.cached, missing, work.problem)
        return await asyncio.to_thread(with_vectors, words, rows, view), report

    def document(self, name: str) -> Document:
        """The document of an indexed tool.

        Raises:
            KeyError: it was never indexed.
        """
        return self._documents[name][1]

    async def _read(self, tools: Sequence[ToolRecord]) -> None:
        """Documents of what is new, in slices, so that the loop and other threads get a turn."""
        fresh = await asyncio.to_thread(self._fresh, tools)
        queries: dict[str, Sequence[str]] = {}
        if self._generator is not None:
            queries = await self._generated(self._generator, fresh)
        for start in range(0, len(fresh), _SLICE):
            self._go_on()
            part = fresh[start : start + _SLICE]
            await asyncio.to_thread(self._read_slice, part, queries)

    def _go_on(self) -> None:
        """Raise `Superseded` where what is being indexed is outdated."""
        if self._outdated is not None and self._outdated():
            raise Superseded

    def _fresh(self, tools: Sequence[ToolRecord]) -> list[ToolRecord]:
        for name in self._documents.keys() - {tool.name for tool in tools}:
            del self._documents[name]
            self._rows.pop(name, None)
            self._lexical.remove(name)
            self._gone += 1
        if self._gone > len(tools) + _GONE:
            self._gone, self._lexical = 0, LexicalIndex()
            return list(tools)
        read, unread = self._documents, (None, None)
        return [  # most are the very objects that were read: no field of them is looked at
            tool
            for tool in tools
            if (known := read.get(tool.name, unread)[0]) is not tool and known != tool
        ]

    def _read_slice(
        self, tools: Sequence[ToolRecord], queries: Mapping[str, Sequence[str]]
    ) -> None:
        began = time.monotonic()
        for tool in tools:
            if time.monotonic() - began > _TURN_S:
                time.sleep(_ASIDE_S)
                began = time.monotonic()
            made = queries.get(tool.name, ())
            strategy: Strategy = "synthetic_queries" if made else self._strategy
            document = document_of(tool, strategy, made)
            before = self._documents.get(tool.name)
            self._documents[tool.name] = (tool, document)
            self._rows.pop(tool.name, None)
            known = tool.name in self._lexical
            if not known or before is None or before[1].fields != document.fields:
                self._lexical.add(tool.name, document.fields)
                self._gone += known

    def _words(self, tools: Sequence[ToolRecord]) -> Snapshot:
        """The tools with their words and without vectors."""
        return words_only(tools, self._lexical.freeze([tool.name for tool in tools]))

    async def _generated(
        self, generator: QueryGenerator, tools: Sequence[ToolRecord]
    ) -> dict[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {}
        for tool in tools:
            key = content_key(tool)
            texts: Sequence[str] | None = await asyncio.to_thread(
                self._cache.get_queries, generator.identity, key
            )
            if texts is None:
                try:
                    texts = await generator.generate(tool)
                except BackendError as error:
                    _log.warning("query_generation_failed", tool=tool.name, error=str(error))
                    break  # the rest uses templates; the next indexing tries again
                await asyncio.to_thread(self._cache.put_queries, generator.identity, key, texts)
            found[tool.name] = texts
        return found

    async def _vectors(
        self,
        embedder: Embedder,
        index: VectorIndex,
        words: Snapshot,
        work: _Work,
        publish: Publish | None,
    ) -> tuple[list[Row], VectorView]:
        every = await asyncio.to_thread(self._all_rows, embedder, words.records)
        stored = await index.stored(every)
        plan = await asyncio.to_thread(self._plan, embedder, every, stored, work)
        sent: set[str] = set()
        if publish is not None and len(plan.todo) >= _MANY:
            sent = await self._meanwhile(index, words, plan, work, publish)
        await self._embed(embedder, plan, work)
        rows, groups = await asyncio.to_thread(self._ready, plan, work, sent)
        if isinstance(index, Sampling):
            keys = [key for key in index.wanted(rows) if key not in groups]
            groups |= await asyncio.to_thread(self._at_hand, embedder, keys)
        return rows, await index.update(rows, groups)

    def _at_hand(self, embedder: Embedder, keys: Sequence[str]) -> dict[str, FloatArray]:
        """Vectors of those of some tools that the cache has."""
        texts = {key: [text_hash(t) for t in self._documents[key][1].texts] for key in keys}
        known = self._cache.get(
            embedder.identity, [h for found in texts.values() for h in found], embedder.dimension
        )
        return {
            key: np.stack([known[h] for h in found])
            for key, found in texts.items()
            if all(h in known for h in found)
        }

    async def _meanwhile(
        self, index: VectorIndex, words: Snapshot, plan: _Plan, work: _Work, publish: Publish
    ) -> set[str]:
        """Serve what is known already; the keys whose vectors the index got by that."""
        rows, groups = await asyncio.to_thread(self._ready, plan, work, set[str]())
        if len(rows) < _ENOUGH * len(plan.rows):
            publish(words, EMBEDDING)
            return set()
        view = await index.update(rows, groups)
        publish(await asyncio.to_thread(with_vectors, words, rows, view), EMBEDDING)
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
        texts = {text_hash(t): t for key in changed for t in self._documents[key][1].texts}
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
            found = [work.vectors.get(text_hash(t)) for t in self._documents[key][1].texts]
            known = [vector for vector in found if vector is not None]
            if len(known) == len(found):
                groups[key] = np.stack(known)
            else:
                absent.add(key)
        return [row for row in plan.rows if row.key not in absent], groups

    def _all_rows(self, embedder: Embedder, tools: Sequence[ToolRecord]) -> list[Row]:
        known, identity = self._rows, embedder.identity
        return [known.get(tool.name) or self._row(identity, tool) for tool in tools]

    def _row(self, identity: str, tool: ToolRecord) -> Row:
        texts = self._documents[tool.name][1].texts
        joined = "\0".join((identity, *texts)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(joined).hexdigest()
        self._rows[tool.name] = row = Row(tool.name, digest, tool.server, tool.category or "")
        return row

    async def _embed(self, embedder: Embedder, plan: _Plan, work: _Work) -> None:
        for start in range(0, len(plan.todo), _CHUNK):
            self._go_on()
            part = plan.todo[start : start + _CHUNK]
            try:
                vectors = await embedder.embed_documents([plan.texts[h] for h in part])
            except BackendError as error:
                work.problem = str(error)
                _log.warning("embedding_failed", done=work.embedded, error=str(error))
                return
            new = dict(zip(part, vectors, strict=True))
            work.vectors.update(new)
            work.embedded += len(part)
            await asyncio.to_thread(self._cache.put, embedder.identity, new)
            if self._progress is not None:
                self._progress(work.embedded, len(plan.todo))
