"""`armory import`: servers of Claude Desktop, Cursor or VS Code become upstreams.

Owns: the command, reading those files, and adding to `armory.yaml` without touching its comments.
Never imports a room but `config` and `domain`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import yaml

from armory.cli.options import json_option
from armory.cli.output import out, print_json, say_notice
from armory.config import ConfigProblems, load_text
from armory.config.clients import Imported, import_servers
from armory.config.load import FILE_NAME
from armory.domain.naming import slug
from armory.errors import ConfigError

_STRING_OR_COMMENT = re.compile(
    r'("(?:\\.|[^"\\]++)*+(?:"|\\?\Z))|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)', re.DOTALL
)
_STRING_OR_COMMA = re.compile(r'("(?:\\.|[^"\\]++)*+(?:"|\\?\Z))|,(?=\s*+[}\]])', re.DOTALL)
_PLACES = (("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp", "mcpServers"))


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(FILE_NAME),
    show_default=True,
    help="The configuration to add to; written when it does not exist.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the upstreams, write nothing.")
@json_option
def import_file(file: Path, into: Path, only_print: bool, as_json: bool) -> None:
    """Take over the servers of FILE (Claude Desktop, Cursor, VS Code and the like)."""
    servers = _servers_of(file)
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
    notices += _problems(imported)
    if not only_print and imported.upstreams:
        _write(into, _added(existing, imported.upstreams, into))
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


def _servers_of(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is no text in UTF-8: {error}") from None
    try:
        data = json.loads(_without_comments(text))
    except RecursionError:
        raise ConfigError(f"{file} is nested too deep; expected a map of servers") from None
    except ValueError as error:
        raise ConfigError(f"{file} is no JSON: {error}") from None
    for place in _PLACES:
        found: Any = data
        for part in place:
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, dict):
            return found
    raise ConfigError(
        f"{file} has no servers; expected a map 'mcpServers' (Claude Desktop, Cursor and others), "
        "or 'servers' (VS Code)"
    )


def _without_comments(text: str) -> str:
    """JSON out of JSON with comments and trailing commas."""
    plain = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    return _STRING_OR_COMMA.sub(lambda match: match[1] or "", plain)


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


def _problems(imported: Imported) -> list[str]:
    """What the imported upstreams still need, such as variables that are not set."""
    try:
        load_text(json.dumps({"upstreams": imported.upstreams}))
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
