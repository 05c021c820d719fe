"""Converts Swagger 2.0 to OpenAPI 3.0.

Owns: the parts that differ: servers, parameters, bodies and forms. Schemas stay where they are,
unchanged. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from armory.openapi.references import BadDescription, Object, References, listed_parameters

_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_ABOUT = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue")
_LISTS: Mapping[str, tuple[str, bool]] = {
    "multi": ("form", True),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
}


def as_openapi(content: Object) -> dict[str, Any]:
    """Convert a description, except its operations. Each operation is converted when it is read:
    shared parameters would otherwise be copied for all of them at once.
    """
    found = {**content, "openapi": "3.0.3", "servers": _servers(content)}
    del found["swagger"]
    return found


def operation_as_openapi(
    content: Object, references: References, item: Object, operation: Object
) -> tuple[Object, Object]:
    """Convert one operation: (the relevant members of the path item, the operation).

    Args:
        content: the whole description.
        references: of the same.
        item: the path item.
        operation: one of it.

    Raises:
        BadDescription: it cannot be written anew.
    """
    nodes = [node for w in (item, operation) for node in listed_parameters(w.get("parameters"))]
    kinds = operation.get("consumes", content.get("consumes"))
    given = [_object(references, node) for node in nodes]
    references.spend(len(operation) + (len(kinds) if isinstance(kinds, list) else 0))
    kept = {key: item[key] for key in ("servers", "summary") if key in item}
    return kept, _operation([*_texts(kinds)], given, operation)


def _object(references: References, node: Any) -> dict[str, Any]:
    parameter = references.followed(node)
    if not isinstance(parameter, dict):
        raise BadDescription("a parameter is no object")
    found = cast("dict[str, Any]", parameter)
    references.spend(len(found))
    return found


def _servers(content: Object) -> list[dict[str, str]]:
    host, base = content.get("host"), content.get("basePath")
    path = base if isinstance(base, str) else ""
    if not isinstance(host, str) or not host:
        return [{"url": path}] if path else []
    schemes: Any = content.get("schemes")
    known = cast("list[Any]", schemes) if isinstance(schemes, list) else []
    scheme = "http" if "http" in known and "https" not in known else "https"
    return [{"url": f"{scheme}://{host}{path}"}]


def _operation(
    kinds: list[str], parameters: list[dict[str, Any]], operation: Object
) -> dict[str, Any]:
    by_place = {(_text(given, "in"), _text(given, "name")): given for given in parameters}
    found = {key: value for key, value in operation.items() if key != "parameters"}
    plain = [p for (place, _), p in by_place.items() if place not in ("body", "formData")]
    found["parameters"] = [_parameter(parameter) for parameter in plain]
    form = [p for (place, _), p in by_place.items() if place == "formData"]
    whole = next((p for (place, _), p in by_place.items() if place == "body"), None)
    if whole is not None:
        media = {"schema": whole.get("schema", {})}
        found["requestBody"] = {
            "content": dict.fromkeys(kinds or ["application/json"], media),
            "required": whole.get("required") is True,
            **({"description": whole["description"]} if "description" in whole else {}),
        }
    elif form:
        found["requestBody"] = _form(form, kinds)
    return found


def _text(given: Object, key: str) -> str:
    value = given.get(key)
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (text for text in cast("list[Any]", value) if isinstance(text, str))


def _form(members: list[dict[str, Any]], kinds: list[str]) -> dict[str, Any]:
    required = [m["name"] for m in members if m.get("required") is True and "name" in m]
    files = any(member.get("type") == "file" for member in members)
    several = files or (_MULTIPART in kinds and _FORM not in kinds)
    schema = {
        "type": "object",
        "properties": {_text(m, "name"): _schema(m, described=True) for m in members},
        "required": required,
    }
    kind = _MULTIPART if several else _FORM
    lists = {_text(m, "name"): _written(m) for m in members if m.get("type") == "array"}
    return {"content": {kind: {"schema": schema, "encoding": lists}}, "required": bool(required)}


def _parameter(given: dict[str, Any]) -> dict[str, Any]:
    found = {k: v for k, v in given.items() if k in ("name", "in", "required", "description")}
    if given.get("type") == "array":
        found |= _written(given, styles=given.get("in") == "query")
    return {**found, "schema": given.get("schema", _schema(given))}


def _written(given: Object, *, styles: bool = True) -> dict[str, Any]:
    """The style of a list."""
    style, explode = _LISTS.get(_text(given, "collectionFormat"), ("", False))
    return {"explode": explode, **({"style": style} if style and styles else {})}


def _schema(given: Object, *, described: bool = False) -> dict[str, Any]:
    """The schema of a parameter's values."""
    kept = {k: v for k, v in given.items() if k not in _ABOUT}
    if described and "description" in given:
        kept["description"] = given["description"]
    if kept.get("type") == "file":
        kept |= {"type": "string", "format": "binary"}
    return kept
