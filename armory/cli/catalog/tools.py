"""`armory tools`: lists the tools that a client would see.

Owns: the command and its table. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from armory.cli.answers import all_tools
from armory.cli.asking import any_gateway
from armory.cli.options import (
    config_option,
    gateway_options,
    json_option,
    loaded_config,
    refuse_blank,
)
from armory.cli.output import counted, out, print_json, say_notice, say_unreached
from armory.protocol.meta import QUERY

NOT_SEARCHED = (
    "tool_rag is off there, or this is the endpoint of one server; /mcp and /mcp/set/NAME take "
    "queries"
)


@click.command()
@click.option(
    "-q",
    "--query",
    multiple=True,
    callback=refuse_blank,
    help="Only the tools that fit this; repeatable.",
)
@config_option
@gateway_options
@json_option
def tools(
    query: tuple[str, ...], config: str | None, url: str | None, token: str | None, as_json: bool
) -> None:
    """List tools: all of them, or those that fit a query."""
    found, selection, unreached = asyncio.run(_tools(query, config, url, token))
    if as_json:
        print_json({"tools": found, **({"selection": selection} if selection else {})})
    else:
        _show(found, selection)
    if query and not selection:
        say_notice(f"the query was not searched: {NOT_SEARCHED}")
    say_unreached(unreached)


def _show(found: list[dict[str, Any]], selection: dict[str, Any]) -> None:
    console = out()
    table = Table(box=None, pad_edge=False)
    table.add_column("tool", no_wrap=True, style="bold")
    table.add_column("description", no_wrap=True, overflow="ellipsis")
    longest = max((len(tool.get("name", "")) for tool in found), default=0)
    room = max(20, console.width - longest - 2)
    for tool in found:
        text = first_line(tool.get("description"))
        shown = text if len(text) <= room else text[: room - 1] + "\u2026"
        table.add_row(escape(str(tool.get("name", ""))), escape(shown))
    console.print(table)
    if selection:
        console.print(
            f"\n{selection.get('returned')} of {counted(selection.get('visible', 0), 'tool')}, "
            f"threshold {selection.get('threshold')}"
        )
        if selection.get("degraded"):
            console.print(f"degraded: {selection['degraded']}", markup=False)


async def _tools(
    query: tuple[str, ...], config: str | None, url: str | None, token: str | None
) -> tuple[list[dict[str, Any]], dict[str, Any], Mapping[str, str]]:
    mode = None if query else "all"
    load = partial(loaded_config, config)
    async with any_gateway(url, token, load, mode=mode, searched=bool(query)) as gateway:
        found, selection = await all_tools(gateway, {QUERY: list(query)} if query else None)
        return found, selection, gateway.unreached()


def first_line(text: Any) -> str:
    """The first line of a description that says something."""
    lines = text.splitlines() if isinstance(text, str) else []
    return next((line.strip() for line in lines if line.strip()), "")
