"""The tool catalog as a source that the agent can search.

Owns: turning ranked tools into chunks of their documents. Never imports the loop; the engine comes
in as a Protocol, so its vectors and postings are used, not built again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from cachetools import LRUCache

from armory.agent.chunks import Ask, Chunk, Hit, cut
from armory.agent.labels import Search
from armory.domain.query import MAX_QUERY_CHARS, Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.indexing.document import parameters
from armory.retrieval.lexical.text import terms
from armory.retrieval.ranking.answer import Ranking

_CACHED_BYTES = 16 << 20
"""Largest size of the cached chunks of tools' documents: one document may have half a MiB."""
_CHUNK_BYTES = 500


class Engine(Protocol):
    """Search over the catalog (`armory.retrieval.retriever.Retriever`)."""

    async def rank(self, query: Query, visible: VisibleSet | None = None) -> Ranking:
        """All candidates of a query, ordered and scored; nothing is cut."""
        ...


def tool_text(tool: ToolRecord) -> str:
    """The document of a tool: name, title, what it does, its parameters."""
    title = f" ({tool.title})" if tool.title else ""
    lines = [f"Tool {tool.name}{title}, of {tool.server_title or tool.server}"]
    if tool.description:
        lines.append(tool.description)
    listed = [f"{n}: {t}" if t else n for n, t in parameters(tool.input_schema)]
    if listed:
        lines.append("Parameters: " + "; ".join(listed))
    return "\n".join(lines)


class CatalogSource:
    """Searches tools with the cosine and BM25 scores of the retrieval engine.

    A tool's document is cut into chunks; the engine scores the tool, and the chunk that shares most
    words with the query stands for it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._chunks: LRUCache[tuple[str, str, str], tuple[Chunk, ...]] = LRUCache(
            _CACHED_BYTES, _size
        )

    async def search(self, search: Search, ask: Ask) -> Sequence[Hit]:
        """At most `ask.top_k` hits, best first.

        Raises:
            BackendError: a semantic search without a working embedder.
        """
        text = ask.query[:MAX_QUERY_CHARS]
        ranking = await self._engine.rank(Query((text,), user=ask.user), ask.visible)
        features = ranking.features
        if search == "vector_search" and not features.dense:
            if ranking.degraded is not None or features.subqueries:
                why = ranking.degraded or "there is no embedder"
                raise BackendError(f"semantic search is not available ({why})")
            return []
        if not features.subqueries:
            return []
        whole = features.subqueries[0]
        scores = whole.bm25 if search == "keyword_search" or whole.cosine is None else whole.cosine
        best = np.argsort(-scores, kind="stable")[: ask.top_k].tolist()
        wanted = set(terms(text))
        return [
            Hit(
                chunk=self._best(ranking.record(i), wanted),
                search=search,
                score=float(scores[i]),
                match=ranking.match(i),
            )
            for i in best
            if search == "vector_search" or scores[i] > 0
        ]

    def _best(self, tool: ToolRecord, wanted: set[str]) -> Chunk:
        chunks = self._chunks_of(tool)
        if len(chunks) == 1:
            return chunks[0]
        return max(chunks, key=lambda c: len(wanted.intersection(terms(c.text))))

    def _chunks_of(self, tool: ToolRecord) -> tuple[Chunk, ...]:
        key = (tool.name, tool.fingerprint, tool.description)
        found = self._chunks.get(key)
        if found is None:
            pieces = cut(tool_text(tool))
            found = tuple(Chunk(f"{tool.name}#{i}", p, tool.name) for i, p in enumerate(pieces))
            if _size(found) <= _CACHED_BYTES:
                self._chunks[key] = found
        return found


def _size(chunks: tuple[Chunk, ...]) -> int:
    return sum(_CHUNK_BYTES + sys.getsizeof(chunk.text) for chunk in chunks)
