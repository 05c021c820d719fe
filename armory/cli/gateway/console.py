"""`armory console`: prints a link to the console that is logged in already.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from urllib.parse import quote, urlsplit

import click

from armory.cli.gateway.running import Gateway, gateways
from armory.cli.options import json_option, running_options
from armory.cli.output import print_json, say_notice
from armory.errors import ArmoryError


@click.command()
@running_options
@json_option
def console(url: str | None, token: str | None, as_json: bool) -> None:
    """Print a link to the console of each gateway that runs on this machine.

    The link is logged in: its token (behind the `#`, which browsers do not send) administers the
    gateway until its process ends. Give it to nobody.
    """
    found = gateways(url, token)
    links = [
        f"{one.url}/console/" + (f"#token={quote(one.token, safe='')}" if one.token else "")
        for one in found
    ]
    for one in found:
        if not _takes_browsers(one):
            name = urlsplit(one.url).hostname
            say_notice(
                f"the gateway refuses what a browser asks of {name}: add {name} to "
                "server.allowed_hosts" + (f", or open the link at {one.host}" if one.host else "")
            )
    if as_json:
        print_json({"links": links})
        return
    sys.stdout.writelines(f"{link}\n" for link in links)
    say_notice("whoever has such a link administers the gateway; it ends with the process")


def _takes_browsers(gateway: Gateway) -> bool:
    """Whether it takes the name in its URL as Host, which browsers send and commands need not."""
    try:
        replace(gateway, host="").get("/v1/me")
    except ArmoryError as error:
        return "allowed_hosts" not in error.message
    return True
