"""Validates single entries of an upstream's lists, so that all later readers can read them.

Owns: the bounds of a definition, and the record of what was left out. What passes here is an
object with a name, nested at most `MAX_LEVELS` deep, whose texts and numbers can be written again;
so whatever goes through definitions may descend level by level. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Raw

from armory.domain.catalog import Dropped
from armory.protocol.headers import HEADER_KEY, HEADER_KEY_JSON
from armory.protocol.rawjson import encode, members, scalar, value
from armory.protocol.scanning.nesting import deeper_than

MAX_LEVELS = 64
"""Nesting of a definition. The deepest of 27,595 published ones has 19 levels; a thousand end the
interpreter's stack, and clients take fewer still.
"""
MAX_BYTES = 512 * 1024
"""Size of a definition: some 130,000 tokens. It can only be read whole."""
MAX_ANNOTATED_BYTES = 64 * 1024
"""Size of a definition with `x-mcp-header`: for most clients it is written again without that."""
MAX_VALUES = 50_000
"""JSON values in a definition: decoded, each takes tens of bytes, however short it is."""
MAX_NAMED = 20
_NAME_CHARS = 80
_VALUE_BYTES = 64
_REASON_CHARS = 200


class Unusable(Exception):
    """An entry that cannot be handled; says why."""


def opened(raw: Raw, key: str) -> Mapping[str, Any]:
    """The decoded entry.

    Args:
        raw: as the upstream sent it.
        key: the member that names it.

    Raises:
        Unusable: it cannot be handled.
    """
    size = len(memoryview(raw))
    if size > MAX_BYTES:
        raise Unusable(f"it has {size:,} bytes; {MAX_BYTES:,} are the most")
    if deeper_than(bytes(memoryview(raw)), MAX_LEVELS):
        raise Unusable(f"it is nested deeper than {MAX_LEVELS} levels")
    if size > MAX_VALUES and _values(raw) > MAX_VALUES:
        raise Unusable(f"it has more than {MAX_VALUES:,} values")
    try:
        entry = value(raw)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"it cannot be read: {error}") from None
    if not isinstance(entry, dict):
        raise Unusable("it is no object")
    name: object = entry.get(key)
    if not isinstance(name, str) or not name:
        raise Unusable(f"it has no usable {key!r}")
    if size > MAX_ANNOTATED_BYTES and HEADER_KEY_JSON in encode(entry):
        raise Unusable(
            f"it has {HEADER_KEY} and {size:,} bytes; {MAX_ANNOTATED_BYTES:,} are the most then"
        )
    return cast("dict[str, Any]", entry)


def weight(raw: Raw) -> int:
    """Estimated bytes of memory that an entry takes once it is decoded."""
    return len(memoryview(raw)) + _VALUE_BYTES * _values(raw)


def _values(raw: Raw) -> int:
    """An upper bound of its values: commas in texts count as well."""
    return bytes(memoryview(raw)).count(b",") + 1


def fits(value: Mapping[str, Any]) -> bool:
    """Whether an upstream's description of itself stays within the bounds of a definition."""
    return not deeper_than(encode(value), MAX_LEVELS)


class Omissions:
    """The entries of an upstream's lists that were left out.

    Attributes:
        count: of all that was.
        first: what and why, of the first `MAX_NAMED`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Dropped] = []

    def add(self, method: str, entry: str, reason: str) -> None:
        """One entry was left out."""
        self.count += 1
        if len(self.first) < MAX_NAMED:
            self.first.append(Dropped(method, entry[:_NAME_CHARS], reason[:_REASON_CHARS]))

    def add_raw(self, method: str, raw: Raw, key: str, position: int, reason: str) -> None:
        """As `add`, for an entry that could not be decoded; its name is read if possible."""
        if len(self.first) < MAX_NAMED:
            self.add(method, _name(raw, key) or f"#{position}", reason)
        else:
            self.count += 1


def _name(raw: Raw, key: str) -> str:
    try:
        name = scalar(members(raw).get(key))
    except (ValueError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""
