"""`armory console`: a link to the console that is logged in already.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

import sys
from urllib.parse import quote

import click

from armory.cli.gateway.running import gateways
from armory.cli.options import json_option, running_options
from armory.cli.output import print_json, say_notice


@click.command()
@running_options
@json_option
def console(url: str | None, token: str | None, as_json: bool) -> None:
    """A link to the console of each gateway that runs on this machine.

    The token is behind the `#`, which browsers send nowhere; it administers the gateway as long as
    its process lives, so the link is for nobody else.
    """
    found = gateways(url, token)
    links = [
        f"{one.url}/console/" + (f"#token={quote(one.token, safe='')}" if one.token else "")
        for one in found
    ]
    if as_json:
        print_json({"links": links})
        return
    sys.stdout.writelines(f"{link}\n" for link in links)
    say_notice("whoever has such a link administers the gateway; it ends with the process")
