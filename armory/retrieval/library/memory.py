"""`AsyncToolMemory`: retrieval as a library, for agents that hold their tools themselves.

Owns: the library's face (add, select, expand, save); `memory_sync` has the one for programs without
an event loop. Never imports a gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError, InvalidRequest, UnknownTool
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.library import saved
from armory.retrieval.library.arguments import (
    MOST,
    check_filters,
    check_handles,
    check_parts,
    folder_of,
    handles_of,
    identifier_of,
    identifiers,
    number,
    settings_of,
    texts_of,
    tool_count,
)
from armory.retrieval.library.named import embedder_named, index_named
from armory.retrieval.library.one_loop import OneLoop
from armory.retrieval.library.own_embedder import checked
from armory.retrieval.library.tool_context import ToolContext, selected
from armory.retrieval.library.tool_snapshot import Filter, ToolSnapshot
from armory.retrieval.library.toolbox import (
    ATTRIBUTES,
    AnyTool,
    Handle,
    SelectedTool,
    Tool,
)
from armory.retrieval.options import (
    EMBEDDED,
    INDEX,
    NO_EMBEDDER,
    RANKER,
    Limits,
)
from armory.retrieval.ports import Embedder, VectorIndex
from armory.retrieval.ranking.answer import Ranking
from armory.retrieval.ranking.rerank import Reranker
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever

_VECTORS = "vectors.db"
NOT_COPIED = (
    "a memory holds threads and a model, and can be neither pickled nor copied; save(folder) it, "
    "and load(folder, handles) it in a memory that the other process makes"
)


def _examples(tool: ToolRecord) -> Sequence[str]:
    """The example queries of a tool's own definition."""
    return [str(text) for text in tool.definition.get("examples", ())]


class AsyncToolMemory:
    """Remembers tools and finds those that a query needs. For one event loop at a time.

    Args:
        embedder: name of a model (see `ToolMemory`), `none` or None: words only, or an embedder of
            your own.
        index: `exact`, `faiss`, `qdrant`, or an index of your own.
        ranker: `relevance`, `hybrid`, `semantic` or `lexical`.
        folder: where `save` writes, and where vectors are kept so that they are computed once;
            None: the folder that is saved to or loaded from first.
        tag_boosts: factor on the odds of tools that carry a tag.
        diversity: weight in (0, 1] of relevance against novelty; None: order by relevance alone.
        reranker: a cross-encoder that reorders the best 30; None: none.

    Raises:
        ConfigError: an extra is missing, a name is unknown, or a value is out of range.
    """

    def __init__(
        self,
        *,
        embedder: Embedder | str | None = EMBEDDED,
        index: VectorIndex | str = INDEX,
        ranker: str = RANKER,
        folder: Path | str | None = None,
        tag_boosts: Mapping[str, float] | None = None,
        diversity: float | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        rankers = make_rankers()
        settings = settings_of(ranker, rankers, tag_boosts, diversity)
        check_parts(NO_EMBEDDER if embedder is None else embedder, index, reranker)
        self._folder = folder_of(folder)
        model = embedder_named(embedder) if isinstance(embedder, str) else checked(embedder)
        if model is None:
            settings = replace(settings, ranker="lexical")
        self._vectors = DocumentCache(None if self._folder is None else self._folder / _VECTORS)
        self._retriever = Retriever(
            model,
            index_named(index, model),
            rankers,
            settings,
            indexing=Indexing(cache=self._vectors, examples=_examples),
            reranker=reranker,
        )
        self._tools: dict[str, Tool] = {}
        self._records: dict[str, ToolRecord] = {}
        self._snapshot: ToolSnapshot | None = None
        self._stale = False
        self._closed = False
        self._lock = asyncio.Lock()
        self._loops = OneLoop()

    async def __aenter__(self) -> AsyncToolMemory:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close threads, files and connections; nothing can be selected afterwards."""
        self._closed = True
        await self._retriever.aclose()

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_COPIED)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._tools

    def get(self, identifier: str) -> Tool:
        """The tool with this identifier.

        Raises:
            UnknownTool: there is none. `InvalidRequest`: the identifier is not a string.
        """
        if (tool := self._tools.get(identifier_of(identifier))) is None:
            raise UnknownTool(f"no tool {identifier!r} in this memory")
        return tool

    def add(self, *given: AnyTool) -> list[str]:
        """Add tools; returns their identifiers. They are embedded at the next selection.

        Raises:
            InvalidRequest: one is not a tool, or its identifier is taken (`update` replaces) or
                given twice; or the memory is closed. Nothing is added then.
        """
        self._check_open()
        tools: dict[str, Tool] = {}
        for tool in map(Tool.of, given):
            if tool.identifier in self._tools:
                raise InvalidRequest(
                    f"there already is a tool {tool.identifier!r}; update replaces it",
                    parameter="identifier",
                )
            if tools.setdefault(tool.identifier, tool) is not tool:
                raise InvalidRequest(
                    f"the identifier {tool.identifier!r} is given twice; every tool needs its own",
                    parameter="identifier",
                )
        records = {identifier: tool.record() for identifier, tool in tools.items()}
        self._tools.update(tools)
        self._records.update(records)
        self._changed()
        return list(tools)

    def update(self, identifier: str, given: AnyTool | None = None, **changes: Any) -> Tool:
        """Replace a tool, or some of its attributes; returns the new one.

        Raises:
            UnknownTool: there is no such tool.
            InvalidRequest: no such attribute, a value of the wrong type, the memory is closed.
        """
        self._check_open()
        old = self.get(identifier)
        tool = old if given is None else Tool.of(given)
        for name in changes:
            if name not in ATTRIBUTES:
                raise InvalidRequest(
                    f"tool {identifier!r} cannot be updated: it has no {name!r}; it has "
                    f"{', '.join(ATTRIBUTES)}",
                    parameter=name,
                )
        tool = replace(tool, **{**changes, "identifier": identifier})
        self._records[identifier] = tool.record()
        self._tools[identifier] = tool
        self._changed()
        return tool

    def remove(self, identifier: str) -> None:
        """Remove a tool.

        Raises:
            UnknownTool: there is no such tool. `InvalidRequest`: the memory is closed.
        """
        self._check_open()
        self.get(identifier)
        del self._tools[identifier], self._records[identifier]
        self._changed()

    async def select_tools_for_query(
        self,
        query: str | Sequence[str],
        top_k: int = 5,
        *,
        min_score: float | None = None,
        threshold: float | None = None,
        filters: Filter | None = None,
        include_private: bool = False,
        exclude: Iterable[str] = (),
    ) -> list[SelectedTool]:
        """The tools that a query needs, best first.

        Args:
            query: what is to be done; several strings are several intents. At most 16 strings and
                8,000 characters together.
            top_k: the most tools to return, at least 1.
            min_score: the least `_score` (cosine, -1 to 1); None: any.
            threshold: the least `_relevance` (0 to 1); with one, a query that needs no tool gets
                none. None: always the best `top_k`.
            filters: metadata that must be equal (`{"team": "ops"}`; under `tags`, one or several
                tags of which the tool must have one), or a function from a tool to bool.
            include_private: whether private tools may be found.
            exclude: identifiers to leave out.

        Raises:
            InvalidRequest: an argument of the wrong type or out of range, a blank or too long
                query, the memory is closed, or another event loop is using it.
        """
        limits = Limits(
            threshold=number("threshold", threshold, 0, 1),
            exact=True,
            max_tools=tool_count("top_k", top_k),
            min_cosine=number("min_score", min_score, -MOST, MOST),
        )
        texts, out = texts_of(query), identifiers(exclude)
        check_filters(filters)
        with self._loops.here():
            held = await self._fresh()
            visible = held.visible(filters, bool(include_private), out)
            ranking = await self._retriever.rank(Query(texts), visible)
        shown = ranking.cut(limits).shown
        return [_selected(held.tools, ranking, position) for position in shown]

    def expansion(self, *, max_tools: int = 12) -> ToolContext:
        """A bounded working set that grows by searching; see `ToolContext`."""
        return ToolContext(self.select_tools_for_query, self._tools, max_tools=max_tools)

    async def save(self, folder: Path | str | None = None) -> Path:
        """Write all tools to `tools.json`, atomically; returns its path. Handles are not saved.

        Raises:
            ConfigError: there is no folder, or the file cannot be written.
            InvalidRequest: a tool's metadata is not JSON; nothing is written then.
        """
        target = folder_of(folder) or self._folder
        if target is None:
            raise ConfigError("save needs a folder")
        content = await asyncio.to_thread(saved.content_of, tuple(self._tools.values()))
        with self._loops.here():
            await self._fresh()
        file = await asyncio.to_thread(saved.write, target, content)
        await self._keep_in(target)
        return file

    async def load(
        self, folder: Path | str | None = None, handles: Mapping[str, Handle] | None = None
    ) -> int:
        """Add the tools saved in a folder; returns how many. `handles`: identifier -> what runs it.

        Raises:
            ConfigError: the file does not exist, cannot be read, or is damaged.
            InvalidRequest: a tool is in the memory already, or `handles` is not a mapping or names
                a tool that is not in the file. Nothing is added then.
        """
        source = folder_of(folder) or self._folder
        if source is None:
            raise ConfigError("load needs a folder")
        known = handles_of(handles)
        tools = await asyncio.to_thread(saved.read, source)
        check_handles(known, [tool.identifier for tool in tools])
        self.add(*(replace(tool, handle=known.get(tool.identifier)) for tool in tools))
        await self._keep_in(source)
        return len(tools)

    async def _keep_in(self, folder: Path) -> None:
        """Make a folder this memory's own, where it has none."""
        if self._folder is None:
            self._folder = folder
            await asyncio.to_thread(self._vectors.keep_in, folder / _VECTORS)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidRequest("this memory is closed; make a new one")

    def _changed(self) -> None:
        self._stale = True
        self._snapshot = None

    async def _fresh(self) -> ToolSnapshot:
        """The current tools, all of them indexed."""
        self._check_open()
        async with self._lock:
            if self._stale:
                self._stale = False  # a change while it is indexed makes it stale again
                try:
                    await self._retriever.index(list(self._records.values()))
                except BaseException:
                    self._stale = True  # failed or given up: the next selection tries again
                    raise
        if self._snapshot is None:
            self._snapshot = ToolSnapshot(self._tools)
        return self._snapshot


def _selected(tools: Mapping[str, Tool], ranking: Ranking, position: int) -> SelectedTool:
    match = ranking.match(position)
    tool = tools[match.tool.name]
    cosine = ranking.features.cosine
    score = 0.0 if cosine is None else float(cosine[position])
    return selected(tool, score, match.score, match.reason)
