"""`armory logs`: what a server wrote to standard error.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

import sys
from urllib.parse import quote

import click

from armory.cli.gateway.running import gateways
from armory.cli.options import json_option, running_options
from armory.cli.output import print_json, say_notice
from armory.cli.plain import plain
from armory.config.problems import nearest
from armory.errors import UnknownTool


@click.command()
@click.argument("name")
@click.option("--lines", type=click.IntRange(1), help="Only the last N lines; default: all.")
@running_options
@json_option
def logs(name: str, lines: int | None, url: str | None, token: str | None, as_json: bool) -> None:
    """What the server NAME wrote to standard error: the last 64 KiB, without secrets.

    Asks the gateways that run on this machine, or the one at --url with a token that has the scope
    `admin`.
    """
    found = gateways(url, token)
    for gateway in found:
        try:
            answer = gateway.get(f"/v1/upstreams/{quote(name, safe='')}/logs")
        except UnknownTool:
            continue
        kept: list[str] = answer.get("lines", [])
        shown = kept if lines is None else kept[-lines:]
        if as_json:
            print_json({"server": name, "process": answer.get("process"), "lines": shown})
        else:
            sys.stdout.writelines(f"{plain(line)}\n" for line in shown)
            if not kept:
                say_notice(f"{name!r} has written nothing to standard error")
        return
    names = sorted(
        {key for gateway in found for key in _upstreams(gateway.get("/readyz", also=(503,)))}
    )
    guess = nearest(name, names)
    hint = f"did you mean {guess!r}?" if guess else f"there are: {', '.join(names) or 'none'}"
    raise UnknownTool(f"no upstream is called {name!r}; {hint}")


def _upstreams(body: dict[str, object]) -> list[str]:
    found = body.get("upstreams")
    return [str(key) for key in found] if isinstance(found, dict) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
