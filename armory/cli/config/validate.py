"""`armory validate`: reports every problem at once; with `--connect` it also tries what the
configuration names.

Owns: the command and its report. Never imports a web framework.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from armory.cli.options import config_option, json_option
from armory.cli.output import (
    CONNECTING,
    counted,
    print_json,
    say_error,
    say_notice,
    tell,
    waiting,
)
from armory.config import ConfigProblems, Loaded, Problem, find_config, warnings_of
from armory.config.embedding import lacks_openai_key
from armory.observability.redaction import redacted
from armory.runtime.checking import checked

if TYPE_CHECKING:
    from armory.runtime.doctor.findings import Finding


@click.command()
@click.option(
    "--connect",
    is_flag=True,
    help="Also try what it names: upstreams, database, Redis, embedder, vector index and more.",
)
@config_option
@json_option
def validate(connect: bool, config: str | None, as_json: bool) -> None:
    """Check the configuration and print every problem at once, each with its path."""
    path = find_config(config)
    loaded: Loaded | None = None
    wrong: ConfigProblems | None = None
    try:
        loaded = checked(path)
    except ConfigProblems as error:
        wrong = error
    report: dict[str, Any] = {
        "file": str(path),
        "ok": wrong is None,
        "problems": [] if wrong is None else wrong.as_json(),
        "notices": [*loaded.notices, *warnings_of(loaded.config)] if loaded else [],
    }
    code = 0 if wrong is None else 2
    if connect and loaded is not None:
        import asyncio  # the usual check has nothing to wait for

        tried = asyncio.run(_connect(loaded))
        report["notices"] += tried.pop("notices")
        report |= tried
        failed = any(one["state"] == "failed" for one in [report["index"], *report["services"]])
        if failed or not all(one["up"] for one in report["upstreams"].values()):
            report["ok"], code = False, 3
    if as_json:
        print_json(report)
    else:
        _show(report, wrong.problems if wrong else (), loaded)
    sys.exit(code)


async def _connect(loaded: Loaded) -> dict[str, Any]:
    """How the upstreams are, by key, the vector index, and whatever else a gateway leans on."""
    import asyncio

    from armory.runtime.catalog.unmatched import unmatched_names
    from armory.runtime.doctor.services import services
    from armory.runtime.opening import open_runtime  # a whole gateway: only to connect

    with waiting(CONNECTING) as shown:
        async with open_runtime(loaded, trusted=True) as runtime:
            _, asked = await asyncio.gather(
                runtime.supervisor.wait_first(None, shown.counting(CONNECTING)),
                services(loaded, runtime.retriever),
            )
            await runtime.ready()
            status = runtime.supervisor.status()
            unmatched = unmatched_names(loaded.config, runtime.gateway.view.catalog)
    problem = next((one.detail for one in asked if one.check == "index" and one.fix), "")
    examined = {"index", "embedder"} if lacks_openai_key(loaded.config) else {"index"}
    return {
        "notices": unmatched,
        "upstreams": {
            key: {
                "state": found.state,
                "up": found.up,
                "error": found.error,
                "protocol_version": found.protocol_version,
                "tools": found.tools,
                "dropped_count": found.dropped_count,
                "dropped": [asdict(dropped) for dropped in found.dropped],
            }
            for key, found in status.items()
        },
        "index": {
            "name": loaded.config.tool_rag.index,
            "state": "failed" if problem else "ready",
            "error": problem,
        },
        "services": [_as_json(one) for one in asked if one.check not in examined],
    }


def _as_json(found: Finding) -> dict[str, str]:
    return {key: redacted(value) for key, value in asdict(found).items()}


def _show(report: dict[str, Any], problems: Sequence[Problem], loaded: Loaded | None) -> None:
    for line in report["notices"]:
        say_notice(line)
    if problems:
        say_error(f"{report['file']}: {counted(len(problems), 'problem')}")
        for problem in problems:
            tell(f"  {problem}", hang=4)
        return
    assert loaded is not None
    if "upstreams" in report:
        _show_tried(report)
    blocks = loaded.config.upstreams
    away = sum(not found["up"] for found in report.get("upstreams", {}).values())
    off = [key for key, block in blocks.items() if not block.enabled]
    also = f", {away} not ready" if away else ""
    also += f", switched off: {', '.join(off)}" if off else ""
    tell(f"{report['file']} is valid: {counted(len(blocks), 'upstream')}{also}")


def _show_tried(report: dict[str, Any]) -> None:
    from rich.text import Text

    names = [*report["upstreams"], *(one["check"] for one in report["services"])]
    width = max(map(len, names), default=0)
    for key, found in report["upstreams"].items():
        ready = found["state"] == "ready"
        color = "green" if ready else "yellow" if found["up"] else "red"
        row = Text(f"{key:{width}}  ").append(found["state"], color)
        tools = counted(found["tools"], "tool")
        tell(row.append(f"  {found['protocol_version']}  {tools}" * ready))
        if error := found["error"].removeprefix(f"upstream {key!r}").lstrip(": "):
            tell(f"    {error}", hang=4)
        for left in found["dropped"]:
            tell(f"    left out of {left['list']}: {left['entry']}: {left['reason']}", hang=4)
    for one in report["services"]:
        color = {"ok": "green", "failed": "red"}.get(one["state"], "yellow")
        row = Text(f"{one['check']:{width}}  ").append(one["state"], color)
        tell(row.append(f"  {one['detail']}"), hang=width + 2)
        if one["fix"]:
            tell(f"    {one['fix']}", hang=4)
    if error := report["index"]["error"]:
        say_error(f"tool_rag.index: {error}")
