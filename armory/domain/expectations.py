"""Messages that say what a value should have been.

Owns: the words for each kind of error that pydantic finds, for `armory.yaml` and for REST alike.
Never imports anything but the standard library: a kind is its name, with its numbers beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAPPING = "a mapping of keys"
_PLAIN: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 4,300 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number that is not infinite",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": MAPPING,
    "model_type": MAPPING,
    "model_attributes_type": MAPPING,
    "none_required": "nothing",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LENGTHS: Mapping[str, tuple[str, str]] = {
    "string_too_short": ("at least", "min_length"),
    "string_too_long": ("at most", "max_length"),
    "too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
}


def expectation(
    kind: str, context: Mapping[str, Any], given: object, patterns: Mapping[str, str]
) -> str | None:
    """What was expected, as the words after "expected"; None for kinds whose message says it
    already.

    Args:
        kind: the type of a pydantic error, e.g. `greater_than_equal`.
        context: its numbers, e.g. `{"ge": 1}`.
        given: what came instead; the length of a text counts characters, that of others entries.
        patterns: regular expressions that texts are held against, and what each asks for.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "literal_error":
        return str(context.get("expected", ""))
    if kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        return f"{word} {_number(context.get(name))}"
    if kind in _LENGTHS:
        word, name = _LENGTHS[kind]
        units = ("character", "characters") if isinstance(given, str) else ("entry", "entries")
        number = int(context.get(name, 0))
        return f"{word} {_number(number)} {units[number != 1]}"
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern", ""))
        return patterns.get(pattern, f"text that matches {pattern}")
    return None


def _number(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
