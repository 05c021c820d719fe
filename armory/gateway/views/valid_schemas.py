"""Makes a schema of arguments valid JSON Schema (2020-12), keyword by keyword.

Model providers check the schemas of all tools of a request, and refuse the whole request for one
that is not valid: where several upstreams share a list, one upstream's schema would cost a client
every tool. Owns: how such a keyword is written instead, or that it is left out. Never imports
retrieval, policy or a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from armory.openapi.keywords import OF_NAMED_SCHEMAS, OF_SCHEMA, OF_SCHEMAS, usable
from armory.protocol.headers import schemas_in

_BY_NAME = OF_NAMED_SCHEMAS | {"$defs", "definitions"}
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
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
    if word == "pattern":  # of ECMAScript, which Python need not understand
        return isinstance(value, str)
    if word == "enum":
        return isinstance(value, list)
    if word in _BY_NAME:
        return isinstance(value, dict) and all(
            isinstance(child, dict | bool) for child in cast("dict[str, Any]", value).values()
        )
    if word in OF_SCHEMAS:
        return usable(word, value) and all(isinstance(child, dict | bool) for child in value)
    return usable(word, value)


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
    """A schema with what has another form in this draft than in earlier ones, or another name."""
    found = dict(node)
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
