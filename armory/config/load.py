"""Loads a file as a `Config`, or reports every problem at once.

Owns: merging client maps, filling variables, naming what is wrong. Never
imports a room above `domain`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

import yaml
from pydantic import ValidationError

from armory.config.checks.cross import cross_check
from armory.config.clients.servers import import_servers
from armory.config.dotenv import NAME as DOTENV
from armory.config.dotenv import not_utf8, read_variables
from armory.config.expand import expand_tree, taken_as_text
from armory.config.home import armory_home
from armory.config.loaded import ConfigProblems, Loaded, Place
from armory.config.model import Config
from armory.config.partial import without
from armory.config.problems import Path, Problem, dotted
from armory.config.source import Source
from armory.config.validation import problems_of
from armory.errors import ConfigError

CLIENT_MAPS = ("mcpServers", "servers")
_IGNORED_BESIDE_MAPS = ("inputs",)
_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)(?!:memory:|file:)([^?]+)(.*)", re.DOTALL)
_DEFAULTS: Mapping[Path, str] = {
    ("storage", "url"): "sqlite:///${ARMORY_HOME}/armory.db",
    ("storage", "cache_dir"): "${ARMORY_HOME}/cache",
    ("tool_rag", "openai", "api_key"): "${OPENAI_API_KEY:-}",
}


def read_file(path: File) -> str:
    """The text of a configuration file, its newlines as they are.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def load_file(
    path: File,
    environ: Mapping[str, str] | None = None,
    *,
    text: str | None = None,
    node: yaml.Node | None = None,
) -> Loaded:
    """Read and check one file.

    Args:
        path: the file.
        environ: variables, beside those of the `.env` next to it; the process's by default.
        text: what the file would hold; None: what it holds.
        node: as of `Source`.

    Raises:
        ConfigError: the file cannot be read, or the `.env` is no UTF-8 text.
        ConfigProblems: what is in it does not hold; names every problem.
    """
    if text is None:
        text = read_file(path)
    return load_text(text, path=path, environ=variables_of(path, environ), node=node)


def variables_of(path: File, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that a file may refer to; the arguments: as of `load_file`.

    Raises:
        ConfigError: the `.env` is no UTF-8 text.
    """
    given = os.environ if environ is None else environ
    return {**read_variables(path.parent / DOTENV), **given}


def load_text(
    text: str,
    *,
    path: File | None = None,
    environ: Mapping[str, str] | None = None,
    node: yaml.Node | None = None,
) -> Loaded:
    """Check a configuration.

    Args:
        text: YAML (or JSON).
        path: where it came from.
        environ: variables; the process's environment by default.
        node: as of `Source`.

    Raises:
        ConfigProblems: something in it does not hold; names every problem.
    """
    environ = os.environ if environ is None else environ
    home = armory_home(environ)
    source = Source(text, node)
    problems = list(source.problems)
    if not source.data and problems:
        raise ConfigProblems(problems, str(path or ""))
    data, origins, notices = _merge_maps(source, problems, path)
    _add_defaults(data)
    missing: dict[Path, str] = {}
    variables = {**environ, "ARMORY_HOME": os.path.abspath(home)}
    filled = expand_tree(data, variables, missing)

    def place(inner: Path) -> Place:
        origin = origins.get(inner[1]) if len(inner) > 1 and inner[0] == "upstreams" else None
        where = (*origin, *inner[2:]) if origin else inner
        return dotted(where), source.line(where)

    notices += [f"{place(inner)[0]}: {said}" for inner, said in taken_as_text(data)]
    config, found = _validated(filled, data, missing)
    wrong = {inner for inner, _ in found}
    if wrong:
        config = without(filled, wrong)
    found += cross_check(filled, config, wrong)
    for inner, message in found:
        where, line = place(inner)
        problems.append(Problem(where, message, line))
    loaded = None
    if config is not None:
        loaded = Loaded(_placed(config, path), path, tuple(notices), home, place)
    if problems or loaded is None:
        raise ConfigProblems(problems, str(path or ""), wrong=frozenset(wrong), rest=loaded)
    return loaded


def _validated(
    filled: dict[Any, Any], data: dict[Any, Any], missing: Mapping[Path, str]
) -> tuple[Config | None, list[tuple[Path, str]]]:
    """The configuration, if its values hold each by itself, and what is wrong with those that do
    not.

    Args:
        filled: the data with variables filled in.
        data: as it was before.
        missing: what variables lack, by the value that names them.
    """
    unused = {inner for inner in missing if _is_off(filled, inner)}
    found = [(inner, message) for inner, message in missing.items() if inner not in unused]
    try:
        return Config.model_validate(filled), found
    except ValidationError as error:
        found += [
            (inner, missing.get(inner, message))
            for inner, message in problems_of(error, filled, data)
            if inner not in missing or inner in unused
        ]
    return None, found


def _placed(config: Config, path: File | None) -> Config:
    """The configuration with what is stored where its file says, wherever a command runs."""
    folder = File.cwd() if path is None else path.parent
    url, cache = config.storage.url, config.storage.cache_dir
    if (file := _SQLITE.fullmatch(url)) is not None:
        url = f"{file[1]}{os.path.abspath(folder / file[2])}{file[3]}"
    cache = cache and os.path.abspath(folder / cache)
    storage = config.storage.model_copy(update={"url": url, "cache_dir": cache})
    return config.model_copy(update={"storage": storage})


def _is_off(filled: Mapping[Any, Any], path: Path) -> bool:
    """Whether a value belongs to an upstream that is switched off: its variables may be unset."""
    if len(path) < 2 or path[0] != "upstreams":
        return False
    block = filled["upstreams"][path[1]]
    return isinstance(block, dict) and block.get("enabled") is False


def _merge_maps(
    source: Source, problems: list[Problem], path: File | None
) -> tuple[dict[Any, Any], dict[str | int, Path], list[str]]:
    """The data with client maps moved into `upstreams`; where each of those came from."""
    data = dict(source.data)
    origins: dict[str | int, Path] = {}
    notices: list[str] = []
    own = data.get("upstreams")
    merged: dict[Any, Any] = dict(own) if isinstance(own, dict) else {}
    maps = [name for name in CLIENT_MAPS if name in data]
    for name in maps:
        servers = data.pop(name)
        if not isinstance(servers, dict):
            problems.append(Problem(name, "a mapping of servers is expected", source.line((name,))))
            continue
        folder = "." if path is None else os.path.dirname(os.path.abspath(path))
        imported = import_servers(servers, home=str(File.home()), workspace=folder)
        notices += [f"{name}: {notice}" for notice in imported.notices]
        notices += [
            f"{name}: the envFile of server {known!r} is not read; `armory import` takes its "
            "variables over, or write them into 'env'"
            for known, entry in servers.items()
            if str(known) in imported.names.values()
            and isinstance(entry, dict)
            and entry.get("envFile")
        ]
        for key, block in imported.upstreams.items():
            origin: Path = (name, imported.names[key])
            if key in merged:
                problems.append(
                    Problem(
                        dotted(origin),
                        f"an upstream {key!r} exists already; rename one of the two",
                        source.line(origin),
                    )
                )
                continue
            merged[key] = block
            origins[key] = origin
    if maps:
        for name in _IGNORED_BESIDE_MAPS:
            data.pop(name, None)
        if own is None or isinstance(own, dict):
            data["upstreams"] = merged
    return data, origins, notices


def _add_defaults(data: dict[Any, Any]) -> None:
    """Put in the defaults that hold variables, where the file says nothing."""
    for path, default in _DEFAULTS.items():
        place: dict[Any, Any] = data
        for part in path[:-1]:
            inner = place.get(part)
            if inner is None:
                inner = {}
            elif not isinstance(inner, dict):
                break  # validation will name it
            else:
                inner = dict(inner)
            place[part] = inner
            place = inner
        else:
            if path[-1] not in place:
                place[path[-1]] = default
