"""Canonical JSON (RFC 8785, section 3.2, keys by code point), as input for digests.

Owns: that form. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

_EXACT = 1 << 53
"""Larger integers are rounded to a double, as JSON's numbers are elsewhere."""


def canonical(value: Any) -> str:
    """A parsed JSON value as canonical text."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        members = sorted(cast("Mapping[str, Any]", value).items())
        return "{" + ",".join(f"{canonical(key)}:{canonical(kept)}" for key, kept in members) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(canonical(kept) for kept in cast("Sequence[Any]", value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return _number(value)


def _number(value: float) -> str:
    """A number in ECMAScript's form: the fewest digits that identify the double."""
    if isinstance(value, int) and abs(value) <= _EXACT:
        return str(value)
    try:
        double = float(value)
    except OverflowError:  # ECMAScript reads Infinity, and writes that so
        return "null"
    if double == 0:
        return "0"
    digits = repr(double)
    if 1e-6 <= abs(double) < 1e21:
        return format(Decimal(digits), "f").removesuffix(".0")
    mantissa, _, exponent = digits.partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"
