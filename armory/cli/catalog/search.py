"""`armory search`: what retrieval finds, with scores and reasons.

Owns: the command and its tables. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import click
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from armory.cli.answers import error_of_result
from armory.cli.catalog.tools import NOT_SEARCHED, first_line
from armory.cli.options import (
    config_option,
    gateway_options,
    json_option,
    loaded_config,
    refuse_blank,
)
from armory.cli.output import counted, out, print_json, say_notice, say_unreached, tell
from armory.domain.query import MAX_TOP_K, Query
from armory.domain.results import Match, Selection
from armory.domain.visibility import VisibleCatalog
from armory.errors import ArmoryError, ConfigError, UnknownTool
from armory.protocol.meta import EXPLAIN, OWN_PREFIX
from armory.retrieval.names import RANKERS


@click.command()
@click.argument("query", nargs=-1, required=True, callback=refuse_blank)
@click.option("-k", "--top-k", type=click.IntRange(1, MAX_TOP_K), help="Show at most this many.")
@click.option("--server", "servers", multiple=True, help="Only tools of this upstream; repeatable.")
@click.option("--threshold", type=click.FloatRange(0, 1), help="Lowest score that is shown.")
@click.option("--ranker", type=click.Choice(RANKERS), help="Default: as configured.")
@click.option("--explain", is_flag=True, help="Show all candidates, and why each is left out.")
@click.option("--agent", is_flag=True, help="Let the retrieval agent search (agent.enabled).")
@click.option(
    "--rejected", multiple=True, help="With --agent: digest of a chunk to leave out; repeatable."
)
@config_option
@gateway_options
@json_option
def search(
    query: tuple[str, ...],
    top_k: int | None,
    servers: tuple[str, ...],
    threshold: float | None,
    ranker: Any,
    explain: bool,
    agent: bool,
    rejected: tuple[str, ...],
    config: str | None,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Search tools. Each QUERY is one intent; quote it if it has several words."""
    if agent:
        _check_agent(servers, threshold, ranker, explain=explain)
        from armory.cli.catalog.agent import Question, ask_agent

        question = Question(" ".join(query), top_k, rejected)
        asyncio.run(ask_agent(question, config, url, token, as_json=as_json))
        return
    if rejected:
        raise ConfigError("--rejected is for --agent, which names the chunks that it saw")
    wanted = Query(
        texts=query,
        threshold=threshold,
        top_k=top_k,
        servers=frozenset(servers) or None,
        ranker=ranker,
    )
    unreached: dict[str, str] = {}
    if url is not None:
        answer = asyncio.run(_there(wanted, url, token, explain=explain))
    else:
        answer, unreached = asyncio.run(_here(wanted, config, explain=explain))
    if as_json:
        print_json(answer)
    else:
        _show(answer, explain=explain)
        if servers and not answer["tools"] and (advice := answer.get("advice")):
            say_notice(advice)  # there may be no such server
    say_unreached(unreached)


def _check_agent(
    servers: tuple[str, ...],
    threshold: float | None,
    ranker: str | None,
    *,
    explain: bool,
) -> None:
    given = {
        "--server": bool(servers),
        "--threshold": threshold is not None,
        "--ranker": ranker is not None,
        "--explain": explain,
    }
    unfit = [name for name, there in given.items() if there]
    if unfit:
        raise ConfigError(f"{', '.join(unfit)} cannot go with --agent; the model decides by itself")


async def _there(query: Query, url: str, token: str | None, *, explain: bool) -> dict[str, Any]:
    arguments: dict[str, Any] = {"query": list(query.texts)}
    if query.top_k is not None:
        arguments["top_k"] = query.top_k
    if query.servers is not None:
        arguments["servers"] = sorted(query.servers)
    meta = {
        OWN_PREFIX + name: value
        for name, value in (("threshold", query.threshold), ("ranker", query.ranker))
        if value is not None
    }
    if explain:
        meta[EXPLAIN] = True
    request = {"name": "search_tools", "arguments": arguments}
    from armory.cli.remote import connected  # as below: each loads only what it needs

    async with connected(url, token) as gateway:
        try:
            result = await gateway.ask("tools/call", request, meta)
        except UnknownTool:
            raise ArmoryError(f"there is no search_tools: {NOT_SEARCHED}") from None
    if result.get("isError") or "structuredContent" not in result:
        raise error_of_result(result, "the gateway offers no search_tools")
    answer: dict[str, Any] = result["structuredContent"]
    if explain and "candidates" not in answer:
        raise ArmoryError(f"the gateway at {url} is of an older version, which cannot explain")
    return answer


async def _here(
    query: Query, config: str | None, *, explain: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """The answer, and the upstreams that are searched and could not be reached."""
    from armory.cli.local import findable, opened, unreached
    from armory.gateway.lists.named import with_named
    from armory.gateway.views.definitions import Form

    loaded = loaded_config(config)
    unknown = sorted((query.servers or frozenset()) - loaded.config.upstreams.keys())
    if unknown:
        there = ", ".join(sorted(loaded.config.upstreams)) or "none"
        raise ConfigError(f"--server {unknown[0]}: no such upstream; there are: {there}")
    async with opened(loaded, searched=True) as runtime:
        if runtime.retriever is None:
            raise ConfigError("is off, so nothing can be searched", path="tool_rag.enabled")
        visible, view = findable(runtime), runtime.gateway.view
        found = await runtime.retriever.search(query, visible, explain=explain)
        form = Form("modern", load=True)  # as `search_tools` of a running gateway finds by names
        selection = with_named(view, form, query, VisibleCatalog(visible), found)
        if selection.degraded is not None:  # who runs the search administers it
            whole = runtime.retriever.degraded or selection.degraded
            selection = replace(selection, degraded=whole)
        return _answer(selection, explain=explain), unreached(runtime, query.servers)


def _answer(selection: Selection, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "tools": [_tool(match) for match in selection.matches],
        "returned": len(selection.matches),
        "visible": selection.visible,
        "threshold": selection.threshold,
        "refused": selection.refused,
        "degraded": selection.degraded,
        "took_ms": round(selection.took_ms, 2),
    }
    if explain:
        answer["candidates"] = selection.candidates()
    return answer


def _tool(match: Match) -> dict[str, Any]:
    return {
        "name": match.tool.name,
        "description": match.tool.description,
        "score": round(match.score, 4),
        "probability": round(match.probability, 4),
        "reason": match.reason,
    }


def _show(answer: dict[str, Any], *, explain: bool) -> None:
    console = out()
    table = Table(box=None, pad_edge=False)
    table.add_column("score", justify="right")
    table.add_column("tool", no_wrap=True, style="bold")
    table.add_column("reason", overflow="fold")
    for tool in answer["tools"]:
        reason = tool.get("reason") or first_line(tool.get("description"))
        table.add_row(f"{tool['score']:.3f}", escape(tool["name"]), escape(reason))
    console.print(table)
    for tool in answer.get("unlikely") or ():
        console.print(f"unlikely: {tool['name']} ({tool['score']:.3f})", markup=False)
    for skill in answer.get("skills") or ():
        console.print(f"skill: {skill['uri']} ({skill['score']:.3f})", markup=False)
    tail = f"\n{answer['returned']} of {counted(answer['visible'], 'tool')}"
    if answer.get("refused"):
        tail += "; the query seems to need no tool"
    console.print(tail)
    if answer.get("degraded"):
        console.print(f"degraded: {answer['degraded']}", markup=False)
    if explain:
        _explain(answer)


def _explain(answer: dict[str, Any]) -> None:
    console = out()
    console.print("\nevery candidate, best first:")
    for tool in answer["candidates"]:
        signals = "  ".join(f"{name} {value:g}" for name, value in tool["signals"].items())
        fate = f"withheld: {tool['withheld']}" if tool["withheld"] else "returned"
        raw = f"raw {tool['raw_score']:g}"
        tell(Text(f"{tool['score']:.3f}  {tool['name']}  ({fate}, {raw})"), hang=7)
        if signals:
            tell(Text(f"       {signals}"), hang=7)
