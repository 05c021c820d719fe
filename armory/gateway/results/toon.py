"""JSON as TOON, where that is smaller and lossless.

Owns: JSON texts and values as TOON. Never imports a transport; what of a result may be changed at
all is `gateway.results.compact`'s.

Lossless means: decoding the TOON text gives the JSON value back (member order aside, which JSON
does not have). Every text is decoded again before it is used; one that does not come back equal is
left alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import toon_format

from armory.llm.tokens import estimate_tokens
from armory.logger import Logger

_log = Logger(__name__)

_LEAST_SAVING = 0.05
"""Estimates of JSON and TOON differ by a few percent: a smaller saving may be none."""
_MIN_CHARS = 40
_MAX_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Saving:
    """Estimated tokens of the text blocks before and after."""

    before: int = 0
    after: int = 0

    def __add__(self, other: Saving) -> Saving:
        return Saving(self.before + other.before, self.after + other.after)


def encode_text(text: str) -> tuple[str, Saving]:
    """A JSON text as TOON, or the text itself where TOON is not smaller or not lossless.

    Only objects and arrays are looked at. The saving counts estimated tokens; it is 0 before and
    after where the text is no JSON.
    """
    start = text.lstrip()[:1]
    if start not in ("{", "[") or not _MIN_CHARS <= len(text) <= _MAX_CHARS:
        return text, Saving()
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return text, Saving()
    before = estimate_tokens(text)
    encoded = encode_value(value)
    if encoded is None:
        return text, Saving(before, before)
    after = estimate_tokens(encoded)
    if after > before * (1 - _LEAST_SAVING):
        return text, Saving(before, before)
    return encoded, Saving(before, after)


def encode_value(value: Any) -> str | None:
    """A JSON value as TOON; None when decoding does not give an equal value."""
    try:
        encoded = toon_format.encode(value)
        back = toon_format.decode(encoded)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        _log.debug("toon_not_lossless", reason=type(error).__name__)
        return None
    if not _equal(value, back):
        _log.debug("toon_not_lossless", reason="decodes to something else")
        return None
    return encoded


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its members; refused where a name is repeated, which TOON would lose."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated member name")
    return found


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: true is not 1, 1 is 1.0, member order does not count."""
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, dict) and isinstance(right, dict):
        ours, theirs = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return ours.keys() == theirs.keys() and all(_equal(v, theirs[k]) for k, v in ours.items())
    if isinstance(left, list) and isinstance(right, list):
        a, b = cast("list[Any]", left), cast("list[Any]", right)
        return len(a) == len(b) and all(map(_equal, a, b))
    return isinstance(left, str) and isinstance(right, str) and left == right
