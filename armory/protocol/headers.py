"""MCP's HTTP headers.

Owns: their names, the encoding of what is no safe header value, which parameters of a tool travel
as headers, too (`x-mcp-header` in its schema), and reading `Retry-After`. Never imports a
transport.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
"""Repeats the name, URI or task id that is in the request's parameters."""
PARAM_PREFIX = "Mcp-Param-"
LAST_EVENT_ID = "Last-Event-ID"
"""Names the last event received of the stream that is to be resumed."""

_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*+(?<! ))?")
_SENTINEL = "=?base64?"
_END = "?="
HEADER_KEY = "x-mcp-header"
HEADER_KEY_JSON = f'"{HEADER_KEY}"'.encode()
"""The annotation in an encoded schema: bytes without it need not be decoded."""
Declared = Mapping[str, tuple[tuple[str, ...], str]]
"""Header -> (path in the arguments, type)."""
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What HTTP allows as the name of a header or a cookie."""
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_MIRRORED = ("string", "integer", "boolean")
_ONE = frozenset(
    (
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    )
)
_LIST = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_BY_NAME = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))
"""Keywords of JSON Schema 2020-12 whose value is a schema, several of them, or some by name."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds in a `Retry-After` header; None where there is none, it is a date, or it is too
    long to wait for.

    Args:
        headers: the answer's, looked up without regard to case.
    """
    text = headers.get("Retry-After", "")
    return float(text) if _SECONDS.fullmatch(text) else None


def header_value(text: str) -> str:
    """`text` if it is a safe header value, else its `=?base64?...?=` form."""
    if not text or (_SAFE.fullmatch(text) and not text.startswith(_SENTINEL)):
        return text
    packed = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"{_SENTINEL}{packed}{_END}"


def header_text(value: str | None) -> str | None:
    """The text that `header_value` encoded; None for no header and for an invalid encoding.

    Only the canonical form of base64 counts, so that no two values mean the same text.
    """
    if value is None or not (value.startswith(_SENTINEL) and value.endswith(_END)):
        return value
    packed = value[len(_SENTINEL) : -len(_END)]
    try:
        data = base64.b64decode(packed, validate=True)
        text = data.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return text if base64.b64encode(data).decode("ascii") == packed else None


def rendered(value: Any) -> str | None:
    """An argument as text for a header; None for types without one, like objects and null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # an integer of more digits than Python prints
        return None


def declared_headers(schema: Mapping[str, Any]) -> dict[str, tuple[tuple[str, ...], str]]:
    """The headers that a schema asks for: header -> (path in the arguments, type).

    Only annotations on a chain of `properties` count, as the specification demands; malformed ones
    are left out.
    """
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    stack: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        token = node.get(HEADER_KEY)
        if path and isinstance(token, str) and _flaw(node) is None:
            found[f"{PARAM_PREFIX}{token}"] = (path, cast("str", node["type"]))
        properties = node.get("properties")
        if isinstance(properties, dict):
            for name, child in cast("dict[str, Any]", properties).items():
                if isinstance(child, dict):
                    stack.append(((*path, name), cast("dict[str, Any]", child)))
    return found


def annotation_problem(schema: object) -> str | None:
    """Why a tool with this schema must not be offered over HTTP; None: nothing is wrong.

    An annotation is valid on a property that a chain of `properties` leads to, whose type is
    string, integer or boolean, and which names a header that no other property names.
    """
    seen: dict[str, str] = {}
    for path, node in schemas_in(schema):
        if HEADER_KEY not in node:
            continue
        if not path:
            return f"{HEADER_KEY} stands where no chain of `properties` leads"
        where = ".".join(path)
        flaw = _flaw(node)
        if flaw is not None:
            return f"property {where!r}: {flaw}"
        header = cast("str", node[HEADER_KEY])
        other = seen.get(header.lower())
        if other is not None:
            return f"property {where!r}: {HEADER_KEY} {header!r} is that of {other!r}, too"
        seen[header.lower()] = where
    return None


def _flaw(node: Mapping[str, Any]) -> str | None:
    """What is wrong with the annotation of one property."""
    header, kind = node[HEADER_KEY], node.get("type")
    if not isinstance(header, str):
        return f"{HEADER_KEY} is no string"
    if not HEADER_NAME.fullmatch(header):
        return f"{HEADER_KEY} {header!r} cannot be part of a header's name"
    if kind not in _MIRRORED:
        shown = repr(kind) if isinstance(kind, str) else "no single type"
        return f"{HEADER_KEY} is for strings, integers and booleans; the type is {shown}"
    return None


def unannotated(schema: Any) -> Any:
    """A schema without `x-mcp-header` annotations, for clients that need not send headers; the same
    object where there are none.
    """
    return _without_key(schema) if HEADER_KEY_JSON in msgspec.json.encode(schema) else schema


def _without_key(node: Any) -> Any:
    if isinstance(node, dict):
        source = cast("dict[str, Any]", node)
        changed = {
            key: _without_key(child)
            for key, child in source.items()
            if key != HEADER_KEY or isinstance(child, dict)  # a property may bear this name
        }
        same = len(changed) == len(source) and all(changed[k] is source[k] for k in changed)
        return source if same else changed
    if isinstance(node, list):
        items = cast("list[Any]", node)
        copies = [_without_key(child) for child in items]
        return items if all(a is b for a, b in zip(copies, items, strict=True)) else copies
    return node


def schemas_in(root: object) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every schema in `root` with its path of `properties`; None: something other than these leads
    there.
    """
    stack: list[tuple[tuple[str, ...] | None, object]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        schema = cast("dict[str, Any]", node)
        yield path, schema
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                for name, child in cast("dict[str, Any]", value).items():
                    stack.append((None if path is None else (*path, name), child))
            elif key in _ONE:
                stack.append((None, value))
            elif key in _LIST and isinstance(value, list):
                stack.extend((None, child) for child in cast("list[object]", value))
            elif key in _BY_NAME and isinstance(value, dict):
                stack.extend((None, child) for child in cast("dict[str, object]", value).values())
