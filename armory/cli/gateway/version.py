"""`armory version`: prints the version and the protocol revisions.

Owns: the command. Never imports a room but `runtime` and `protocol`.
"""

from __future__ import annotations

import platform

import click

from armory.cli.options import json_option
from armory.cli.output import print_json
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS
from armory.runtime.version import armory_version


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version and the protocol revisions that are spoken."""
    protocols = [*LEGACY_VERSIONS, *MODERN_VERSIONS]
    if as_json:
        print_json(
            {
                "version": armory_version(),
                "protocolVersions": protocols,
                "python": platform.python_version(),
            }
        )
    else:
        click.echo(f"armory {armory_version()} (MCP {protocols[0]} to {protocols[-1]})")
