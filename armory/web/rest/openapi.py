"""The API description (OpenAPI 3.1), generated from the table of routes, and a page that shows it.

Owns: the document. Never lists a route by itself.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from armory.web.rest.problems import PROBLEM_JSON, TITLES
from armory.web.rest.routes import Route

_REF = "#/components/schemas/{model}"
_REQUEST_ID = {"X-Request-ID": {"schema": {"type": "string"}, "description": "Names the request."}}
_LIMITS = {
    "X-RateLimit-Limit": "Queries a month that the plan includes.",
    "X-RateLimit-Remaining": "Queries left this month.",
    "X-RateLimit-Reset": "Seconds since 1970 when the next month begins.",
}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Stable, machine-readable kind."},
        "detail": {"type": "string", "description": "What happened and what was expected."},
        "parameter": {"type": "string", "description": "The offending parameter."},
        "request_id": {"type": "string"},
        "problems": {
            "type": "array",
            "items": {"type": "object"},
            "description": "All of them, where a configuration has several.",
        },
    },
}
_CODE = re.compile(r"`([^`]+)`")


def describe(routes: Iterable[Route], info: Mapping[str, Any], base_path: str) -> dict[str, Any]:
    """The OpenAPI document of `routes`."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = paths.setdefault(base_path + route.path, {})
        path[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": info["title"],
            "version": str(info["version"]),
            "description": "Tool retrieval, packs, keys, usage and status of an Armory gateway.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key `acx_...`, a session token, or a static token.",
                }
            },
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": _responses(route, schemas),
    }
    if route.description:
        operation["description"] = route.description
    if route.access != "public":
        operation["security"] = [{"bearer": []}, {}]
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": text,
            "schema": {"type": "string", "minLength": 1},
        }
        for name, text in route.path_params.items()
    ]
    parameters += [
        {"name": name, "in": "header", "required": True, "description": text,
         "schema": {"type": "string", "minLength": 1}}
        for name, text in route.header_params.items()
    ]  # fmt: skip
    if route.params is not None:
        schema = _schema(route.params, schemas)
        needed = set(schema.get("required", ()))
        parameters += [
            {
                "name": name,
                "in": "query",
                "required": name in needed,
                "description": part.pop("description", ""),
                "schema": part,
            }
            for name, part in schema["properties"].items()
        ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _model(route.body, schemas)}},
        }
    return operation


def _responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    headers: dict[str, Any] = dict(_REQUEST_ID)
    if route.limit_headers:
        for name, text in _LIMITS.items():
            headers[name] = {"schema": {"type": "integer"}, "description": text}
    done: dict[str, Any] = {"description": "Done", "headers": headers}
    if route.answer is not None:
        done["content"] = {"application/json": {"schema": _model(route.answer, schemas)}}
        if route.streams:
            done["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    found: dict[str, Any] = {str(route.status): done}
    for status in route.statuses:
        extra = dict(_REQUEST_ID)
        if status in {429, 503}:
            extra["Retry-After"] = {"schema": {"type": "integer"}, "description": "Seconds."}
        found[str(status)] = {
            "description": TITLES[status],
            "headers": extra,
            "content": {PROBLEM_JSON: problem},
        }
    return found


def _model(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schemas[model.__name__] = _schema(model, schemas)
    return {"$ref": _REF.format(model=model.__name__)}


def _schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_REF)
    schemas.update(schema.pop("$defs", {}))
    return schema


def page(document: Mapping[str, Any]) -> str:
    """An HTML page with the description; no scripts, nothing from other sites."""
    parts: list[str] = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_entry(path, method, operation))
    title = html.escape(str(document["info"]["title"]))
    return _PAGE.format(title=title, entries="\n".join(parts), version=document["info"]["version"])


def _entry(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(p['name'])}</code></td><td>{p['in']}</td>"
        f"<td>{'required' if p['required'] else ''}</td>"
        f"<td>{_prose(p.get('description', ''))}</td></tr>"
        for p in operation.get("parameters", ())
    )
    body = operation.get("requestBody")
    if body:
        name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        rows += f"<tr><td>body</td><td>JSON</td><td>required</td><td><code>{name}</code></td></tr>"
    statuses = ", ".join(operation["responses"])
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{html.escape(path)}</code> "
        f"{html.escape(operation['summary'])}</summary>"
        f"<p>{_prose(operation.get('description', ''))}</p>"
        f"<table>{rows}</table><p>Answers: {statuses}</p></details>"
    )


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
overflow-wrap: anywhere; background: Canvas; color: CanvasText }}
details {{ border: 1px solid #8886; border-radius: 6px; margin: .4rem 0; padding: .4rem .8rem }}
summary {{ cursor: pointer }} code {{ font-size: .95em }}
table {{ border-collapse: collapse; width: 100% }}
td {{ border-top: 1px solid #8884; padding: .2rem .5rem; vertical-align: top }}
</style></head><body><main>
<h1>{title} API</h1><p>Version {version}. The description for programs is
<a href="openapi.json">openapi.json</a> (OpenAPI 3.1). Send
<code>Authorization: Bearer &lt;key or token&gt;</code>; errors are
<code>application/problem+json</code>.</p>
{entries}
</main></body></html>
"""
