"""The working set of a model that searches for tools while it works.

Owns: `ToolContext`, and making a `SelectedTool`. Never imports the memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from armory.retrieval.library.arguments import tool_count
from armory.retrieval.library.toolbox import SelectedTool, Tool, copied
from armory.retrieval.ranking.tokens import definition_tokens

Search = Callable[[str | Sequence[str], int], Awaitable[list[SelectedTool]]]


class ToolContext:
    """A bounded working set of tools that grows by searching; made by `AsyncToolMemory.expansion`.

    Args:
        search: finds tools for (query, top_k).
        known: the memory's current tools, by identifier.

    Attributes:
        max_tools: the most tools in it; those not found for longest are dropped.
    """

    def __init__(self, search: Search, known: Mapping[str, Tool], *, max_tools: int = 12) -> None:
        self.max_tools = tool_count("max_tools", max_tools)
        self._search = search
        self._known = known
        self._held: dict[str, SelectedTool] = {}

    @property
    def tools(self) -> list[SelectedTool]:
        """The tools in the working set, the latest found last; removed tools are left out."""
        return [
            selected(tool, found["_score"], found["_relevance"], found["_reason"])
            for name, found in tuple(self._held.items())
            if (tool := self._current(name)) is not None
        ]

    @property
    def tokens(self) -> int:
        """Estimated tokens of the tools' definitions."""
        return sum(
            definition_tokens(
                {k: v for k, v in tool.items() if k in ("name", "description", "inputSchema")}
            )
            for tool in self.tools
        )

    async def search_tools(self, query: str | Sequence[str], top_k: int = 3) -> list[SelectedTool]:
        """Search for tools, add them to the working set, and return them (at most `max_tools`)."""
        found = await self._search(query, min(tool_count("top_k", top_k), self.max_tools))
        for tool in reversed(found):  # the best one goes in last and stays longest
            self._held.pop(tool["identifier"], None)
            self._held[tool["identifier"]] = tool
        for name in [name for name in self._held if self._current(name) is None]:
            del self._held[name]
        while len(self._held) > self.max_tools:
            del self._held[next(iter(self._held))]
        return found

    def _current(self, identifier: str) -> Tool | None:
        """The tool as it is now; None where it was removed or made private."""
        tool = self._known.get(identifier)
        return None if tool is None or tool.private else tool


def selected(tool: Tool, score: float, relevance: float, reason: str) -> SelectedTool:
    """A tool with its scores; the caller may change it, since everything in it is a copy."""
    return SelectedTool(
        identifier=tool.identifier,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        tags=list(tool.tags),
        inputSchema=copied(tool.input_schema),
        outputSchema=copied(tool.output_schema),
        metadata=copied(tool.metadata),
        annotations=copied(tool.annotations),
        icons=[copied(icon) for icon in tool.icons],
        execution=copied(tool.execution),
        _meta=copied(tool.meta),
        handle=tool.handle,
        _score=score,
        _relevance=relevance,
        _reason=reason,
    )
