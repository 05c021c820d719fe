"""Entries that a list has a second time because the upstream leads back to this gateway.

Owns: finding them by name. Imports nothing but the standard library.

An upstream that is this gateway (by a name that the configuration's own check cannot know), or
another gateway with this one behind it, lists what it was just told as its own, with one prefix
more each time, without an end. Nothing in MCP says who is behind a server; the prefix does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WHY = (
    "it leads back here: this upstream is the gateway itself, or has it behind it; remove the "
    "upstream, or give it another key if the entry is its own"
)


def returning(
    server: str, entries: Sequence[Mapping[str, Any]], key: str, joint: str
) -> dict[str, str]:
    """The names of the entries that lead back here, each with the reason.

    One does that has this upstream's prefix, and without it is in the list as well; or that has the
    prefix twice, since what is too long for a name was cut.

    Args:
        server: the key of the upstream that listed them.
        entries: that it listed.
        key: the member that names an entry.
        joint: what stands between an upstream's key and a name (`__`), or a URI (`+`).
    """
    mark = f"{server}{joint}"
    marked = [name for entry in entries if mark in (name := entry[key])]
    if not marked:
        return {}
    known = {entry[key] for entry in entries}
    found: dict[str, str] = {}
    for name in marked:
        rest = _behind(name, mark, joint)
        if rest is not None and (rest in known or _behind(rest, mark, joint) is not None):
            found[name] = _WHY
    return found


def _behind(name: str, mark: str, joint: str) -> str | None:
    """What follows the prefix; None: the name has it not."""
    if name.startswith(mark):
        return name[len(mark) :]
    _, found, rest = name.partition(joint + mark)
    return rest if found else None
