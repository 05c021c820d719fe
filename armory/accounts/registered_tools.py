"""Indexes the tools that an administrator registered together with the catalog's.

Owns: joining the two, and indexing again when the registry changes. Never imports a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from armory.accounts.registry import TOOLS, ToolRegistry
from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError
from armory.logger import Logger
from armory.storage.changes import ChangeFeed
from armory.tasks import spawn, stop

_log = Logger(__name__)
_SETTLED_S = 30.0


class Searchable(Protocol):
    """Makes tools searchable: `retrieval.retriever.Retriever`, or a wrapper of it."""

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> object:
        """Index exactly these tools, unless they become outdated meanwhile."""
        ...


class WithRegisteredTools:
    """A retriever that indexes the registered tools along with those that it is given.

    Args:
        retriever: makes tools searchable.
        registry: the tools that no upstream offers.
        feed: tells when they have changed.
    """

    def __init__(self, retriever: Searchable, registry: ToolRegistry, feed: ChangeFeed) -> None:
        self._retriever = retriever
        self._registry = registry
        self._tools: Sequence[ToolRecord] | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False
        feed.subscribe(TOOLS, self._registry_changed)

    async def index(
        self, tools: Sequence[ToolRecord], outdated: Callable[[], bool] | None = None
    ) -> object:
        """Index exactly these tools and the registered ones."""
        self._tools = tools
        return await self._retriever.index(self._joined(tools), outdated)

    async def settled(self) -> None:
        """Wait until the registered tools are indexed; at most half a minute with a
        slow embedder.
        """
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_SETTLED_S)

    async def close(self) -> None:
        """Stop indexing."""
        await stop(self._task)

    def _joined(self, tools: Sequence[ToolRecord]) -> Sequence[ToolRecord]:
        registered = self._registry.records
        if not registered:
            return tools
        offered = {tool.name for tool in tools}
        return [*tools, *(tool for name, tool in registered.items() if name not in offered)]

    async def _registry_changed(self, _value: str) -> None:
        """Reindex in the background: the change feed must not wait for an embedder."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = spawn(self._reindex(), "index registered tools")

    async def _reindex(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._retriever.index(self._joined(self._tools or ()))
            except ArmoryError as error:
                _log.error("registered_tools_not_indexed", error=error.message)
