"""`ToolMemory`: `AsyncToolMemory` for programs without an event loop.

Owns: the blocking interface. Everything else is `AsyncToolMemory`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from armory.errors import InvalidRequest
from armory.retrieval.library.memory import NOT_COPIED, AsyncToolMemory
from armory.retrieval.library.tool_context import ToolContext
from armory.retrieval.library.tool_snapshot import Filter
from armory.retrieval.library.toolbox import AnyTool, Handle, SelectedTool, Tool
from armory.retrieval.options import EMBEDDED, INDEX, RANKER
from armory.retrieval.ports import Embedder, VectorIndex
from armory.retrieval.ranking.rerank import Reranker
from armory.threads import LoopThread

_T = TypeVar("_T")
_END_S = 10.0


class ToolMemory:
    """Remembers tools and finds those that a query needs. Its methods block, and are thread-safe.

        with ToolMemory() as memory:
            memory.add(get_weather, send_email)
            best = memory.select_tools_for_query("will it rain?", top_k=1)[0]
            best["handle"]("Budapest")

    A forked process needs a memory of its own. A memory without references is closed.

    Args:
        embedder: name of a model, or an embedder of your own. `embedded` (default) ships with the
            package; `none` or None: words only; `text-embedding-...`: OpenAI's, which needs
            OPENAI_API_KEY (and OPENAI_BASE_URL for another API); any other name: a model of
            fastembed, or a folder with one (extra `local`).
        index: `exact`, `faiss` (extra), `qdrant`, or an index of your own.
        ranker: `relevance`, `hybrid`, `semantic` or `lexical`.
        folder: where `save` writes, and where vectors are cached; None: nothing is stored.
        tag_boosts: tag -> factor (greater than 0) on the odds of tools with that tag.
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
        self._memory = AsyncToolMemory(
            embedder=embedder,
            index=index,
            ranker=ranker,
            folder=folder,
            tag_boosts=tag_boosts,
            diversity=diversity,
            reranker=reranker,
        )
        self._loop = LoopThread("armory-tool-memory")
        self._gate = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._dropped = weakref.finalize(self, _let_go, self._memory, self._loop, self._process)
        self._dropped.atexit = False  # its thread is a daemon's

    def __enter__(self) -> ToolMemory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close threads, files and connections; safe to call twice.

        Raises:
            InvalidRequest: called from inside the memory, as by a filter.
        """
        if os.getpid() != self._process:
            self._closed = True  # the thread is in the process that made this
            return
        if problem := self._out_of_place():
            raise InvalidRequest(problem)
        with self._gate:  # nothing comes to the loop after this
            if self._closed:
                return
            self._closed = True
            self._dropped.detach()
            ended = self._loop.submit(self._memory.aclose())
        try:
            ended.result()
        finally:
            self._loop.end(_END_S)

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_COPIED)

    def __len__(self) -> int:
        return len(self._memory)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._memory

    def get(self, identifier: str) -> Tool:
        """The tool with this identifier.

        Raises:
            UnknownTool: there is no such tool.
            InvalidRequest: the identifier is not a string.
        """
        return self._memory.get(identifier)

    def add(self, *given: AnyTool) -> list[str]:
        """Add tools; they are embedded at the next selection.

        Args:
            given: functions, mappings in the form of MCP, OpenAI or Anthropic, (identifier,
                mapping) pairs, `Tool`, or tools of LangChain, LlamaIndex, FastMCP or MCP's SDK.

        Returns:
            The tools' identifiers, in order.

        Raises:
            InvalidRequest: one is not a tool, or its identifier is taken (`update` replaces) or
                given twice; or the memory is closed. Nothing is added then.
        """
        return self._run(self._call(self._memory.add, *given))

    def update(self, identifier: str, given: AnyTool | None = None, **changes: Any) -> Tool:
        """Replace a tool, or some of its attributes.

        Args:
            identifier: of the tool; it stays.
            given: the new tool, in any form that `add` takes; None: the present one.
            changes: attributes of `Tool` to change.

        Returns:
            The new tool.

        Raises:
            UnknownTool: there is no such tool.
            InvalidRequest: no such attribute, a value of the wrong type, or the memory is closed.
        """
        return self._run(self._call(self._memory.update, identifier, given, **changes))

    def remove(self, identifier: str) -> None:
        """Remove a tool.

        Raises:
            UnknownTool: there is no such tool.
            InvalidRequest: the memory is closed.
        """
        self._run(self._call(self._memory.remove, identifier))

    def select_tools_for_query(
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
                query, or the memory is closed.
        """
        return self._run(
            self._memory.select_tools_for_query(
                query,
                top_k,
                min_score=min_score,
                threshold=threshold,
                filters=filters,
                include_private=include_private,
                exclude=exclude,
            )
        )

    def expansion(self, *, max_tools: int = 12) -> SyncToolContext:
        """An empty working set for a model that searches while it works.

        Args:
            max_tools: the most tools in it; those not found for longest are dropped.
        """
        return SyncToolContext(self._memory.expansion(max_tools=max_tools), self._run)

    def save(self, folder: Path | str | None = None) -> Path:
        """Write all tools to `tools.json`, atomically. Handles are not saved.

        Args:
            folder: where to; None: the memory's folder.

        Returns:
            The path of the file.

        Raises:
            ConfigError: there is no folder, or the file cannot be written.
            InvalidRequest: a tool's metadata is not JSON; nothing is written then.
        """
        return self._run(self._memory.save(folder))

    def load(
        self, folder: Path | str | None = None, handles: Mapping[str, Handle] | None = None
    ) -> int:
        """Add the tools that were saved in a folder.

        Args:
            folder: where from; None: the memory's folder.
            handles: identifier -> what runs the tool.

        Returns:
            How many tools were added.

        Raises:
            ConfigError: the file does not exist, cannot be read, or is damaged.
            InvalidRequest: a tool is in the memory already, or `handles` is not a mapping or names
                a tool that is not in the file. Nothing is added then.
        """
        return self._run(self._memory.load(folder, handles))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        problem = self._out_of_place()
        if problem:
            work.close()
            raise InvalidRequest(problem)
        with self._gate:
            if self._closed:
                work.close()
                raise InvalidRequest("this memory is closed; make a new one")
            done = self._loop.submit(work)
        try:
            return done.result()
        except (CancelledError, RuntimeError) as error:  # of what is closed under a search
            if not self._closed:
                raise
            raise InvalidRequest("this memory was closed meanwhile; make a new one") from error

    def _out_of_place(self) -> str:
        """Why the memory's thread cannot serve this caller; "" where it can."""
        if os.getpid() != self._process:
            return "this memory was made before its process was forked; make one in each process"
        if self._loop.here:
            return "this memory cannot be used by what it calls itself, as a filter"
        return ""

    @staticmethod
    async def _call(function: Any, *args: Any, **options: Any) -> Any:
        """Call `function` on the loop's thread: changes run one after the other."""
        return function(*args, **options)


def _let_go(memory: AsyncToolMemory, loop: LoopThread, process: int) -> None:
    """Close a memory without references, as when a notebook's cell runs again."""
    if os.getpid() == process:
        loop.end_after(memory.aclose())


class SyncToolContext:
    """A bounded working set of tools that grows by searching; made by `ToolMemory.expansion`."""

    def __init__(
        self,
        inner: ToolContext,
        run: Callable[[Coroutine[Any, Any, list[SelectedTool]]], list[SelectedTool]],
    ) -> None:
        self._inner = inner
        self._run = run

    @property
    def tools(self) -> list[SelectedTool]:
        """The tools in the working set, the latest found last; removed tools are left out."""
        return self._inner.tools

    @property
    def tokens(self) -> int:
        """Estimated tokens of the tools' definitions."""
        return self._inner.tokens

    def search_tools(self, query: str | Sequence[str], top_k: int = 3) -> list[SelectedTool]:
        """Search for tools, add them to the working set, and return them (at most `max_tools`)."""
        return self._run(self._inner.search_tools(query, top_k))
