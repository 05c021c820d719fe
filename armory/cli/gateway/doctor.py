"""`armory doctor`: finds what is wrong with an installation, and says what to do about it.

Owns: the command and its report. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.markup import escape
from rich.text import Text

from armory.cli.options import config_option, json_option
from armory.cli.output import print_json, tell, waiting
from armory.config import find_config
from armory.errors import ConfigError

_MARKS = {"ok": "[green]ok[/]     ", "warning": "[yellow]warning[/]", "failed": "[red]failed[/] "}


@click.command()
@click.option(
    "--bundle",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write an archive for a bug report, without secrets.",
)
@click.option(
    "--timeout",
    "upstream_s",
    type=click.FloatRange(1.0),
    default=60.0,
    show_default=True,
    help="Seconds that one upstream may take to start and list its tools.",
)
@config_option
@json_option
def doctor(bundle: Path | None, upstream_s: float, config: str | None, as_json: bool) -> None:
    """Check everything that a gateway needs, and say for each what to do.

    Connects to upstreams, database, Redis and embedder; opens no port, calls no tool. Exits with 1
    if something is wrong.
    """
    from armory.runtime.doctor.bundle import write_bundle
    from armory.runtime.doctor.examination import configuration, examined
    from armory.runtime.doctor.findings import failed

    try:
        path = find_config(config)
    except ConfigError as error:
        findings = [failed("configuration", error.message, "`armory init` writes one")]
        path = None
    else:
        with waiting("examining the set-up") as shown:
            counted = shown.counting("asking upstreams")
            findings = asyncio.run(examined(path, upstream_s=upstream_s, on_progress=counted))
    written: list[str] = []
    if bundle is not None:
        loaded = None if path is None else configuration(path)[0]
        written = write_bundle(bundle, findings, loaded)
    any_failed = any(finding.state == "failed" for finding in findings)
    if as_json:
        report: dict[str, object] = {
            "ok": not any_failed,
            "findings": [asdict(finding) for finding in findings],
        }
        if bundle is not None:
            report["bundle"] = {"file": str(bundle), "holds": written}
        print_json(report)
    else:
        for finding in findings:
            text = f"{_MARKS[finding.state]}  {escape(finding.check)}: {escape(finding.detail)}"
            tell(Text.from_markup(text), hang=9)
            if finding.fix:
                tell(f"           {finding.fix}", hang=11)
        if bundle is not None:
            tell(f"{bundle} holds {', '.join(written)}")
    if any_failed:
        sys.exit(1)
