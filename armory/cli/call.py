"""`armory call`: one tool, once.

Owns: the command and how results are shown. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import click

from armory.cli.asking import Here, asker, opened
from armory.cli.options import config_option, gateway_options, json_option, loaded_config
from armory.cli.output import out, print_json, say_error
from armory.domain.naming import split_name
from armory.errors import UpstreamUnavailable

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
        for block in result.get("content") or []:
            text = block.get("text") if block.get("type") == "text" else None
            out().print(text if text is not None else _brief(block), markup=False, soft_wrap=True)
    if result.get("isError"):
        failure = (result.get("_meta") or {}).get("dev.armory/error") or {}
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
        async with asker(url, token, lambda: loaded_config(config)) as asked:
            return await asked.ask("tools/call", request)
    loaded = loaded_config(config)
    parts = split_name(tool)
    server = parts[0] if parts else ""
    async with opened(loaded, only=server) as runtime:
        found = runtime.supervisor.status().get(server)
        if found is not None and found.state != "ready" and not found.tools:
            raise UpstreamUnavailable(found.error or f"upstream {server!r} did not answer in time")
        return await Here(runtime).ask("tools/call", request)


def _parsed(arguments: str) -> dict[str, Any]:
    text = sys.stdin.read() if arguments == "-" else arguments
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}", param_hint="ARGUMENTS") from None
    if not isinstance(value, dict):
        raise click.BadParameter(
            f"a JSON object is expected, this is {type(value).__name__}; "
            """write e.g. '{"timezone": "UTC"}'""",
            param_hint="ARGUMENTS",
        )
    return cast("dict[str, Any]", value)


def _brief(block: dict[str, Any]) -> str:
    """A block that is no text, its data cut."""
    shown = {
        key: value if len(str(value)) <= 100 else f"{str(value)[:60]}... ({len(str(value))})"
        for key, value in block.items()
    }
    return json.dumps(shown, ensure_ascii=False)
