"""Makes a schema of arguments valid JSON Schema (2020-12), keyword by keyword.

Model providers check the schemas of all tools of a request, and refuse the whole request for one
that is not valid: where several upstreams share a list, one upstream's schema would cost a client
every tool. Owns: how such a keyword is written instead, or that it is left out. Never imports
retrieval, policy or a transport.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from armory.openapi.keywords import OF_NAMED_SCHEMAS, OF_SCHEMA, OF_SCHEMAS, usable
from armory.protocol.headers import schemas_in

_BY_NAME = OF_NAMED_SCHEMAS | {"$defs", "definitions"}
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_ANCHOR = re.compile("[A-Za-z_][-A-Za-z0-9._]*")
_MEANT = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "str": "string",
    "text": "string",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "none": "null",
}
"""What other languages call the types."""


def valid(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with every keyword of the draft valid; the same object where nothing is wrong.

    Args:
        schema: nested at most as deep as a definition may be.
    """
    if all(_is_valid(node) for _, node in schemas_in(schema)):
        return schema
    return cast("Mapping[str, Any]", _mended(schema))


def _is_valid(node: Mapping[str, Any]) -> bool:
    """Whether the keywords of a schema are valid; the schemas within it are asked about apart."""
    return all(_may_stay(word, value) for word, value in node.items())


def _may_stay(word: str, value: Any) -> bool:
    check = _CHECKS.get(word)
    return usable(word, value) if check is None else check(value)


def _mended(node: Any) -> Any:
    """A valid schema; one that allows everything where there was none."""
    if not isinstance(node, dict):
        return node if isinstance(node, bool) else {}
    found: dict[str, Any] = {}
    for word, value in _rewritten(cast("dict[str, Any]", node)).items():
        if word in OF_SCHEMA and isinstance(value, dict):
            found[word] = _mended(value)
        elif word in OF_SCHEMAS and isinstance(value, list) and value:
            found[word] = [_mended(child) for child in cast("list[Any]", value)]
        elif word in _BY_NAME and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            found[word] = {name: _mended(child) for name, child in named.items()}
        elif _may_stay(word, value):
            found[word] = value
    return found


def _rewritten(node: dict[str, Any]) -> dict[str, Any]:
    """A schema with what has another form in this draft than in earlier ones, or another name; it
    no longer says which draft it is of.
    """
    found = dict(node)
    found.pop("$schema", None)
    if isinstance(id := found.get("$id"), str) and _ANCHOR.fullmatch(id[1:]) and id[0] == "#":
        found["$anchor"] = found.pop("$id")[1:]
    if usable("required", found.get("required")):
        found["required"] = list(dict.fromkeys(found["required"]))
    if isinstance(found.get("items"), list):
        found.setdefault("prefixItems", found.pop("items"))
        if "additionalItems" in found:
            found["items"] = found.pop("additionalItems")
    for word, bound in _BOUNDS.items():
        if isinstance(found.get(word), bool) and found.pop(word) and bound in found:
            found[word] = found.pop(bound)
    kind = found.get("type")
    if isinstance(kind, str):
        found["type"] = _type(kind)
    elif isinstance(kind, list):
        kinds = (_type(one) for one in cast("list[Any]", kind) if isinstance(one, str))
        found["type"] = list(dict.fromkeys(one for one in kinds if usable("type", one)))
    return found


def _type(name: str) -> str:
    """The type that a name stands for; any other name in lower case."""
    lower = name.lower()
    return _MEANT.get(lower, lower)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_anchor(value: Any) -> bool:
    return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and "#" not in value.removesuffix("#")


def _are_names(value: Any) -> bool:
    return usable("required", value) and len(value) == len(set(value))


def _are_schemas(value: Any) -> bool:
    return usable("allOf", value) and all(isinstance(child, dict | bool) for child in value)


def _by_name(*checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A check of an object, each of whose members passes one of the checks."""

    def holds(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        children = cast("dict[str, Any]", value).values()
        return all(any(check(child) for check in checks) for child in children)

    return holds


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "enum": lambda value: isinstance(value, list),
    "pattern": _is_text,  # of ECMAScript, which Python need not understand
    "required": _are_names,
    "dependentRequired": _by_name(_are_names),
    "dependencies": _by_name(_are_names, _is_schema),
    "$id": _is_id,
    **dict.fromkeys(("$schema", "$ref", "$dynamicRef", "$recursiveRef"), _is_text),
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), _is_anchor),
    **dict.fromkeys(_BY_NAME, _by_name(_is_schema)),
    **dict.fromkeys(OF_SCHEMAS, _are_schemas),
}
"""Where more is valid than in descriptions of APIs, or less."""
