"""The tool catalogue as something that the agent can search.

Owns: turning ranked tools into chunks of their documents. Never imports the loop; the engine comes
in as a Protocol, so its vectors and postings are used, not built again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from armory.agent.chunks import Ask, Chunk, Hit, cut
from armory.agent.labels import Search
from armory.domain.query import MAX_QUERY_CHARS, MAX_TOP_K, Query, Ranker, VisibleSet
from armory.domain.results import Match, Selection
from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.retrieval.document import parameters
from armory.retrieval.text import terms

_RANKER: dict[Search, Ranker] = {"vector_search": "semantic", "keyword_search": "lexical"}
_CACHED = 4_096


class Engine(Protocol):
    """Ranked search over the catalogue (`armory.retrieval.retriever.Retriever`)."""

    async def search(
        self, query: Query, visible: VisibleSet | None, *, explain: bool = False
    ) -> Selection:
        """With `explain`, `Selection.ranking` holds the full ranking with its signals."""
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


class CatalogueSource:
    """Searches tools with the retrieval engine's own semantic and lexical rankers.

    A tool's document is cut into chunks; the engine scores the tool, and the chunk that shares most
    words with the query stands for it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._chunks: OrderedDict[tuple[str, str, str], tuple[Chunk, ...]] = OrderedDict()

    async def search(self, search: Search, ask: Ask) -> Sequence[Hit]:
        """At most `ask.top_k` hits, best first.

        Raises:
            BackendError: a semantic search without a working embedder.
        """
        selection = await self._engine.search(
            Query(
                texts=(ask.query[:MAX_QUERY_CHARS],),
                threshold=0.0,
                top_k=min(ask.top_k, MAX_TOP_K),
                ranker=_RANKER[search],
                user=ask.user,
            ),
            ask.visible,
            explain=True,
        )
        if search == "vector_search" and selection.degraded is not None:
            raise BackendError(f"semantic search is not available ({selection.degraded})")
        hits: list[Hit] = []
        wanted = set(terms(ask.query))
        for match in selection.ranking[: ask.top_k]:
            score = _raw(search, match)
            if score <= 0 and search == "keyword_search":
                break
            hits.append(Hit(self._best(match.tool, wanted), search, score, match))
        return hits

    def _best(self, tool: ToolRecord, wanted: set[str]) -> Chunk:
        chunks = self._of(tool)
        if len(chunks) == 1:
            return chunks[0]
        return max(chunks, key=lambda c: len(wanted.intersection(terms(c.text))))

    def _of(self, tool: ToolRecord) -> tuple[Chunk, ...]:
        key = (tool.name, tool.fingerprint, tool.description)
        found = self._chunks.get(key)
        if found is None:
            pieces = cut(tool_text(tool))
            found = tuple(Chunk(f"{tool.name}#{i}", p, tool.name) for i, p in enumerate(pieces))
            self._chunks[key] = found
            if len(self._chunks) > _CACHED:
                self._chunks.popitem(last=False)
        else:
            self._chunks.move_to_end(key)
        return found


def _raw(search: Search, match: Match) -> float:
    """The score that the quality labels are defined on: cosine, or BM25 itself."""
    name = "cosine" if search == "vector_search" else "bm25"
    score = match.signals.get(name)
    if score is None:
        known = ", ".join(sorted(match.signals)) or "none"
        raise BackendError(f"the engine's ranking has no signal {name!r} (it has: {known})")
    return float(score)
