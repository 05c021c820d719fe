"""`armory report`: counts what the catalog costs in a prompt, and what filtering saves.

Owns: the command, its table, and where tools and queries come from. `evaluation.context` counts,
`evaluation.plot` draws.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from armory.cli.local import findable, opened, tools_of
from armory.cli.options import config_option, json_option, loaded_config
from armory.cli.output import EMBEDDING, out, print_json, say_notice, say_unreached, waiting
from armory.config import Loaded, load_text
from armory.config.model import AgentConfig
from armory.domain.catalog import ServerLists
from armory.domain.query import MAX_QUERY_CHARS
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord
from armory.errors import BackendError, ConfigError
from armory.evaluation.context import (
    ContextReport,
    Definition,
    FirstTokens,
    Search,
    Surfaces,
    measure,
)
from armory.evaluation.dataset import load_dataset
from armory.evaluation.first_token import first_tokens
from armory.evaluation.plot import svg
from armory.gateway.metatools.answers import about_servers, found_structure
from armory.gateway.metatools.definitions import (
    call_definition,
    find_definition,
    search_definition,
    searching_tool,
)
from armory.gateway.results.toon import encode_value
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.definitions import ui_meta
from armory.llm.client import ChatClient
from armory.retrieval.indexing.document import template_queries
from armory.runtime.retrieval import open_retriever
from armory.runtime.settings import gateway_settings

_OWN_QUERIES = 200
_COUNTING = "counting tokens of queries"
_TIMING = "timing queries"
_LABELS = {
    "filtered": "filtered list + meta-tools",
    "filtered_toon": "the same, definitions as TOON",
    "searched": "meta-tools + one search_tools round trip",
    "searched_toon": "the same, answer as TOON",
}


@dataclass(frozen=True, slots=True)
class _Subject:
    """The catalog to report on, where to search it, and queries that came with it."""

    tools: Sequence[ToolRecord]
    servers: dict[str, ServerLists]
    search: Search
    queries: tuple[str, ...] = ()
    unreached: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Timing:
    """What `--ttft` measures with.

    Attributes:
        base_url: of the chat API; None: that of `agent`, with its key.
        model: None: that of `agent`.
        queries: how many are timed.
    """

    base_url: str | None
    model: str | None
    queries: int

    def client(self, agent: AgentConfig) -> ChatClient:
        """The client of the API; to be opened."""
        key = agent.api_key if self.base_url is None else None
        return ChatClient(
            self.base_url or agent.base_url,
            self.model or agent.model,
            api_key=key.get_secret_value() if key else None,
            timeout_s=600,
        )


def _answer(subject: _Subject, counts: Mapping[str, int], selection: Selection) -> dict[str, Any]:
    """The answer of `search_tools` where everybody may call everything."""
    return found_structure(selection, lambda: about_servers(subject.servers, counts), ui_meta)


def _surfaces(subject: _Subject, settings: GatewaySettings) -> Surfaces:
    """What a gateway with these settings lists and answers beside the catalog."""
    counts = Counter(tool.server for tool in subject.tools)
    return Surfaces(
        meta_tools=_meta_tools(subject, settings, cut=True),
        meta_tools_whole=_meta_tools(subject, settings, cut=False),
        answer=partial(_answer, subject, counts) if settings.search_tools else None,
        toon=encode_value,
        pinned=frozenset(tool.name for tool in subject.tools if settings.pins(tool)),
    )


def _meta_tools(subject: _Subject, settings: GatewaySettings, *, cut: bool) -> list[Definition]:
    """The meta-tools of a list; `cut`: of one that leaves tools out."""
    with_call = settings.call_tool and cut
    definitions: list[Definition] = []
    limits = {"chars": settings.query_chars, "top_k": settings.query_top_k}
    if settings.search_tools:
        definitions.append(search_definition(subject.servers, call_tool=with_call, **limits))
    if settings.find_tools:
        definitions.append(find_definition(search_tools=settings.search_tools, **limits))
    if with_call:
        definitions.append(call_definition(searching_tool(settings)))
    return definitions


@click.command()
@config_option
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Report on this data set (tools.jsonl, queries.jsonl), not on the upstreams.",
)
@click.option(
    "--queries",
    "queries_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="One query a line; without it, queries made from the tools.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_OWN_QUERIES,
    show_default=True,
    help="Use at most this many queries.",
)
@click.option(
    "--svg",
    "svg_file",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Draw the figures into this file.",
)
@click.option(
    "--ttft",
    is_flag=True,
    help="Measure the time to a model's first token with and without filtering.",
)
@click.option(
    "--base-url", metavar="URL", help="OpenAI-compatible API for --ttft; default: agent.base_url."
)
@click.option("--model", metavar="NAME", help="Its model; default: agent.model.")
@click.option(
    "--ttft-queries",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Queries to measure with.",
)
@json_option
def report(
    config: str | None,
    data: str | None,
    queries_file: str | None,
    limit: int,
    svg_file: str | None,
    ttft: bool,
    base_url: str | None,
    model: str | None,
    ttft_queries: int,
    as_json: bool,
) -> None:
    """Count the tokens of tool definitions: all, filtered by queries, searched for, as TOON."""
    timing = _Timing(base_url, model, ttft_queries) if ttft else None
    measured, unreached = asyncio.run(_report(config, data, queries_file, limit, timing))
    if svg_file is not None:
        Path(svg_file).write_text(svg(measured), encoding="utf-8")
    if as_json:
        print_json(measured.to_json())
    else:
        _show(measured)
    say_unreached(unreached)


async def _report(
    config: str | None,
    data: str | None,
    queries_file: str | None,
    limit: int,
    timing: _Timing | None,
) -> tuple[ContextReport, Mapping[str, str]]:
    """The report, and why each upstream that it lacks could not be reached."""
    loaded = load_text("") if data is not None and config is None else loaded_config(config)
    async with _subject(loaded, data) as subject:
        queries = _queries(subject, queries_file, limit)
        surfaces = _surfaces(subject, gateway_settings(loaded.config))
        with waiting(_COUNTING) as shown:
            measured = await measure(
                subject.tools,
                queries,
                subject.search,
                surfaces,
                on_progress=shown.counting(_COUNTING),
            )
        if timing is not None:
            async with timing.client(loaded.config.agent) as client:
                times = await _first_tokens(
                    client, subject, queries[: timing.queries], surfaces.pinned
                )
            measured = replace(measured, ttft=times)
    return measured, subject.unreached


async def _first_tokens(
    client: ChatClient, subject: _Subject, queries: Sequence[str], pinned: frozenset[str]
) -> FirstTokens:
    """Time to the first token; a notice says why not every query was timed.

    Raises:
        BackendError: no query could be timed.
    """
    with waiting(_TIMING) as shown:
        times = await first_tokens(
            client,
            client.model,
            subject.tools,
            queries,
            subject.search,
            pinned=pinned,
            on_progress=shown.counting(_TIMING),
        )
    if times.problem and not times.full:
        raise BackendError(f"--ttft measured nothing: {times.problem}")
    if times.problem:
        say_notice(f"--ttft ended early: {times.problem}")
    return times


@asynccontextmanager
async def _subject(loaded: Loaded, data: str | None) -> AsyncGenerator[_Subject]:
    """The catalog of the upstreams, or of a data set."""
    if data is None:
        async with opened(loaded, searched=True) as runtime:
            if runtime.retriever is None:
                raise ConfigError("is off; a report needs it", path="tool_rag.enabled")
            tools, lacking = tools_of(runtime)
            servers = dict(runtime.gateway.view.catalog.servers)
            search = partial(runtime.retriever.search, visible=findable(runtime))
            yield _Subject(tools, servers, search, unreached=lacking)
        return
    dataset = load_dataset(data)
    by_server: dict[str, list[Any]] = {}
    for tool in dataset.tools:
        by_server.setdefault(tool.server or "data", []).append(tool.definition)
    servers = {key: ServerLists(tools=tools) for key, tools in by_server.items()}
    with waiting(EMBEDDING) as shown:
        retriever = open_retriever(loaded, on_progress=shown.counting(EMBEDDING))
        if retriever is None:
            raise ConfigError("is off; a report needs it", path="tool_rag.enabled")
        async with retriever:
            await retriever.index(dataset.tools)
            queries = tuple(query.text for query in dataset.queries)
            yield _Subject(dataset.tools, servers, retriever.search, queries)


def _queries(subject: _Subject, queries_file: str | None, limit: int) -> list[str]:
    """At most `limit` queries, evenly spread over those of the file, the data set or the tools.

    Raises:
        ConfigError: the file is no UTF-8, or empty.
    """
    if queries_file is not None:
        try:
            lines = Path(queries_file).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{queries_file} is not UTF-8: {error}") from error
        queries = [line.strip() for line in lines if line.strip()]
        if not queries:
            raise ConfigError(f"{queries_file} has no query; write one a line")
    elif subject.queries:
        queries = list(subject.queries)
    else:
        say_notice("no --queries: using queries made from the tools' own descriptions")
        queries = [template_queries(tool)[0] for tool in subject.tools]
    step = max(1, -(-len(queries) // limit))
    return [query[:MAX_QUERY_CHARS] for query in queries[::step][:limit]]


def _show(report: ContextReport) -> None:
    console = out()
    console.print(f"{report.tools} tools, {len(report.queries)} queries; estimated tokens\n")
    table = Table(box=None, pad_edge=False)
    table.add_column("in the prompt")
    for name in ("mean", "median", "max", "saved"):
        table.add_column(name, justify="right")
    figures = report.to_json()
    tokens: dict[str, Any] = figures["tokens"]
    table.add_row("every tool", f"{report.full:,}", "", "", "")
    table.add_row(
        "every tool, as TOON", f"{report.full_toon:,}", "", "", _share(report.full_toon, report)
    )
    for label, value in (("meta-tools", report.meta_tools), ("pinned tools", report.pinned)):
        if value:
            table.add_row(f"{label} alone", f"{value:,}", "", "", _share(value, report))
    for way, label in _LABELS.items():
        row = tokens[way]
        if row is None:
            continue
        table.add_row(
            label,
            f"{row['mean']:,.0f}",
            f"{row['median']:,.0f}",
            f"{row['max']:,}",
            f"{row['saved_share']:.1%}",
        )
    console.print(table)
    empty = f"{figures['empty_share']:.0%} of queries get none"
    console.print(f"\n{figures['returned_mean']} tools a query; {empty}")
    times = figures.get("ttft")
    if times and times["queries"]:
        console.print(
            f"time to first token of {times['model']} (median of {times['queries']}): "
            f"{times['full']['seconds_median']:.2f} s with every tool, "
            f"{times['selected']['seconds_median']:.2f} s with the selection"
        )


def _share(value: int, report: ContextReport) -> str:
    return f"{1 - value / report.full:.1%}" if report.full else ""
