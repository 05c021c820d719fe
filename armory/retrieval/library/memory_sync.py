"""`ToolMemory` for programs without an event loop.

Owns: the synchronous face. Everything else is `AsyncToolMemory`.
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
from armory.retrieval.library.toolbox import Given, Handle, SelectedTool, Tool
from armory.retrieval.options import EMBEDDED, INDEX, RANKER
from armory.retrieval.ports import Embedder, VectorIndex
from armory.retrieval.ranking.rerank import Reranker
from armory.threads import LoopThread

_T = TypeVar("_T")
_END_S = 10.0


class ToolMemory:
    """Remembers tools and finds those that a query wants; blocking, safe from any thread. A process
    that was forked needs one of its own. One that nobody holds any more is closed.

    Arguments and errors are those of `AsyncToolMemory`.

        memory = ToolMemory()
        memory.add(get_weather, send_email)
        best = memory.select_tools_for_query("will it rain?", top_k=1)[0]
        best["handle"]("Budapest")
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
        """Let threads, files and connections go; safe to call twice."""
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
        """See `AsyncToolMemory.get`."""
        return self._memory.get(identifier)

    def add(self, *given: Given) -> list[str]:
        """See `AsyncToolMemory.add`."""
        return self._run(self._call(self._memory.add, *given))

    def update(self, identifier: str, given: Given | None = None, **changes: Any) -> Tool:
        """See `AsyncToolMemory.update`."""
        return self._run(self._call(self._memory.update, identifier, given, **changes))

    def remove(self, identifier: str) -> None:
        """See `AsyncToolMemory.remove`."""
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
        """See `AsyncToolMemory.select_tools_for_query`."""
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
        """See `AsyncToolMemory.expansion`."""
        return SyncToolContext(self._memory.expansion(max_tools=max_tools), self._run)

    def save(self, folder: Path | str | None = None) -> Path:
        """See `AsyncToolMemory.save`."""
        return self._run(self._memory.save(folder))

    def load(
        self, folder: Path | str | None = None, handles: Mapping[str, Handle] | None = None
    ) -> int:
        """See `AsyncToolMemory.load`."""
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
        """Why the thread of this memory would never answer the caller; "" where it does."""
        if os.getpid() != self._process:
            return "this memory was made before its process was forked; make one in each process"
        if self._loop.here:
            return "this memory cannot be used by what it calls itself, as a filter"
        return ""

    @staticmethod
    async def _call(function: Any, *args: Any, **options: Any) -> Any:
        """Changes run on the loop's thread, one after the other."""
        return function(*args, **options)


def _let_go(memory: AsyncToolMemory, loop: LoopThread, process: int) -> None:
    """Close what a memory held that nobody holds any more, as when a notebook's cell runs again."""
    if os.getpid() == process:
        loop.end_after(memory.aclose())


class SyncToolContext:
    """See `armory.retrieval.library.tool_context.ToolContext`."""

    def __init__(
        self,
        inner: ToolContext,
        run: Callable[[Coroutine[Any, Any, list[SelectedTool]]], list[SelectedTool]],
    ) -> None:
        self._inner = inner
        self._run = run

    @property
    def tools(self) -> list[SelectedTool]:
        """The working set, the latest found last."""
        return self._inner.tools

    @property
    def tokens(self) -> int:
        """Estimated tokens of the working set's definitions."""
        return self._inner.tokens

    def search_tools(self, query: str | Sequence[str], top_k: int = 3) -> list[SelectedTool]:
        """Find tools and take them into the working set; returns what was found."""
        return self._run(self._inner.search_tools(query, top_k))
