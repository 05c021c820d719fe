"""Repairs definitions so that every client can read them, whatever their upstream wrote.

The official SDKs refuse a whole list for one entry that is not as the specification has it: where
several upstreams share a list, one entry would cost all of them theirs. Owns: what is left out of
such an entry, or added. What is as it should be, unknown members included, stays as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import unquote

from armory.gateway.views.valid_schemas import valid
from armory.protocol.headers import schemas_in

_OUT = object()
"""Stands for what is left out."""
_FEW_VALUES = 2_000
"""Values of a schema that are looked at, which takes less than a millisecond."""
_DIGITS = 9
"""Most digits of a position in a list."""
_Mend = Callable[[Any], Any]
"""Gives a value as it may be listed: the very value where nothing is wrong, or `_OUT`."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def readable(definition: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A definition that every client can read; the same object where nothing is wrong.

    Args:
        definition: of a tool, a prompt, a resource or a resource template.
        kind: `tools`, `prompts`, `resources` or `templates`.
    """
    found: Mapping[str, Any] = _ENTRIES[kind](definition)
    if kind == "tools":
        given = found.get("inputSchema")
        schema = _arguments(given)
        return found if schema is given else {**found, "inputSchema": schema}
    if kind != "prompts" and "name" not in found:
        return {**found, "name": found["uri" if kind == "resources" else "uriTemplate"]}
    return found


def _arguments(given: object) -> Mapping[str, Any]:
    """A schema of arguments: that of an object, and valid, which model providers insist on."""
    schema = _schema(given)
    if schema is _OUT:
        return {"type": "object"}
    if _has_few_values(schema):
        schema = valid(schema)
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _of_kinds(*kinds: type) -> _Mend:
    return lambda value: value if type(value) in kinds else _OUT


def _where(holds: Callable[[Any], bool]) -> _Mend:
    return lambda value: value if holds(value) else _OUT


def _list(mend: _Mend) -> _Mend:
    """A list with repaired items; those beyond repair are left out."""

    def mended(value: Any) -> Any:
        if not isinstance(value, list):
            return _OUT
        given = cast("list[Any]", value)
        items = [mend(item) for item in given]
        same = all(item is other for item, other in zip(items, given, strict=True))
        return given if same else [item for item in items if item is not _OUT]

    return mended


def _object(members: Mapping[str, _Mend], *needed: str) -> _Mend:
    """An object with repaired members; left out where a required one is missing."""

    def mended(value: Any) -> Any:
        if not isinstance(value, dict):
            return _OUT
        given = found = cast("dict[str, Any]", value)
        for name, mend in members.items():
            if name in given and (member := mend(given[name])) is not given[name]:
                found = {**found, name: member}
        if found is not given:
            found = {name: member for name, member in found.items() if member is not _OUT}
        return found if all(name in found for name in needed) else _OUT

    return mended


def _properties(value: Any) -> Any:
    """Schemas by name; an invalid one becomes `true`."""
    if not isinstance(value, dict):
        return _OUT
    given = cast("dict[str, Any]", value)
    if all(type(schema) in (dict, bool) for schema in given.values()):
        return given
    return {name: s if type(s) in (dict, bool) else {} for name, s in given.items()}


def _results(value: Any) -> Any:
    """A schema of results. The TypeScript SDK of the handshake era compiles all schemas of a list,
    and fails at the first bad one: such a schema is left out.
    """
    schema = _schema(value)
    return schema if schema is _OUT or _compiles(schema) else _OUT


def _compiles(schema: Mapping[str, Any]) -> bool:
    """Whether its types and references exist. A very large schema is assumed to compile: checking
    it would hold the event loop for seconds.
    """
    if not _has_few_values(schema):
        return True
    nodes = [node for _, node in schemas_in(schema)]
    kinds = [node.get("type") for node in nodes]
    if any(isinstance(kind, str) and kind not in _TYPES for kind in kinds):
        return False
    if any("$id" in node for node in nodes if node is not schema):
        return True  # pointers begin there, and clients know more of that
    refs = [ref for node in nodes if isinstance(ref := node.get("$ref"), str)]
    return all(_leads(schema, ref) for ref in refs if not ref.startswith("#") or "/" in ref)


def _has_few_values(schema: Mapping[str, Any]) -> bool:
    """Whether a schema has at most `_FEW_VALUES` values, at any depth; counting stops there."""
    seen, open_ones = 0, [iter(schema.values())]
    while open_ones:
        for value in open_ones[-1]:
            seen += 1
            if seen > _FEW_VALUES:
                return False
            if isinstance(value, dict):
                open_ones.append(iter(cast("dict[str, Any]", value).values()))
                break
            if isinstance(value, list):
                open_ones.append(iter(cast("list[Any]", value)))
                break
        else:
            open_ones.pop()
    return True


def _leads(schema: Mapping[str, Any], ref: str) -> bool:
    """Whether a reference resolves within a schema."""
    outside, _, pointer = ref.partition("#")
    if outside and outside != schema.get("$id"):
        return False
    found: Any = schema
    for step in unquote(pointer).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and step in found:
            found = cast("dict[str, Any]", found)[step]
        elif isinstance(found, list) and (place := _place(step)) < len(found):  # pyright: ignore
            found = cast("list[Any]", found)[place]
        else:
            return False
    return True


def _place(step: str) -> int:
    """The index that a step of a JSON pointer names; beyond any list where it is none (Python
    refuses to convert thousands of digits).
    """
    return int(step) if step.isdecimal() and len(step) <= _DIGITS else sys.maxsize


def _is_moment(value: Any) -> bool:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


_TYPES = frozenset(("null", "boolean", "object", "array", "number", "integer", "string"))
_TEXT, _FLAG, _ANY = _of_kinds(str), _of_kinds(bool), _of_kinds(dict)
_TEXTS = _list(_TEXT)
_schema = _object({"$schema": _TEXT, "properties": _properties, "required": _TEXTS})
_ICON = _object(
    {
        "src": _TEXT,
        "mimeType": _TEXT,
        "sizes": _TEXTS,
        "theme": _where(lambda value: value in ("light", "dark")),
    },
    "src",
)
_COMMON = {"title": _TEXT, "description": _TEXT, "icons": _list(_ICON), "_meta": _ANY}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_LISTED = {
    **_COMMON,
    "name": _TEXT,
    "mimeType": _TEXT,
    "annotations": _object(
        {
            "audience": _list(_where(lambda value: value in ("user", "assistant"))),
            "priority": _where(lambda value: type(value) in (int, float) and 0 <= value <= 1),
            "lastModified": _where(_is_moment),
        }
    ),
}
_SUPPORT = ("required", "optional", "forbidden")
_ENTRIES: Mapping[str, _Mend] = {
    "tools": _object(
        {
            **_COMMON,
            "outputSchema": _results,
            "annotations": _object({"title": _TEXT, **dict.fromkeys(_HINTS, _FLAG)}),
            "execution": _object({"taskSupport": _where(lambda value: value in _SUPPORT)}),
        }
    ),
    "prompts": _object(
        {
            **_COMMON,
            "arguments": _list(
                _object(
                    {"name": _TEXT, "title": _TEXT, "description": _TEXT, "required": _FLAG},
                    "name",
                )
            ),
        }
    ),
    "resources": _object(
        {
            **_LISTED,
            "size": _where(lambda n: type(n) is int or (type(n) is float and n.is_integer())),
        }
    ),
    "templates": _object(_LISTED),
}
"""What the specification's schemas say of each kind, as far as clients refuse what is not so."""
