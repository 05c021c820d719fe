"""`armory reload`: lets a running gateway read its configuration again.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from armory.cli.gateway.running import Gateway, gateways
from armory.cli.options import json_option, running_options
from armory.cli.output import print_json

_WORDS = (
    ("applied", "in force now", "would be in force"),
    ("kept", "kept, with processes and sessions", "would be kept, with processes and sessions"),
    ("restarted", "restarted", "would be restarted"),
    ("added", "added", "would be added"),
    ("removed", "removed", "would be removed"),
    ("needs_restart", "takes a restart of the gateway", "takes a restart of the gateway"),
)


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would become of it.")
@running_options
@json_option
def reload(
    file: Path | None, dry_run: bool, url: str | None, token: str | None, as_json: bool
) -> None:
    """Make a gateway read its configuration again: unchanged upstreams keep running.

    Asks the gateways that run on this machine, or the one at --url with a token that has the scope
    `admin`. With --dry-run FILE, says what would change if the configuration became that file.
    Rarely needed: a gateway notices a saved file by itself, within two seconds.
    """
    if file is not None and not dry_run:
        raise click.UsageError(f"a gateway reads its own file; --dry-run says what {file} would do")
    asked = gateways(url, token)
    if file is None:
        path = f"/v1/reload?dry_run={str(dry_run).lower()}"
        effects = [gateway.get(path, method="POST") for gateway in asked]
    else:
        from armory.config.load import read_file  # with all models: only where it is needed

        text = read_file(file)
        effects = [_tried(gateway, text, file) for gateway in asked]
    found = [{"url": gateway.url, **done} for gateway, done in zip(asked, effects, strict=True)]
    if as_json:
        print_json({"gateways": found})
        return
    for answer in found:
        _show(answer, dry_run=dry_run)


def _tried(gateway: Gateway, text: str, file: Path) -> dict[str, Any]:
    """What a reload would do if this were the gateway's file.

    Raises:
        ConfigProblems: it does not hold.
    """
    tag = gateway.get("/v1/configuration")["tag"]
    sent = {"text": text, "effects": True}
    found = gateway.get("/v1/configuration/check", method="POST", sent=sent, tag=tag)
    if found["problems"]:
        from armory.config import ConfigProblems, Problem

        raise ConfigProblems([Problem(**problem) for problem in found["problems"]], str(file))
    return found["effects"]


def _show(answer: dict[str, Any], *, dry_run: bool) -> None:
    print(answer["url"])
    if not any(answer[key] for key in ("applied", "needs_restart", "added", "removed")):
        print("  the configuration is as it was")  # approvals, say, were read anew
        return
    for key, done, planned in _WORDS:
        if answer[key]:
            print(f"  {planned if dry_run else done}: {', '.join(answer[key])}")
