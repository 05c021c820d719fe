"""From a catalogue to something that can be searched; embeds only what changed.

Owns: documents, the lexical index, the document cache, handing vectors to the vector index. Never
imports rankers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import structlog

from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.document import Document, Strategy, document_of
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.embedders.cache import DocumentCache
from armory.retrieval.lexical import LexicalIndex, Postings
from armory.retrieval.ports import Embedder, FloatArray, IntArray, Row, VectorIndex, VectorView

_log = structlog.get_logger(__name__)
_CHUNK = 256
_SLICE = 200


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
    """

    tools: int
    embedded: int = 0
    cached: int = 0
    missing: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One searchable state; immutable but for its cache.

    Attributes:
        records: the tools; the position is the row.
        row_of: exposed name to row.
        postings: the words.
        view: the vectors; None without a dense side.
        dense: (n,) row of each tool in `view`, -1 where it has no vectors yet; None: the same rows.
        servers, categories: (n,) small codes, and the code of each name.
    """

    records: tuple[ToolRecord, ...]
    row_of: Mapping[str, int]
    postings: Postings
    view: VectorView | None
    dense: IntArray | None
    servers: tuple[IntArray, Mapping[str, int]]
    categories: tuple[IntArray, Mapping[str, int]]


def _codes(values: Sequence[str]) -> tuple[IntArray, dict[str, int]]:
    names: dict[str, int] = {}
    codes = [names.setdefault(value, len(names)) for value in values]
    return np.array(codes, np.int64), names


@dataclass(slots=True)
class _Work:
    """Running state of one indexing."""

    vectors: dict[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    embedded: int = 0
    cached: int = 0
    problem: str = ""


class Indexer:
    """Builds snapshots. One at a time; the owner serialises.

    Args:
        embedder: None: words only.
        index: where vectors live; needed with an embedder.
        strategy: what of a tool is embedded.
        cache: document vectors by (identity, text hash); default: memory.
        generator: makes queries that are embedded beside the strategy's texts; None: none, or
            those of templates under `synthetic_queries`.
        on_progress: called with (texts done, texts to do) after every chunk.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        index: VectorIndex | None,
        *,
        strategy: Strategy = "description_params",
        cache: DocumentCache | None = None,
        generator: QueryGenerator | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._strategy: Strategy = strategy
        self._cache = cache or DocumentCache(None)
        self._generator = generator
        self._progress = on_progress
        self._lexical = LexicalIndex()
        self._documents: dict[str, tuple[ToolRecord, Document]] = {}

    async def words(self, tools: Sequence[ToolRecord]) -> Snapshot:
        """A snapshot without vectors: there at once."""
        await self._read(tools)
        postings = await asyncio.to_thread(self._freeze, tools)
        return _snapshot(tools, postings, None, None)

    async def run(self, tools: Sequence[ToolRecord]) -> tuple[Snapshot, IndexReport]:
        """The snapshot of these tools. A failing model or store costs vectors, never the words."""
        await self._read(tools)
        postings = await asyncio.to_thread(self._freeze, tools)
        if self._embedder is None or self._index is None:
            return _snapshot(tools, postings, None, None), IndexReport(len(tools))
        work = _Work()
        try:
            rows, groups = await self._vectors(self._embedder, self._index, tools, work)
            view = await self._index.update(rows, groups)
        except BackendError as error:
            _log.warning("indexing_without_vectors", error=str(error), tools=len(tools))
            snapshot = _snapshot(tools, postings, None, None)
            report = IndexReport(
                len(tools), work.embedded, work.cached, len(tools), work.problem or str(error)
            )
            return snapshot, report
        dense: IntArray | None = None
        if len(rows) < len(tools):
            place = {row.key: i for i, row in enumerate(rows)}
            dense = np.array([place.get(tool.name, -1) for tool in tools], np.int64)
        missing = len(tools) - len(rows)
        report = IndexReport(len(tools), work.embedded, work.cached, missing, work.problem)
        return _snapshot(tools, postings, view, dense), report

    def document(self, name: str) -> Document:
        """The document of an indexed tool.

        Raises:
            KeyError: it was never indexed.
        """
        return self._documents[name][1]

    async def _read(self, tools: Sequence[ToolRecord]) -> None:
        """Documents of what is new, in slices, so that the loop and other threads get a turn."""
        gone = self._documents.keys() - {tool.name for tool in tools}
        for name in gone:
            del self._documents[name]
            self._lexical.remove(name)
        fresh = [t for t in tools if self._documents.get(t.name, (None,))[0] != t]
        queries: dict[str, Sequence[str]] = {}
        if self._generator is not None:
            queries = await self._generated(self._generator, fresh)
        for start in range(0, len(fresh), _SLICE):
            part = fresh[start : start + _SLICE]
            await asyncio.to_thread(self._read_slice, part, queries)

    def _read_slice(
        self, tools: Sequence[ToolRecord], queries: Mapping[str, Sequence[str]]
    ) -> None:
        for tool in tools:
            made = queries.get(tool.name, ())
            strategy: Strategy = "synthetic_queries" if made else self._strategy
            document = document_of(tool, strategy, made)
            before = self._documents.get(tool.name)
            self._documents[tool.name] = (tool, document)
            if before is None or before[1].fields != document.fields:
                self._lexical.add(tool.name, document.fields)

    def _freeze(self, tools: Sequence[ToolRecord]) -> Postings:
        return self._lexical.freeze([tool.name for tool in tools])

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
        tools: Sequence[ToolRecord],
        work: _Work,
    ) -> tuple[list[Row], dict[str, FloatArray]]:
        stored = await index.stored()
        rows = [self._row(embedder.identity, tool) for tool in tools]
        changed = [row.key for row in rows if stored.get(row.key) != row.digest]
        texts = {text_hash(t): t for key in changed for t in self._documents[key][1].texts}
        await self._embed(embedder, texts, work)
        groups: dict[str, FloatArray] = {}
        for key in changed:
            found = [work.vectors.get(text_hash(t)) for t in self._documents[key][1].texts]
            if all(vector is not None for vector in found):
                groups[key] = np.stack([vector for vector in found if vector is not None])
        absent = {key for key in changed if key not in groups}
        return [row for row in rows if row.key not in absent], groups

    def _row(self, identity: str, tool: ToolRecord) -> Row:
        texts = self._documents[tool.name][1].texts
        joined = "\0".join((identity, *texts)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(joined).hexdigest()
        return Row(tool.name, digest, tool.server, tool.category or "")

    async def _embed(self, embedder: Embedder, texts: Mapping[str, str], work: _Work) -> None:
        identity = embedder.identity
        if not texts:
            return
        work.vectors = await asyncio.to_thread(self._cache.get, identity, texts, embedder.dimension)
        work.cached = len(work.vectors)
        todo = sorted((h for h in texts if h not in work.vectors), key=lambda h: len(texts[h]))
        for start in range(0, len(todo), _CHUNK):
            part = todo[start : start + _CHUNK]
            try:
                vectors = await embedder.embed_documents([texts[h] for h in part])
            except BackendError as error:
                work.problem = str(error)
                _log.warning("embedding_failed", done=work.embedded, error=str(error))
                return
            new = dict(zip(part, vectors, strict=True))
            work.vectors.update(new)
            work.embedded += len(part)
            await asyncio.to_thread(self._cache.put, identity, new)
            if self._progress is not None:
                self._progress(work.embedded, len(todo))


def _snapshot(
    tools: Sequence[ToolRecord],
    postings: Postings,
    view: VectorView | None,
    dense: IntArray | None,
) -> Snapshot:
    return Snapshot(
        records=tuple(tools),
        row_of={tool.name: i for i, tool in enumerate(tools)},
        postings=postings,
        view=view,
        dense=dense,
        servers=_codes([tool.server for tool in tools]),
        categories=_codes([tool.category or "" for tool in tools]),
    )
