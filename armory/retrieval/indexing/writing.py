"""Example queries of tools, written by a model in the background.

Owns: whose turn it is, patience with a model that fails. A tool is searched by templates until its
queries are there: nobody waits for a model. Never imports a model, an index or a ranker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexing.cache import DocumentCache
from armory.tasks import spawn, stop

_log = Logger(__name__)
ROUND_S = 60.0
"""Seconds after which the queries written so far are indexed, though more are to be written."""
IN_A_ROW = 3
"""Failures one after another from which on the model itself seems to be away."""
PAUSES_S = (5.0, 30.0, 120.0, 600.0, 3_600.0)
"""Seconds between rounds in which nothing was written."""


def content_key(tool: ToolRecord) -> str:
    """The cache key of a tool's generated queries: it changes with anything they depend on."""
    return text_hash(f"{tool.fingerprint}\0{tool.description}\0{tool.server_title}")


class QueryGenerator(Protocol):
    """Writes example queries of a tool, for the strategy `synthetic_queries`."""

    @property
    def identity(self) -> str:
        """Names model and prompt: equal identity, equal purpose. Key of the cache."""
        ...

    async def generate(self, tool: ToolRecord) -> Sequence[str]:
        """Example queries, best first.

        Raises:
            BackendError: the model failed; it is asked again later.
        """
        ...


class QueryWriter:
    """Generates missing queries, one tool after the other.

    Args:
        generator: writes them.
        cache: where they are kept.
        on_written: called when some were, to have the tools indexed again; None: nothing is ever
            written, what is kept already is read.
    """

    def __init__(
        self,
        generator: QueryGenerator,
        cache: DocumentCache,
        on_written: Callable[[], None] | None,
    ) -> None:
        self._generator = generator
        self._cache = cache
        self._on_written = on_written
        self._lacking: dict[str, ToolRecord] = {}
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def written(self, tool: ToolRecord) -> Sequence[str] | None:
        """The queries of a tool; None: they are still to be written. Blocking."""
        return self._cache.get_queries(self._generator.identity, content_key(tool))

    def look(self, lacking: Sequence[ToolRecord]) -> None:
        """These tools lack their queries, and no others."""
        before, self._lacking = self._lacking, {tool.name: tool for tool in lacking}
        if self._on_written is None or not lacking:
            return
        if any(before.get(tool.name) is not tool for tool in lacking):
            self._more.set()
        if self._task is None or self._task.done():
            self._task = spawn(self._run(self._on_written), "writing queries of tools")

    async def aclose(self) -> None:
        """Stop generating queries."""
        await stop(self._task)

    async def _run(self, on_written: Callable[[], None]) -> None:
        in_vain = 0
        while self._lacking:
            self._more.clear()
            if await self._round():
                in_vain = 0
                on_written()
                continue
            pause_s = PAUSES_S[min(in_vain, len(PAUSES_S) - 1)]
            in_vain += 1
            try:
                async with asyncio.timeout(pause_s):
                    await self._more.wait()
            except TimeoutError:
                continue

    async def _round(self) -> int:
        """Write for a minute, or until the model seems to be away; how many tools got theirs."""
        until = time.monotonic() + ROUND_S
        done = in_a_row = 0
        for tool in tuple(self._lacking.values()):
            if self._lacking.get(tool.name) is not tool:
                continue  # it changed meanwhile, or is gone
            try:
                await self._write(tool)
            except BackendError as error:
                _log.warning("query_generation_failed", tool=tool.name, error=str(error))
                if self._lacking.pop(tool.name, None) is not None:  # the others go first next time
                    self._lacking[tool.name] = tool
                in_a_row += 1
                if in_a_row >= IN_A_ROW:
                    break
                continue
            done, in_a_row = done + 1, 0
            if self._lacking.get(tool.name) is tool:
                del self._lacking[tool.name]
            if time.monotonic() > until:
                break
        return done

    async def _write(self, tool: ToolRecord) -> None:
        if await asyncio.to_thread(self.written, tool) is not None:
            return  # by another process, `armory queries` say
        texts = await self._generator.generate(tool)
        key = content_key(tool)
        await asyncio.to_thread(self._cache.put_queries, self._generator.identity, key, texts)
