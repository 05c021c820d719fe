"""`armory call`: calls one tool.

Owns: the command and how results are shown. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection
from typing import Any, cast

import click

from armory.cli.answers import all_tools
from armory.cli.asking import any_gateway
from armory.cli.options import config_option, gateway_options, json_option, loaded_config
from armory.cli.output import out, print_json, say_error
from armory.cli.plain import plain
from armory.config.problems import nearest
from armory.domain.encoding import is_encodable
from armory.domain.naming import split_name
from armory.errors import UnknownTool, UpstreamUnavailable
from armory.protocol.meta import ERROR

_UNREACHABLE = ("upstream_unavailable", "upstream_timeout", "upstream_overloaded")


@click.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
@config_option
@gateway_options
@json_option
def call(
    tool: str, arguments: str, config: str | None, url: str | None, token: str | None, as_json: bool
) -> None:
    """Call TOOL with ARGUMENTS, a JSON object ('-' reads it from standard input)."""
    result = asyncio.run(_call(tool, _parsed(arguments), config, url, token))
    if as_json:
        print_json(result)
    else:
        blocks = result.get("content") or []
        for block in blocks:
            text = block.get("text") if block.get("type") == "text" else None
            _show(text if text is not None else _brief(block))
        if not blocks and "structuredContent" in result:  # all that some servers answer
            _show(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False))
    if result.get("isError"):
        failure = (result.get("_meta") or {}).get(ERROR) or {}
        if not as_json:
            say_error(f"{tool} failed")
        sys.exit(3 if failure.get("code") in _UNREACHABLE else 1)


async def _call(
    tool: str,
    arguments: dict[str, Any],
    config: str | None,
    url: str | None,
    token: str | None,
) -> dict[str, Any]:
    request = {"name": tool, "arguments": arguments}
    if url is not None:
        async with any_gateway(url, token, lambda: loaded_config(config), mode="all") as gateway:
            try:
                return await gateway.ask("tools/call", request)
            except UnknownTool as refused:
                listed, _ = await all_tools(gateway)
                names = [str(found.get("name")) for found in listed]
                raise _unknown(tool, names, refused) from None
    from armory.cli.local import (  # loads a whole gateway: only if one is opened here
        LocalGateway,
        opened,
    )

    loaded = loaded_config(config)
    parts = split_name(tool)
    server = parts[0] if parts else ""
    async with opened(loaded, only=server) as runtime:
        found = runtime.supervisor.status().get(server)
        if found is not None and found.state != "ready" and not found.tools:
            raise UpstreamUnavailable(found.error or f"upstream {server!r} did not answer in time")
        try:
            return await LocalGateway(runtime).ask("tools/call", request)
        except UnknownTool as refused:
            raise _unknown(tool, runtime.gateway.view.catalog.tools, refused) from None


def _unknown(tool: str, known: Collection[str], refused: UnknownTool) -> UnknownTool:
    if tool in known:
        return UnknownTool(f"{tool!r} is listed, but its server does not know it: {refused}")
    near = nearest(tool, known)
    hint = f"; did you mean {near!r}?" if near else "."
    return UnknownTool(f"no tool is called {tool!r}{hint} `armory tools` lists all")


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if arguments == "-" else arguments
    except UnicodeDecodeError:
        raise _no_object("-", "is not UTF-8 text") from None
    if not is_encodable(text):
        raise _no_object(text, "is not UTF-8 text")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_object(text, f"is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise _no_object(text, "is JSON, and not an object")
    return cast("dict[str, Any]", value)


def _no_object(text: str, what: str) -> click.BadParameter:
    shown = text.strip() if len(text) <= 80 else f"{text[:77].strip()}..."
    return click.BadParameter(
        f"{shown!r} {what}; a JSON object is expected, in quotes of the shell: "
        """'{"timezone": "UTC"}'""",
        param_hint="ARGUMENTS",
    )


def _show(text: str) -> None:
    """As it is where a program reads it, without what a terminal would obey where a person does."""
    if out().is_terminal:
        text = plain(text)
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")


def _brief(block: dict[str, Any]) -> str:
    """A block that is no text, its data cut."""
    shown = {
        key: value if len(str(value)) <= 100 else f"{str(value)[:60]}... ({len(str(value))})"
        for key, value in block.items()
    }
    return json.dumps(shown, ensure_ascii=False)
