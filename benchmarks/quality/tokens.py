"""Tokens of whole tasks in the four ways that a client can come to its tools.

    python -m benchmarks.quality.tokens DATA [--set livemcpbench] \
        --out benchmarks/quality/tokens.json

Owns: the counting of a task's requests and its JSON; `benchmarks.tables` writes the table. No
model takes part: every way asks once, with the task's own text, then calls the tools that the
task's label names, one a request, and answers. A request carries everything before it, so
definitions count as often as they are sent; nothing is cached. Counted are definitions, tools for
searching and calling, the task, the calls' names and what a search answers; arguments and results
of the tools are the same in every way and left out. A tool that a way did not bring is called all
the same: the share of the wanted tools in context stands beside the tokens. Tokens are those of
`armory.llm.tokens`, within 4 % of `o200k_base` over a catalog.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from armory.domain.catalog import ServerLists
from armory.domain.query import Query
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord
from armory.evaluation.context import compact, definition_of
from armory.evaluation.dataset import Dataset, LabelledQuery, load_dataset
from armory.gateway.metatools.answers import found_structure
from armory.gateway.metatools.definitions import call_definition, search_definition
from armory.llm.tokens import estimate_tokens
from armory.retrieval.registry import RetrievalOptions, build_retriever
from armory.retrieval.retriever import Retriever
from benchmarks.quality.made import made, sha256

#: What a chat API adds around a call and its result.
TURN = 8
#: A client's own search tool; no vendor says what its own costs, so this is a plain one.
CLIENT_SEARCH = {
    "name": "tool_search",
    "description": "Search the deferred tools by keywords; those found can be called afterwards.",
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Keywords."},
            "limit": {"type": "integer", "description": "Most tools to load, default 5."},
        },
        "required": ["query"],
    },
}
#: What such a search loads at most: the Messages API says three to five.
LOADED = 5
FULL, NAMED, BARE = "full list", "client's deferral, names listed", "client's deferral"
SEARCHED, QUERIED = "`search_tools` and `call_tool`", "query in `tools/list`"
WAYS = (FULL, BARE, NAMED, SEARCHED, QUERIED)


@dataclass(frozen=True)
class Catalog:
    """What stands in every request, in tokens, and where to look for the rest."""

    dataset: Dataset
    retriever: Retriever
    full: int
    names: int
    client_search: int
    meta: int


@dataclass(frozen=True)
class Cost:
    """One task in one way.

    Attributes:
        management: tokens of a request that are tools for searching and calling, or listed names.
        context: tokens of the last request.
        sent: tokens of all requests.
        requests: how many there are.
        found: share of the wanted tools that were in context.
    """

    management: int
    context: int
    sent: int
    requests: int
    found: float


def tokens(value: Any) -> int:
    """Of a value as compact JSON."""
    return estimate_tokens(compact(value))


def definitions(tools: Sequence[ToolRecord]) -> int:
    """Tokens of a list of tools."""
    return tokens([definition_of(tool) for tool in tools]) if tools else 0


def cost(standing: int, management: int, said: Sequence[int], found: float) -> Cost:
    """A conversation in which each request carries all before it.

    Args:
        standing: tokens that every request starts with, `management` among them.
        management: see `Cost`.
        said: tokens that are new in each request.
        found: see `Cost`.
    """
    sizes = [standing + sum(said[: i + 1]) for i in range(len(said))]
    return Cost(management, sizes[-1], sum(sizes), len(sizes), found)


def call(name: str) -> int:
    """A call by a tool's own name, arguments and result left out."""
    return tokens({"name": name, "arguments": {}}) + 2 * TURN


def wrapped(name: str) -> int:
    """The same through `call_tool`."""
    arguments = {"name": name, "arguments": {}}
    return tokens({"name": "call_tool", "arguments": arguments}) + 2 * TURN


async def costs(catalog: Catalog, task: LabelledQuery, answer: Any) -> dict[str, Cost]:
    """One task in every way.

    Args:
        catalog: the tools.
        task: its text and the tools it wants.
        answer: gives the `structuredContent` of `search_tools` for a selection.
    """
    selected = await catalog.retriever.search(Query((task.text,)))
    words = await catalog.retriever.search(
        Query((task.text,), ranker="lexical", top_k=LOADED, threshold=0.0)
    )
    asked, wanted = estimate_tokens(task.text) + TURN, sorted(task.relevant)
    calls, through = [call(name) for name in wanted], [wrapped(name) for name in wanted]
    query = {"query": task.text}
    loaded = definitions([match.tool for match in words.matches])
    own = tokens({"name": "tool_search", "arguments": query}) + 2 * TURN + loaded
    search = tokens({"name": "search_tools", "arguments": query}) + 2 * TURN
    listed = definitions([match.tool for match in selected.matches])
    share = _share(selected, task)
    by_words = _share(words, task)
    bare, named = catalog.client_search, catalog.client_search + catalog.names
    return {
        FULL: cost(catalog.full, 0, [asked, *calls], 1.0),
        BARE: cost(bare, bare, [asked, own, *calls], by_words),
        NAMED: cost(named, named, [asked, own, *calls], by_words),
        SEARCHED: cost(
            catalog.meta,
            catalog.meta,
            [asked, search + tokens(answer(selected)), *through],
            share,
        ),
        QUERIED: cost(catalog.meta + listed, catalog.meta, [asked, *calls], share),
    }


def _share(found: Selection, task: LabelledQuery) -> float:
    return sum(match.tool.name in task.relevant for match in found.matches) / len(task.relevant)


def summary(rows: Sequence[Mapping[str, Cost]]) -> list[dict[str, Any]]:
    """Means over the tasks, one row a way."""
    told: list[dict[str, Any]] = []
    for way in WAYS:
        of = [row[way] for row in rows]
        told.append(
            {
                "way": way,
                "management": round(fmean(c.management for c in of)),
                "context": round(fmean(c.context for c in of)),
                "sent": round(fmean(c.sent for c in of)),
                "sent_median": round(median(c.sent for c in of)),
                "requests": round(fmean(c.requests for c in of), 1),
                "found": round(100 * fmean(c.found for c in of), 1),
            }
        )
    return told


async def run(dataset: Dataset) -> list[dict[str, Any]]:
    """Every task in every way, with what ships."""
    by_server: dict[str, list[Any]] = {}
    for tool in dataset.tools:
        by_server.setdefault(tool.server or "data", []).append(tool.definition)
    servers = {key: ServerLists(tools=tools) for key, tools in by_server.items()}
    sizes = [{"name": name, "tools": n} for name, n in Counter(_servers(dataset)).items()]
    meta = [search_definition(servers, call_tool=True), call_definition()]
    async with build_retriever(RetrievalOptions()) as retriever:
        await retriever.index(dataset.tools)
        catalog = Catalog(
            dataset,
            retriever,
            full=definitions(dataset.tools),
            names=estimate_tokens("\n".join(tool.name for tool in dataset.tools)),
            client_search=tokens(CLIENT_SEARCH),
            meta=tokens(meta),
        )

        def answer(found: Selection) -> dict[str, Any]:
            return found_structure(found, lambda: (sizes[:40], max(0, len(sizes) - 40)), _plain)

        tasks = [task for task in dataset.queries if task.relevant]
        return summary([await costs(catalog, task, answer) for task in tasks])


def _servers(dataset: Dataset) -> list[str]:
    return [tool.server or "data" for tool in dataset.tools]


def _plain(_: ToolRecord) -> dict[str, Any]:
    return {}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Tokens of whole tasks in four ways.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", default="livemcpbench")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    folder = args.data / args.set
    dataset = load_dataset(folder)
    rows = asyncio.run(run(dataset))
    found = {
        "made": made(),
        "set": args.set,
        "tools": len(dataset.tools),
        "servers": len(set(_servers(dataset))),
        "tasks": sum(bool(task.relevant) for task in dataset.queries),
        "tokens": "armory.llm.tokens.estimate_tokens",
        "sha256": {name: sha256(folder / name) for name in ("tools.jsonl", "queries.jsonl")},
        "loaded": LOADED,
        "rows": rows,
    }
    for row in rows:
        print(row)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
