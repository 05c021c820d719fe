"""Swagger 2.0 as OpenAPI 3.0.

Owns: what of a description is written otherwise there: where the API is, parameters, bodies and
forms. Schemas stay where they are, and as they are. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from armory.openapi.references import BadDescription, Object, followed

_METHODS = ("get", "put", "post", "delete", "patch")
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_ABOUT = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue")
_LISTS: Mapping[Any, tuple[str, bool]] = {
    "multi": ("form", True),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
}


def as_openapi(content: Object) -> dict[str, Any]:
    """The same description; an operation that cannot be written anew stays as it is."""
    found = {**content, "openapi": "3.0.3", "servers": _servers(content)}
    del found["swagger"]
    paths = content.get("paths")
    if isinstance(paths, dict):
        found["paths"] = {
            path: _item(content, node) for path, node in cast("dict[str, Any]", paths).items()
        }
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


def _item(content: Object, node: Any) -> Any:
    try:
        item = followed(content, node)
        if not isinstance(item, dict):
            return node
        given = cast("dict[str, Any]", item)
        shared = _listed(given.get("parameters"))
    except BadDescription:
        return node
    written = {key: value for key, value in given.items() if key != "parameters"}
    for method in _METHODS:
        operation: Any = given.get(method)
        if isinstance(operation, dict):
            try:
                written[method] = _operation(content, shared, cast("dict[str, Any]", operation))
            except BadDescription:  # said again where it is read
                written[method] = {**operation, "parameters": [{"$ref": "#/-"}]}
    return written


def _listed(parameters: Any) -> list[Any]:
    if parameters is None:
        return []
    if not isinstance(parameters, list):
        raise BadDescription("its parameters are no list")
    return cast("list[Any]", parameters)


def _operation(content: Object, shared: list[Any], operation: Object) -> dict[str, Any]:
    by_place: dict[tuple[Any, Any], dict[str, Any]] = {}
    for node in (*shared, *_listed(operation.get("parameters"))):
        parameter = followed(content, node)
        if not isinstance(parameter, dict):
            raise BadDescription("a parameter is no object")
        given = cast("dict[str, Any]", parameter)
        by_place[str(given.get("in")), str(given.get("name"))] = given
    found = {key: value for key, value in operation.items() if key != "parameters"}
    plain = [p for (place, _), p in by_place.items() if place not in ("body", "formData")]
    found["parameters"] = [_parameter(parameter) for parameter in plain]
    form = [p for (place, _), p in by_place.items() if place == "formData"]
    whole = next((p for (place, _), p in by_place.items() if place == "body"), None)
    kinds = [*_texts(operation.get("consumes", content.get("consumes")))]
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


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (text for text in cast("list[Any]", value) if isinstance(text, str))


def _form(members: list[dict[str, Any]], kinds: list[str]) -> dict[str, Any]:
    required = [m["name"] for m in members if m.get("required") is True and "name" in m]
    files = any(member.get("type") == "file" for member in members)
    several = files or (_MULTIPART in kinds and _FORM not in kinds)
    schema = {
        "type": "object",
        "properties": {str(m.get("name")): _schema(m, described=True) for m in members},
        "required": required,
    }
    kind = _MULTIPART if several else _FORM
    lists = {str(m.get("name")): _written(m) for m in members if m.get("type") == "array"}
    return {"content": {kind: {"schema": schema, "encoding": lists}}, "required": bool(required)}


def _parameter(given: dict[str, Any]) -> dict[str, Any]:
    found = {k: v for k, v in given.items() if k in ("name", "in", "required", "description")}
    if given.get("type") == "array":
        found |= _written(given, styles=given.get("in") == "query")
    return {**found, "schema": given.get("schema", _schema(given))}


def _written(given: Object, *, styles: bool = True) -> dict[str, Any]:
    """How a list is written."""
    style, explode = _LISTS.get(given.get("collectionFormat"), ("", False))
    return {"explode": explode, **({"style": style} if style and styles else {})}


def _schema(given: Object, *, described: bool = False) -> dict[str, Any]:
    """What a parameter says of its values, as a schema."""
    kept = {k: v for k, v in given.items() if k not in _ABOUT}
    if described and "description" in given:
        kept["description"] = given["description"]
    if kept.get("type") == "file":
        kept |= {"type": "string", "format": "binary"}
    return kept
