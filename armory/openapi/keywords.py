"""JSON Schema keywords, and which values of them are valid.

Owns: the type of each keyword's value, and which keywords hold schemas. Real descriptions have
`type: any`, `required: true` on a member, and patterns of other languages; clients that compile
schemas reject a tool with one of these. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

OF_SCHEMA = frozenset(
    (
        "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema",
    )
)  # fmt: skip
OF_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
OF_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "dependentSchemas"))
"""Words whose value is a schema, several of them, or some by name."""
_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_PATTERN_CHARS = 1_000
_PATTERNS_KEPT = 30_000
_KEPT_CHARS = 200
"""Longest pattern for which the result of compiling it is cached."""
_WIDE_SIGNS = ("\\u", "\\U", "\\N")
_SET_STEPS = 4_000
_SET_SIGNS = ("[[", "--", "&&", "~~", "||")
"""Python warns of these within a set; elsewhere they mean nothing new."""


def pattern_steps(pattern: str) -> int:
    """The cost of checking whether a pattern compiles: milliseconds for each character set beyond
    Latin-1.
    """
    wide = not pattern.isascii() or any(sign in pattern for sign in _WIDE_SIGNS)
    return _SET_STEPS * pattern[:_PATTERN_CHARS].count("[") if wide else 0


def usable(word: str, value: Any) -> bool:
    """Whether a keyword with this value may stay in a schema."""
    check = _CHECKS.get(word)
    return check is None or check(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _array(value: Any) -> bool:
    return isinstance(value, list)


def _filled(value: Any) -> bool:
    return isinstance(value, list) and bool(cast("list[Any]", value))


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _step(value: Any) -> bool:
    return _number(value) and value > 0


def _type(value: Any) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    if not isinstance(value, list):
        return False
    kinds = cast("list[Any]", value)
    known = all(isinstance(kind, str) and kind in _TYPES for kind in kinds)
    return known and 0 < len(kinds) == len(set(kinds))


def _pattern(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > _PATTERN_CHARS:
        return False
    return _known(value) if len(value) <= _KEPT_CHARS else _compiles(value)


def _compiles(pattern: str) -> bool:
    if "(?P" in pattern:
        return False
    if any(pair in pattern for pair in _SET_SIGNS):
        return True
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


_known = lru_cache(_PATTERNS_KEPT)(_compiles)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast("list[Any]", value))


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "contentEncoding"), _text),
    **dict.fromkeys(("contentMediaType", "$comment"), _text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
    **dict.fromkeys(OF_SCHEMA, _schema),
    **dict.fromkeys(OF_SCHEMAS, _filled),
    **dict.fromkeys(OF_NAMED_SCHEMAS, _object),
    "dependentRequired": _object,
    "multipleOf": _step,
    "enum": _filled,
    "examples": _array,
    "required": _names,
    "pattern": _pattern,
    "type": _type,
}
