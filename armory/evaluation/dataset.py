"""Labelled sets: a folder with `tools.jsonl` and `queries.jsonl`.

Owns: reading and checking them. Never imports retrieval.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from armory.domain.tool import MAX_ABOUT_CHARS, ToolRecord, fingerprint
from armory.errors import ConfigError

_SCHEMAS = ("inputSchema", "outputSchema")
_MISTAKES_SHOWN = 20
"""Mistakes of one file that are reported."""
T = TypeVar("T")
_DEFINITION = ("name", "title", "description", *_SCHEMAS, "annotations", "_meta")


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """One query and the names (ids) of the tools that it wants; none: no tool fits."""

    id: str
    text: str
    relevant: frozenset[str]
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A catalog with labelled queries; a record's `name` is its id in the set."""

    name: str
    tools: tuple[ToolRecord, ...]
    queries: tuple[LabelledQuery, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A past successful call: the query, and the name (id) of the called tool."""

    query: str
    tool: str


def load_dataset(
    folder: Path | str, *, split: str | None = None, limit: int | None = None
) -> Dataset:
    """Read a set.

    Args:
        folder: holds `tools.jsonl` (`id`, `name`, `description`, optional `server`,
            `server_title`, `server_about`, `inputSchema`, ...) and `queries.jsonl` (`id`, `query`,
            `relevant`, optional `split`).
        split: only queries of this split.
        limit: at most so many queries, a stable sample spread over the set.

    Raises:
        ConfigError: a file is missing or malformed; names file, line and what was expected.
    """
    folder = Path(folder)
    tools = load_tools(folder / "tools.jsonl")
    known = {tool.name for tool in tools}
    path = folder / "queries.jsonl"
    queries = _each(path, lambda line, row: _query(path, line, row, known))
    if split is not None:
        splits = sorted({q.split for q in queries if q.split is not None})
        queries = [q for q in queries if q.split == split]
        if not queries:
            others = ", ".join(splits) or "none"
            raise ConfigError(f"{path}: no query has split {split!r}; there are {others}")
    if limit is not None and limit < len(queries):
        by_sample = sorted(range(len(queries)), key=lambda place: _sampled(queries[place].id))
        queries = [queries[place] for place in sorted(by_sample[:limit])]
    return Dataset(folder.resolve().name, tuple(tools), tuple(queries))


def load_tools(path: Path | str) -> list[ToolRecord]:
    """Read `tools.jsonl`.

    Raises:
        ConfigError: the file is missing or malformed, or an id is there twice.
    """
    path = Path(path)
    tools: dict[str, ToolRecord] = {}

    def add(line: int, row: Mapping[str, Any]) -> None:
        tool = _tool(path, line, row)
        if tool.name in tools:
            raise ConfigError(f"{path}:{line}: id {tool.name!r} is there twice")
        tools[tool.name] = tool

    _each(path, add)
    if not tools:
        raise ConfigError(f"{path}: no tools")
    return list(tools.values())


def among(dataset: Dataset, folder: Path | str, count: int | None = None) -> Dataset:
    """A data set with the tools of another catalog added; its queries stay.

    Tools with the same text as a wanted one would count as wrong, and are left out.

    Args:
        dataset: the set.
        folder: holds the other catalog's `tools.jsonl`.
        count: so many of them, a stable sample; None: all.

    Raises:
        ConfigError: the file is missing or malformed, or has fewer tools to add.
    """
    folder = Path(folder)
    wanted = {name for query in dataset.queries for name in query.relevant}
    copies = {_wording(tool) for tool in dataset.tools if tool.name in wanted}
    own = {tool.name for tool in dataset.tools}
    there = [tool for tool in load_tools(folder / "tools.jsonl") if _wording(tool) not in copies]
    if count is not None and count > len(there):
        raise ConfigError(f"{folder}: {len(there)} tools can be added, {count} are asked for")
    chosen = sorted(there, key=lambda tool: _sampled(tool.name))[:count]
    label = folder.resolve().name
    added = [
        replace(tool, name=f"{label}:{tool.name}") if tool.name in own else tool for tool in chosen
    ]
    return replace(dataset, name=f"{dataset.name} among {label}", tools=(*dataset.tools, *added))


def load_uses(path: Path | str, known: frozenset[str]) -> list[Use]:
    """Read past uses, JSON lines of `{query, tool}`; `tool` is an id of the set.

    Raises:
        ConfigError: the file is missing or malformed, or names an unknown tool.
    """
    path = Path(path)

    def use(line: int, row: Mapping[str, Any]) -> Use:
        made = Use(_text(path, line, row, "query"), _text(path, line, row, "tool"))
        if made.tool not in known:
            raise ConfigError(f"{path}:{line}: unknown tool {made.tool!r}")
        return made

    return _each(path, use)


def _sampled(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _wording(tool: ToolRecord) -> tuple[str, str]:
    return tool.original_name.casefold(), " ".join(tool.description.casefold().split())


def _each(path: Path, read: Callable[[int, Mapping[str, Any]], T]) -> list[T]:
    """What `read` makes of each line.

    Raises:
        ConfigError: the file cannot be read; or what is wrong with each line, the first ones.
    """
    found: list[T] = []
    wrong: list[str] = []
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                try:
                    if line.strip():
                        found.append(read(number, _object(path, number, line)))
                except ConfigError as error:
                    wrong.append(error.message)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from error
    if wrong:
        more = [f"and {len(wrong) - _MISTAKES_SHOWN} more"] if len(wrong) > _MISTAKES_SHOWN else []
        raise ConfigError("\n".join(wrong[:_MISTAKES_SHOWN] + more))
    return found


def _object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{path}:{number}: {type(row).__name__}, expected an object")
    return cast("Mapping[str, Any]", row)


def _text(path: Path, line: int, row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{path}:{line}: {key} is {value!r}, expected text")
    return value


def _tool(path: Path, line: int, row: Mapping[str, Any]) -> ToolRecord:
    name = _text(path, line, row, "name")
    definition = {key: row[key] for key in _DEFINITION if key in row}
    server = row.get("server")
    description = row.get("description")
    category = row.get("category")
    tags: Any = row.get("tags")
    return ToolRecord(
        name=_text(path, line, row, "id"),
        server=server if isinstance(server, str) else "",
        original_name=name,
        definition=definition,
        fingerprint=fingerprint(definition),
        server_title=str(row.get("server_title") or ""),
        server_about=str(row.get("server_about") or "")[:MAX_ABOUT_CHARS],
        description=description if isinstance(description, str) else "",
        tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
        category=category if isinstance(category, str) else None,
    )


def _query(path: Path, line: int, row: Mapping[str, Any], known: set[str]) -> LabelledQuery:
    given: Any = row.get("relevant")
    if not isinstance(given, list):
        raise ConfigError(f"{path}:{line}: relevant is {given!r}, expected a list of tool ids")
    relevant = cast("list[Any]", given)
    odd = [r for r in relevant if not isinstance(r, str)]
    if odd:
        raise ConfigError(f"{path}:{line}: relevant holds {odd[0]!r}, expected ids of tools")
    unknown = [r for r in relevant if r not in known]
    if unknown:
        raise ConfigError(f"{path}:{line}: relevant names unknown tools: {unknown[:3]}")
    split = row.get("split")
    return LabelledQuery(
        id=_text(path, line, row, "id"),
        text=_text(path, line, row, "query"),
        relevant=frozenset(relevant),
        split=split if isinstance(split, str) else None,
    )
