"""The gateway among the servers of a client's own file.

Owns: the file's text with it, in JSON or TOML. What is in the file stays, and nothing in it is
replaced.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, cast

from armory.errors import ConfigError

Json = dict[str, Any]


def merged_json(file: Path, whole: Json) -> str | None:
    """The file with what `whole` has; None where it has all of it already.

    Args:
        file: may be missing.
        whole: maps of named servers, and lists of objects with an `id`.

    Raises:
        ConfigError: it is no plain JSON object, or has another server of that name.
    """
    try:
        there: Any = json.loads(file.read_text(encoding="utf-8-sig")) if file.is_file() else {}
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{file} is no plain JSON (comments?); print it and add it by hand"
        ) from None
    if not isinstance(there, dict):
        raise ConfigError(f"{file} holds no JSON object, so that it is no client's configuration")
    after: Json = dict(cast("Json", there))
    for place, held in whole.items():
        known = after.get(place)
        if known is not None and type(known) is not type(held):
            expected = "an object" if isinstance(held, dict) else "a list"
            raise ConfigError(f"{file}: {place} is not {expected}; correct it, or add it by hand")
        if isinstance(held, list):
            after[place] = _with_new_ids(known or [], held)
        else:
            _refuse_others(file, known or {}, held)
            after[place] = {**(known or {}), **held}
    return None if after == there else json.dumps(after, indent=2, ensure_ascii=False) + "\n"


def _with_new_ids(known: list[Any], given: list[Json]) -> list[Any]:
    """A list with those objects of another whose `id` it has not."""
    ids = [item.get("id") for item in known if isinstance(item, dict)]
    return [*known, *(item for item in given if item["id"] not in ids)]


def merged_toml(file: Path, whole: Json) -> str | None:
    """As `merged_json`; every line of the file stays as it is."""
    text, there = _read_toml(file) if file.is_file() else ("", {})
    added: Json = {}
    for place, held in whole.items():
        known = there.get(place, {})
        if not isinstance(known, dict):
            raise ConfigError(f"{file}: {place} is no table; correct it, or add it by hand")
        _refuse_others(file, known, held)
        added[place] = {name: entry for name, entry in held.items() if name not in known}
    if not any(added.values()):
        return None
    merged = f"{text}{chr(10) if text else ''}{toml_of(added)}\n"
    if "\r\n" in text:
        merged = merged.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        tomllib.loads(merged)
    except tomllib.TOMLDecodeError:  # the table is written on one line, which cannot be added to
        raise ConfigError(
            f"{file}: nothing can be added to {', '.join(whole)} as it is written there; print "
            "it and add it by hand"
        ) from None
    return merged


def toml_of(whole: Json) -> str:
    """Servers as TOML has them, each a table."""
    lines: list[str] = []
    for place, servers in whole.items():
        for name, entry in servers.items():
            lines.append(f"[{place}.{name}]")
            lines += [f"{member} = {json.dumps(value)}" for member, value in entry.items()]
    return "\n".join(lines)


def _read_toml(file: Path) -> tuple[str, Json]:
    try:
        text = file.read_bytes().decode("utf-8-sig")  # its newlines as they are
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no TOML: {error}; correct it first") from None


def _refuse_others(file: Path, known: Json, held: Json) -> None:
    for name, entry in held.items():
        if known.get(name, entry) != entry:
            raise ConfigError(f"{file} has another server {name!r} already; remove it first")
