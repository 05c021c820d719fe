"""`armory import`: adds the servers of other MCP clients as upstreams.

Owns: the command. Never imports a room but `config`, `domain`, and what `upstreams` can speak.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, get_args

import click

from armory.cli.config.adding import added, existing_in, say_added, taken_in
from armory.cli.config.clear_secrets import SecretsToWrite
from armory.cli.config.client_files import servers_of
from armory.cli.config.client_references import fill_as_gemini, left_as_they_are
from armory.cli.config.own_entries import own_entries
from armory.cli.options import json_option, writing_options
from armory.cli.output import print_json
from armory.config import ConfigProblems, load_text
from armory.config.clients.servers import Imported, import_servers
from armory.config.dotenv import read_variables
from armory.config.load import variables_of
from armory.domain.naming import slug
from armory.errors import ConfigError
from armory.upstreams.spec import Transport

_WAYS = ("command", "url", "openapi", "skills")
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*+://", re.IGNORECASE)
_WORKSPACE = "${workspaceFolder}"
_NUMBER = re.compile(r"\A-\d++\Z")
_REFERENCE = re.compile(r"\$\{\w++\}")


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@writing_options
@json_option
def import_file(
    file: Path, into: Path, env_file: Path | None, only_print: bool, as_json: bool
) -> None:
    """Take over the servers of FILE: Claude Desktop and Code, Cursor, VS Code, Gemini CLI and the
    like (JSON), Codex (TOML), opencode, Zed, Goose and Continue (YAML).

    If secrets stay in clear text, only the owner may read the result. Variables of a `.env` beside
    armory.yaml are known to `${VAR}` there.
    """
    servers, workspace = servers_of(file), _workspace_of(file)
    existing = existing_in(into)
    taken = taken_in(existing, into)
    local = {"home": os.path.expanduser("~"), "workspace": str(workspace)}
    again = [
        name
        for name, entry in servers.items()
        if _is_there(name, import_servers({name: entry}, **local), taken)
    ]
    new = {name: entry for name, entry in servers.items() if name not in again}
    imported = import_servers(new, taken=set(taken), **local)
    notices = [*imported.notices, *_left_out(imported)]
    for key in list(own_entries(imported.upstreams, existing, into)):
        notices.append(f"server {imported.names[key]!r} is this gateway itself and is left out")
        del imported.upstreams[key], imported.names[key]
    if any(_WORKSPACE in str(servers[name]) for name in imported.names.values()):
        notices.append(f"{_WORKSPACE} is taken as {workspace}")
    notices += [f"{name} is in {into} already and left as it is" for name in again]
    notices += _env_files(servers, imported, workspace)
    variables = variables_of(into)
    fill_as_gemini(file, imported, variables)
    references = left_as_they_are(imported)
    secrets = SecretsToWrite(imported.upstreams, env_file)
    notices += _problems(imported, {**variables, **secrets.variables})
    notices += references
    command = f"`armory import {file} --env .env`"
    notices += secrets.notices(command, into, only_print=only_print)
    if not only_print and imported.upstreams:
        secrets.write(into, added(existing, imported.upstreams, into))
    if as_json:
        print_json({"upstreams": imported.upstreams, "notices": notices})
    else:
        say_added(imported.upstreams, notices, into, only_print=only_print)


def _workspace_of(file: Path) -> Path:
    """The folder that an editor has open: a project keeps its file in `.vscode` and the like."""
    folder = Path(os.path.abspath(file)).parent
    return folder.parent if folder.name.startswith(".") else folder


def _left_out(imported: Imported) -> list[str]:
    """Take out what no configuration could hold: one such entry would make all of it invalid."""
    notices: list[str] = []
    for key, block in list(imported.upstreams.items()):
        if not isinstance(block, dict):
            why = "is no mapping of keys"
        elif not (ways := [way for way in _WAYS if block.get(way)]):
            why = "has neither a command nor a URL"
        elif len(ways) > 1:
            why = f"has {' and '.join(repr(way) for way in ways)}, of which a server has one,"
        elif (transport := block.get("transport", "auto")) not in get_args(Transport):
            why = f"is reached by {transport!r}, which is not spoken here,"
        elif (other := _OTHER_SCHEME.match(str(block.get("url")))) is not None:
            why = f"is reached at {other[0]!r}, which is not spoken here,"
        else:
            continue
        notices.append(f"server {imported.names[key]!r} {why} and is left out")
        del imported.upstreams[key], imported.names[key]
    return notices


def _is_there(name: str, alone: Imported, taken: dict[str, Any]) -> bool:
    """Whether the server is there under its name, or was taken over under its key before."""
    if name in taken:
        return True
    given = alone.upstreams.get(slug(name))
    return isinstance(given, dict) and any(
        isinstance(held, dict)
        and all(_fits(held.get(member), given.get(member)) for member in ("command", "url"))
        for key, held in taken.items()
        if _NUMBER.sub("", key.removeprefix(slug(name))) == ""
    )


def _fits(held: Any, given: Any) -> bool:
    """Whether it is what was given, but for the secrets that were moved out of it."""
    if held == given or not (isinstance(held, str) and isinstance(given, str)):
        return bool(held == given)
    first, *others = _REFERENCE.split(held)
    if not others or not given.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        at = given.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return given.endswith(others[-1]) and len(given) - len(others[-1]) >= at


def _env_files(servers: dict[str, Any], imported: Imported, workspace: Path) -> list[str]:
    """Fill in what stands in the servers' own variable files; what could not be read."""
    missed: list[str] = []
    for key, name in imported.names.items():
        entry = servers.get(name)
        named = entry.get("envFile") if isinstance(entry, dict) else None
        if not isinstance(named, str) or "command" not in imported.upstreams[key]:
            continue
        path = workspace / os.path.expanduser(
            named.replace(_WORKSPACE, ".").replace("${userHome}", "~")
        )
        try:
            found = read_variables(path)
        except ConfigError as error:
            missed.append(f"server {name!r}: its envFile {error.message}")
            continue
        if not found:
            missed.append(f"server {name!r}: its envFile {str(path)!r} has no variables to read")
        block = imported.upstreams[key]
        block["env"] = {**found, **block.get("env", {})}
    return missed


def _problems(imported: Imported, variables: dict[str, str]) -> list[str]:
    """What the imported upstreams still need, such as variables that are not set."""
    try:
        load_text(json.dumps({"upstreams": imported.upstreams}), environ=variables)
    except ConfigProblems as error:
        return [str(problem.path) + ": " + problem.message for problem in error.problems]
    return []
