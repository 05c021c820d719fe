"""What tool definitions cost in a prompt: everything, filtered, searched for, and as TOON.

Owns: the counting, and the JSON of a report. Never imports the gateway, whose meta-tools and
answers come in as values, nor a chat library.

Everything that a way of listing puts into the context is counted: the definitions, the meta-tools
that come with them, and for searching on demand the round trip as well (the model's call and the
answer that stays in the conversation).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Protocol

from armory.domain.query import Query
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord
from armory.errors import InvalidRequest
from armory.llm.client import FirstToken
from armory.llm.tokens import estimate_tokens

Definition = Mapping[str, Any]
ToToon = Callable[[Any], str | None]
WAYS = ("filtered", "filtered_toon", "searched", "searched_toon")
"""The ways of listing tools, besides listing all; members of `QueryCost`."""
_TURN_TOKENS = 8
"""What a chat API adds around a tool call and its result."""


class Search(Protocol):
    """A function that selects tools (`retrieval.retriever.Retriever.search`)."""

    def __call__(self, query: Query) -> Awaitable[Selection]:
        """The selection that a listing shows for this query."""
        ...


@dataclass(frozen=True, slots=True)
class Surfaces:
    """What the gateway adds to the upstreams' definitions, as sent to clients.

    Attributes:
        meta_tools: their definitions in a list that leaves tools out.
        meta_tools_whole: likewise in a list that leaves none out.
        answer: the `structuredContent` of `search_tools` for a selection; None: there is no
            `search_tools`.
        toon: a JSON value as TOON, or None where it cannot be.
        pinned: names of the tools that every list has.
    """

    meta_tools: Sequence[Definition]
    meta_tools_whole: Sequence[Definition]
    answer: Callable[[Selection], Definition] | None
    toon: ToToon
    pinned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QueryCost:
    """The cost of one query. All counts are estimated tokens.

    Attributes:
        query: its text.
        returned: tools found.
        filtered: their definitions, the pinned ones and the meta-tools, as a filtered `tools/list`
            answers; `call_tool` is missing where every tool is listed.
        filtered_toon: the same where the host writes definitions as TOON.
        searched: pinned tools and meta-tools, the call of `search_tools` and its answer; None
            where there is no `search_tools`.
        searched_toon: the same with the answer as TOON.
    """

    query: str
    returned: int
    filtered: int
    filtered_toon: int
    searched: int | None
    searched_toon: int | None


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Times to the first token with the full list and with the selection, query by query."""

    model: str
    full: tuple[FirstToken, ...]
    selected: tuple[FirstToken, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The whole report; counts are estimated tokens.

    Attributes:
        tools: size of the catalog.
        full: every definition, compact JSON.
        full_toon: the same as TOON.
        meta_tools: the meta-tools alone, what a list without a query costs beside pinned tools.
        pinned: the pinned tools alone.
        queries: cost by query.
        ttft: measured times, when asked for.
        by_server: tokens of each upstream's definitions.
    """

    tools: int
    full: int
    full_toon: int
    meta_tools: int
    queries: tuple[QueryCost, ...]
    ttft: FirstTokens | None = None
    by_server: Mapping[str, int] = field(default_factory=dict[str, int])
    pinned: int = 0

    def values(self, way: str) -> list[int] | None:
        """The cost of a way of listing by query; None if it does not exist."""
        costs: list[int | None] = [getattr(cost, way) for cost in self.queries]
        found = [cost for cost in costs if cost is not None]
        return None if len(found) < len(costs) else found

    def saved(self, way: str) -> float:
        """Share of the full list's tokens that a way saves on average; negative: it costs more."""
        values = self.values(way)
        return 1 - fmean(values) / self.full if self.full and values else 0.0

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        report: dict[str, Any] = {
            "tools": self.tools,
            "queries": len(self.queries),
            "tokens": {
                "full": self.full,
                "full_toon": self.full_toon,
                "meta_tools": self.meta_tools,
                "pinned": self.pinned,
                "by_server": dict(self.by_server),
            },
        }
        for way in WAYS:
            values = self.values(way)
            report["tokens"][way] = (
                None
                if values is None
                else {
                    "mean": round(fmean(values), 1) if values else 0.0,
                    "median": float(median(values)) if values else 0.0,
                    "max": max(values, default=0),
                    "saved_share": round(self.saved(way), 4),
                }
            )
        found = [cost.returned for cost in self.queries]
        report["returned_mean"] = round(fmean(found), 2) if found else 0.0
        report["empty_share"] = round(found.count(0) / len(found), 4) if found else 0.0
        if self.ttft is not None:
            report["ttft"] = _ttft_json(self.ttft)
        return report


def compact(value: Any) -> str:
    """A value as the shortest JSON text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def definition_of(tool: ToolRecord) -> dict[str, Any]:
    """A definition as a client receives it: the upstream's, under its exposed name."""
    shown = dict(tool.definition)
    shown["name"] = tool.name
    if tool.description:
        shown["description"] = tool.description
    return shown


async def measure(
    tools: Sequence[ToolRecord],
    queries: Sequence[str],
    search: Search,
    surfaces: Surfaces,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ContextReport:
    """Count the cost of a catalog: as a whole, and by query.

    Args:
        tools: the catalog, indexed where `search` looks.
        queries: what users ask.
        search: a listing's selection.
        surfaces: what the gateway adds.
        on_progress: called with (queries done, queries).

    Raises:
        InvalidRequest: there is no tool or no query.
    """
    if not tools or not queries:
        raise InvalidRequest(
            f"a context report needs tools and queries; there are {len(tools)} tools and "
            f"{len(queries)} queries",
            parameter="queries",
        )
    every = [definition_of(tool) for tool in tools]
    servers: dict[str, int] = {}
    for tool, shown in zip(tools, every, strict=True):
        servers[tool.server] = servers.get(tool.server, 0) + estimate_tokens(compact(shown))
    shown_as = {tool.name: shown for tool, shown in zip(tools, every, strict=True)}
    pinned = [shown_as[tool.name] for tool in tools if tool.name in surfaces.pinned]
    costs: list[QueryCost] = []
    for done, query in enumerate(queries, start=1):
        selection = await search(Query((query,)))
        costs.append(_cost(query, selection, shown_as, surfaces, pinned))
        if on_progress is not None:
            on_progress(done, len(queries))
    return ContextReport(
        tools=len(tools),
        full=estimate_tokens(compact(every)),
        full_toon=_smaller(every, surfaces.toon),
        meta_tools=_tokens(surfaces.meta_tools),
        queries=tuple(costs),
        by_server=servers,
        pinned=_tokens(pinned),
    )


def _cost(
    query: str,
    selection: Selection,
    shown_as: Mapping[str, Definition],
    surfaces: Surfaces,
    pinned: Sequence[Definition],
) -> QueryCost:
    """Tokens of a list that a query filters, and of searching on demand.

    Args:
        query: the query.
        selection: what it finds.
        shown_as: the definition of each tool of the catalog, by name.
        surfaces: what the gateway adds.
        pinned: the definitions of the pinned tools.
    """
    names = {match.tool.name for match in selection.matches} | surfaces.pinned
    listed = [shown for name, shown in shown_as.items() if name in names]
    meta = surfaces.meta_tools if len(listed) < len(shown_as) else surfaces.meta_tools_whole
    listed = [*listed, *map(dict, meta)]
    searched, searched_toon = _searched(query, selection, surfaces, pinned)
    return QueryCost(
        query=query,
        returned=len(selection.matches),
        filtered=estimate_tokens(compact(listed)),
        filtered_toon=_smaller(listed, surfaces.toon),
        searched=searched,
        searched_toon=searched_toon,
    )


def _searched(
    query: str, selection: Selection, surfaces: Surfaces, pinned: Sequence[Definition]
) -> tuple[int, int] | tuple[None, None]:
    """Tokens of searching on demand: the listing, the call and its answer, as JSON or TOON."""
    if surfaces.answer is None:
        return None, None
    listed = [*pinned, *surfaces.meta_tools]
    call = {"name": "search_tools", "arguments": {"query": query}}
    answer = surfaces.answer(selection)
    around = _tokens(listed) + estimate_tokens(compact(call)) + 2 * _TURN_TOKENS
    return (
        around + estimate_tokens(compact(answer)),
        around + _smaller(answer, surfaces.toon),
    )


def _tokens(listed: Sequence[Definition]) -> int:
    """Tokens of definitions alone."""
    return estimate_tokens(compact(list(listed))) if listed else 0


def _smaller(value: Any, toon: ToToon) -> int:
    """Tokens as TOON where that is smaller, else as JSON."""
    plain = estimate_tokens(compact(value))
    encoded = toon(value)
    return plain if encoded is None else min(plain, estimate_tokens(encoded))


def _ttft_json(ttft: FirstTokens) -> dict[str, Any]:
    def side(values: Sequence[FirstToken]) -> dict[str, float]:
        if not values:
            return {}
        return {
            "prompt_tokens_mean": round(fmean(v.prompt_tokens for v in values), 1),
            "seconds_median": round(median(v.seconds for v in values), 4),
            "seconds_max": round(max(v.seconds for v in values), 4),
        }

    report: dict[str, Any] = {
        "model": ttft.model,
        "queries": len(ttft.full),
        "full": side(ttft.full),
        "selected": side(ttft.selected),
    }
    if ttft.problem:
        report["problem"] = ttft.problem
    return report
