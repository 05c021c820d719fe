"""`armory import`: servers of other MCP clients become upstreams.

Owns: the command, and adding to `armory.yaml` without touching its comments. Never imports a room
but `config` and `domain`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click
import yaml

from armory.cli.config.clear_secrets import clear_secrets, moved, write_private
from armory.cli.config.client_files import servers_of
from armory.cli.options import json_option
from armory.cli.output import out, print_json, say_notice
from armory.config import ConfigProblems, load_text
from armory.config.clients import Imported, import_servers
from armory.config.dotenv import read_variables
from armory.config.load import FILE_NAME
from armory.domain.naming import slug
from armory.errors import ConfigError


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(FILE_NAME),
    show_default=True,
    help="The configuration to add to; written when it does not exist.",
)
@click.option(
    "--env",
    "env_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Move secrets in clear to this file, e.g. .env, and write ${VAR} instead.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the upstreams, write nothing.")
@json_option
def import_file(
    file: Path, into: Path, env_file: Path | None, only_print: bool, as_json: bool
) -> None:
    """Take over the servers of FILE: Claude Desktop and Code, Cursor, VS Code, Gemini CLI and the
    like (JSON), Codex (TOML), opencode, Zed.

    With secrets in clear what is written is for its owner alone. Variables of a `.env` beside
    armory.yaml are known to `${VAR}` there.
    """
    servers = servers_of(file)
    existing = into.read_text(encoding="utf-8") if into.is_file() else ""
    taken = _taken(existing)
    again = [name for name, entry in servers.items() if _is_there(name, entry, taken)]
    imported = import_servers(
        {name: entry for name, entry in servers.items() if name not in again},
        taken=set(taken),
        home=str(Path.home()),
    )
    notices = [*imported.notices]
    notices += [f"{name} is in {into} already and left as it is" for name in again]
    notices += _env_files(servers, imported, file.parent)
    secret = list(clear_secrets(imported.upstreams))
    variables = {} if env_file is None else moved(imported.upstreams, env_file)
    notices += _problems(imported, variables)
    if secret and env_file is None:
        where = ", ".join(f"upstreams.{key}.{part}.{name}" for key, part, name in secret)
        notices.append(
            f"secrets in clear: {where}; `armory import {file} --env .env` keeps them in a file of "
            "their own and writes ${VAR} instead"
        )
    if not only_print and imported.upstreams:
        if env_file is not None and variables:
            lines = "".join(f"{name}={json.dumps(value)}\n" for name, value in variables.items())
            write_private(env_file, lines, append=True)
        text = _added(existing, imported.upstreams, into)
        if secret and env_file is None:
            write_private(into, text)
        else:
            _write(into, text)
    if as_json:
        print_json({"upstreams": imported.upstreams, "notices": notices})
        return
    for notice in notices:
        say_notice(notice)
    if only_print:
        click.echo(_block(imported.upstreams), nl=False)
        return
    names = ", ".join(imported.upstreams) or "nothing"
    out().print(f"Added to {into}: {names}. Next: armory validate --connect", soft_wrap=True)


def _is_there(name: str, entry: Any, taken: dict[str, Any]) -> bool:
    """Whether the server is there under its name, or was taken over under its key before."""
    if name in taken:
        return True
    block = taken.get(slug(name))
    if not (isinstance(block, dict) and isinstance(entry, dict)):
        return False
    return all(block.get(member) == entry.get(member) for member in ("command", "url"))


def _taken(existing: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(existing) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"the configuration to add to is broken: {error}") from None
    blocks = data.get("upstreams") if isinstance(data, dict) else None
    return {str(key): blocks[key] for key in blocks} if isinstance(blocks, dict) else {}


def _env_files(servers: dict[str, Any], imported: Imported, folder: Path) -> list[str]:
    """Fill in what stands in the servers' own variable files; what could not be read."""
    missed: list[str] = []
    for key, name in imported.names.items():
        entry = servers.get(name)
        named = entry.get("envFile") if isinstance(entry, dict) else None
        if not isinstance(named, str):
            continue
        path = folder / Path(named.replace("${workspaceFolder}", ".")).expanduser()
        found = read_variables(path)
        if not found:
            missed.append(f"server {name!r}: its envFile {str(path)!r} has no variables to read")
        block = imported.upstreams[key]
        block["env"] = {**found, **block.get("env", {})}
    return missed


def _problems(imported: Imported, variables: dict[str, str]) -> list[str]:
    """What the imported upstreams still need, such as variables that are not set."""
    try:
        text = json.dumps({"upstreams": imported.upstreams})
        load_text(text, environ={**os.environ, **variables})
    except ConfigProblems as error:
        return [str(problem.path) + ": " + problem.message for problem in error.problems]
    return []


def _block(upstreams: dict[str, Any], indent: str = "") -> str:
    text = yaml.safe_dump(
        {"upstreams": upstreams} if not indent else upstreams,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    return "".join(indent + line for line in text.splitlines(keepends=True))


def _added(existing: str, upstreams: dict[str, Any], into: Path) -> str:
    """The configuration with further upstreams; every other line stays as it is."""
    head = re.search(r"^upstreams:[ \t]*(?P<rest>[^#\n]*)(?:#[^\n]*)?$", existing, re.MULTILINE)
    if head is None:
        gap = "\n" if existing and not existing.endswith("\n\n") else ""
        return existing + gap + _block(upstreams)
    if head["rest"].strip() not in ("", "{}"):
        raise ConfigError(
            f"the upstreams of {into} are written on one line, where nothing can be added; "
            "use --print and add them by hand"
        )
    start = head.start()
    line = "upstreams:" if head["rest"].strip() else existing[start : head.end()]
    inner = re.search(r"\n([ ]+)[^\s#]", existing[head.end() :])
    indent = inner[1] if inner and not head["rest"].strip() else "  "
    return existing[:start] + line + "\n" + _block(upstreams, indent) + existing[head.end() + 1 :]


def _write(into: Path, text: str) -> None:
    try:
        into.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{into} cannot be written: {error.strerror}") from None
