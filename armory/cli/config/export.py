"""`armory export`: prints what a client's configuration needs in order to use this gateway.

Owns: the command, each client's way of writing it, and the endpoint's URL. Never imports a room
but `config` and `domain`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

import click

from armory.cli.config.adding import write_text
from armory.cli.config.merging import merged_json, merged_toml, toml_of
from armory.cli.options import config_option, json_option, loaded_for
from armory.cli.output import out, print_json, say_notice
from armory.cli.urls import endpoint_path
from armory.config import Config, find_config
from armory.config.blocks.server import ServerConfig
from armory.domain.hosts import is_loopback
from armory.errors import ConfigError, InvalidRequest

TOKEN = "ARMORY_TOKEN"
_NAME = "armory"
_HEADER = "AUTH_HEADER"
_TO_FILL_IN = "YOUR-TOKEN"
_PLAIN_FOR_MCP_REMOTE = ("localhost", "127.0.0.1")
"""The only hosts that mcp-remote reaches without TLS unasked."""
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway as it is written into a client's configuration.

    Attributes:
        url: of the endpoint, query included.
        config: the configuration, for clients that start the gateway themselves.
        token: whether it wants a credential.
    """

    url: str
    config: Path
    token: bool


def _http(reference: str, member: str = "url", **more: object) -> Callable[[Gateway], Json]:
    """A URL, and a header in which `reference` stands for the token's variable."""

    def entry(gateway: Gateway) -> Json:
        headers = {"headers": {"Authorization": f"Bearer {reference}"}} if gateway.token else {}
        return {**more, member: gateway.url, **headers}

    return entry


def _spawned(gateway: Gateway) -> Json:
    found = shutil.which(_NAME) or Path(sys.executable).with_name(_NAME)
    command = str(Path(found).absolute())  # a folder of the PATH may be relative
    return {"command": command, "args": ["serve", "--stdio", "--config", str(gateway.config)]}


def _bridged(gateway: Gateway) -> Json:
    """mcp-remote, in whatever client: it gets little of the environment, and some clients cut
    arguments at blanks, so the header is a variable of its own `env`.
    """
    where = urlsplit(gateway.url)
    args = ["-y", "mcp-remote", gateway.url]
    if where.scheme == "http" and where.hostname not in _PLAIN_FOR_MCP_REMOTE:
        args.append("--allow-http")
    if not gateway.token:
        return {"command": "npx", "args": args}
    args += ["--header", f"Authorization:${{{_HEADER}}}"]
    return {"command": "npx", "args": args, "env": {_HEADER: f"Bearer {_TO_FILL_IN}"}}


def _codex(gateway: Gateway) -> Json:
    token = {"bearer_token_env_var": TOKEN} if gateway.token else {}
    return {"url": gateway.url, **token}


@dataclass(frozen=True, slots=True)
class Client:
    """How one client writes a server.

    Attributes:
        file: where it looks.
        place: the map that its servers stand in.
        entry: the server itself.
    """

    file: str
    place: str
    entry: Callable[[Gateway], Json]

    @property
    def toml(self) -> bool:
        """Whether its file is TOML; JSON otherwise."""
        return self.file.endswith(".toml")


_VARIABLE, _ENV = f"${{{TOKEN}}}", f"${{env:{TOKEN}}}"
CLIENTS = {
    "claude-code": Client(".mcp.json", "mcpServers", _http(_VARIABLE, type="http")),
    "claude-desktop": Client("claude_desktop_config.json", "mcpServers", _spawned),
    "codex": Client("~/.codex/config.toml", "mcp_servers", _codex),
    "cursor": Client(".cursor/mcp.json", "mcpServers", _http(_ENV)),
    "gemini": Client("~/.gemini/settings.json", "mcpServers", _http(f"${TOKEN}", "httpUrl")),
    "mcp-remote": Client("the client's own file", "mcpServers", _bridged),
    "opencode": Client("opencode.json", "mcp", _http(f"{{env:{TOKEN}}}", type="remote")),
    "vscode": Client(".vscode/mcp.json", "servers", _http("${input:armory-token}", type="http")),
    "windsurf": Client(
        "~/.codeium/windsurf/mcp_config.json", "mcpServers", _http(_ENV, "serverUrl")
    ),
    "zed": Client("~/.config/zed/settings.json", "context_servers", _http(_TO_FILL_IN)),
}
_INPUT = {"id": "armory-token", "type": "promptString", "description": "Token", "password": True}


@click.command()
@click.option(
    "--client",
    required=True,
    type=click.Choice(list(CLIENTS)),
    metavar="CLIENT",
    help=f"For whom: {', '.join(CLIENTS)}.",
)
@click.option("--url", metavar="URL", help="With or without /mcp; default: what armory.yaml says.")
@click.option("--set", "set_name", metavar="NAME", help="The set that the client gets.")
@click.option("--query", metavar="TEXT", help="The query of every listing.")
@click.option("--token", is_flag=True, help=f"The gateway wants a credential (${TOKEN}).")
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add it to this file; without, it is printed.",
)
@config_option
@json_option
def export(
    client: str,
    url: str | None,
    set_name: str | None,
    query: str | None,
    token: bool,
    into: Path | None,
    config: str | None,
    as_json: bool,
) -> None:
    """Print what CLIENT needs in order to use this gateway, or add it to the client's file."""
    chosen, spawned = CLIENTS[client], client == "claude-desktop"
    if spawned and (url or set_name or query or token):
        raise InvalidRequest(
            "claude-desktop starts the gateway itself and sends no URL; use --client mcp-remote"
        )
    place, base, configured = _gateway(config, url, set_name, spawned=spawned)
    asked = "" if spawned else _endpoint(base, set_name, query)
    if configured is not None and not spawned:
        if _asks_for_a_credential(configured) and not token:
            say_notice(f"the gateway asks for a credential: --token takes it from ${TOKEN}")
        _say_what_is_refused(configured.server, base)
    entry = chosen.entry(Gateway(asked, place, token))
    whole: Json = {chosen.place: {_NAME: entry}}
    if client == "vscode" and token:
        whole["inputs"] = [_INPUT]
    merged = None
    if into is not None:
        merged = merged_toml(into, whole) if chosen.toml else merged_json(into, whole)
        if merged is not None:
            with suppress(OSError):  # of a project that has no `.cursor` yet; else it is told below
                into.parent.mkdir()
            write_text(into, merged)
    if as_json:
        print_json({"client": client, "file": str(into or chosen.file), "config": whole})
    elif into is not None:
        done = f"Added to {into}: {_NAME}." if merged else f"{into} has it already: {_NAME}."
        out().print(done, markup=False, soft_wrap=True)
    else:
        say_notice(f"for {chosen.file}:")
        click.echo(toml_of(whole) if chosen.toml else json.dumps(whole, indent=2))


def _gateway(
    config: str | None, url: str | None, set_name: str | None, *, spawned: bool
) -> tuple[Path, str, Config | None]:
    """The configuration's file, the URL of the main endpoint, and what it was taken from.

    Raises:
        InvalidRequest: the configuration has no such set.
    """
    if url is not None:
        return Path(config or "armory.yaml").absolute(), url, None
    file = find_config(config)
    configured = loaded_for(config, "server", "sets").config
    server, sets = configured.server, configured.sets
    if set_name is not None and set_name not in sets:
        raise InvalidRequest(
            f"no set is called {set_name!r}; there are: {', '.join(sets) or 'none'}",
            parameter="set",
        )
    if server.port == 0 and not spawned:
        raise ConfigError(
            "0 is another port at each start; give the gateway a port of its own, or say --url",
            path="server.port",
        )
    host = _EVERYWHERE.get(server.host, f"[{server.host}]" if ":" in server.host else server.host)
    endpoint = f"http://{host}:{server.port}{server.base_path.rstrip('/')}/mcp"
    return file.absolute(), endpoint, configured


def _say_what_is_refused(server: ServerConfig, url: str) -> None:
    """Say so where the gateway does not take the URL's name as Host (`wire.http.host_checks`)."""
    taken = {name.lower() for name in server.allowed_hosts}
    parts = urlsplit(url)
    usual = (f"{parts.netloc}:{port}" for port in (80, 443))  # which clients do not write
    known = not taken.isdisjoint(("*", parts.hostname, parts.netloc, *usual))
    if taken and not known and not is_loopback(server.host):
        say_notice(
            f"the gateway refuses clients that come to {parts.hostname}: say --url as they reach "
            f"it, by one of server.allowed_hosts ({', '.join(server.allowed_hosts)}), or add "
            f"{parts.hostname} there"
        )


def _asks_for_a_credential(configured: Config) -> bool:
    """Whether nobody is let in without one; with `oauth` clients log in by themselves."""
    security = configured.security
    if security.allow_anonymous == "auto":
        return security.oauth is None and not is_loopback(configured.server.host)
    return security.oauth is None and not security.allow_anonymous


def _endpoint(url: str, set_name: str | None, query: str | None) -> str:
    """The URL with the set in its path, and the query behind what its own query says.

    Raises:
        InvalidRequest: it is no http(s) URL, or has a query of the same name.
    """
    wrong = f"{url!r} is no URL of a gateway; write e.g. http://127.0.0.1:8080/mcp"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest(wrong) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidRequest(wrong)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidRequest(wrong)
    if query and any(name == "query" for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise InvalidRequest("the URL has a `query` already; leave out --query, or that one")
    path = endpoint_path(parts.path).rstrip("/")
    path += f"/set/{quote(set_name, safe='')}" if set_name else ""
    asked = "&".join(filter(None, (parts.query, f"query={quote(query, safe='')}" if query else "")))
    return urlunsplit((parts.scheme, parts.netloc, path, asked, ""))
