"""JSON Schema of `armory.yaml`, for editors.

Owns: the export. Never imports a room.
"""

from __future__ import annotations

import json
from typing import Any

from armory.config.model import Config

SCHEMA_FILE = "armory.schema.json"
_VARIABLE = {"type": "string", "pattern": r"\$\{[^}]+\}", "description": "Filled by a variable."}


def config_schema() -> dict[str, Any]:
    """The schema as a JSON object (draft 2020-12).

    Numbers, booleans and choices may be written as `${VAR}` too. Client maps (`mcpServers`,
    `servers`) are accepted at the top level with whatever they hold.
    """
    schema: dict[str, Any] = Config.model_json_schema()
    _accept_variables(schema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "armory.yaml"
    for name in ("mcpServers", "servers"):
        schema["properties"][name] = {
            "type": "object",
            "additionalProperties": {"type": "object"},
            "description": "A map of MCP servers as other clients write it; joins `upstreams`.",
        }
    schema["properties"]["inputs"] = {"description": "VS Code's; ignored."}
    # what the loader fills in where the file is silent
    definitions: dict[str, Any] = schema["$defs"]
    for block in (schema, definitions["StorageConfig"]):
        block.pop("required", None)
    return schema


def schema_text() -> str:
    """The schema as it is written to files."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


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
