"""JSON Schema of `armory.yaml`, for editors.

Owns: the export. Never imports a room.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from collections.abc import Iterator
from typing import Any

from armory.config.base import Block
from armory.config.model import Config
from armory.domain.naming import SERVER_KEY

SCHEMA_FILE = "armory.schema.json"
_VARIABLE = {"type": "string", "pattern": r"\$\{[^}]+\}", "description": "Filled by a variable."}


def config_schema() -> dict[str, Any]:
    """The schema as a JSON object (draft 2020-12).

    Numbers, booleans and choices may be written as `${VAR}` too. Client maps (`mcpServers`,
    `servers`) are accepted at the top level with whatever they hold.
    """
    schema: dict[str, Any] = Config.model_json_schema()
    _describe(schema)
    _accept_variables(schema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "armory.yaml"
    for name in ("mcpServers", "servers"):
        schema["properties"][name] = {
            "type": "object",
            "additionalProperties": {"type": "object"},
            "description": "A map of MCP servers as other clients write it; joins `upstreams`.",
        }
    for name in ("upstreams", "sets"):
        schema["properties"][name]["propertyNames"] = {"pattern": f"^{SERVER_KEY.pattern}$"}
    schema["properties"]["inputs"] = {"description": "VS Code's; ignored."}
    # what the loader fills in where the file is silent
    definitions: dict[str, Any] = schema["$defs"]
    for block in (schema, definitions["StorageConfig"]):
        block.pop("required", None)
    return schema


def schema_text() -> str:
    """The schema as it is written to files."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def _describe(schema: dict[str, Any]) -> None:
    """Give each key the text that stands below its field; read here alone, since it takes as long
    as making the models.
    """
    for block in _blocks(Block):
        shown = schema if block is Config else schema["$defs"].get(block.__name__, {})
        keys: dict[str, Any] = shown.get("properties", {})
        for base in block.__mro__[: block.__mro__.index(Block)]:
            for name, text in _texts(base).items():
                if name in keys and "description" not in keys[name]:
                    keys[name] = dict(sorted({**keys[name], "description": text}.items()))


def _blocks(block: type[Block]) -> Iterator[type[Block]]:
    yield block
    for inner in block.__subclasses__():
        yield from _blocks(inner)


def _texts(block: type) -> dict[str, str]:
    """Field -> the text below it."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(block))).body
    assert isinstance(made, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(made.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _accept_variables(node: Any) -> None:
    if isinstance(node, list):
        for entry in node:
            _accept_variables(entry)
        return
    if not isinstance(node, dict):
        return
    for entry in node.values():
        _accept_variables(entry)
    properties = node.get("properties")
    if not isinstance(properties, dict):
        return
    for name, inner in properties.items():
        simple = inner.get("type") in ("integer", "number", "boolean") or "enum" in inner
        if simple:
            outer = {key: inner.pop(key) for key in ("default", "description") if key in inner}
            properties[name] = {"anyOf": [inner, _VARIABLE], **outer}
