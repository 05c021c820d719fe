"""`armory reload`: have a gateway that runs read its configuration again.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

from typing import Any

import click

from armory.cli.gateway.running import gateways
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
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would become of it.")
@running_options
@json_option
def reload(dry_run: bool, url: str | None, token: str | None, as_json: bool) -> None:
    """Have a gateway read its configuration again: upstreams that did not change keep running.

    Asks the gateways that run on this machine, or the one at --url with a token that has the scope
    `admin`.
    """
    path = f"/v1/reload?dry_run={str(dry_run).lower()}"
    found = [
        {"url": gateway.url, **gateway.get(path, method="POST")} for gateway in gateways(url, token)
    ]
    if as_json:
        print_json({"gateways": found})
        return
    for answer in found:
        _show(answer, dry_run=dry_run)


def _show(answer: dict[str, Any], *, dry_run: bool) -> None:
    print(answer["url"])
    if not any(answer[key] for key in ("applied", "needs_restart", "added", "removed")):
        print("  nothing has changed")
        return
    for key, done, planned in _WORDS:
        if answer[key]:
            print(f"  {planned if dry_run else done}: {', '.join(answer[key])}")
