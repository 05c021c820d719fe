"""Tools of other libraries: JSON of OpenAI and Anthropic, objects of LangChain and MCP's SDK.

Owns: converting them to MCP's JSON. Never imports those libraries, nor `Tool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

_SCHEMAS = ("parameters", "input_schema")
"""Names of the arguments' schema where it is not MCP's `inputSchema`."""
_ASIDE = (
    "type", "strict", "cache_control", "defer_loading", "allowed_callers", "input_examples",
    "eager_input_streaming", "async", "format",
)  # fmt: skip
"""Members that are for a model's API and say nothing of the tool."""
_ONE_TEXT = "tool_input"
_SCHEMA_MEMBERS = ("tool_call_schema", "args_schema", "params_json_schema", "fn_schema", *_SCHEMAS)


class ToolLike(Protocol):
    """An object that says which tool it is, as LangChain's tools and the models of MCP's SDK do."""

    @property
    def name(self) -> str:
        """The name by which models call the tool."""
        ...

    @property
    def description(self) -> str | None:
        """What the tool does."""
        ...


def as_mcp(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool in OpenAI's or Anthropic's form as MCP's JSON; anything else as it is."""
    kind = "custom" if given.get("type") == "custom" else "function"
    inner = given.get(kind)
    if isinstance(inner, Mapping):
        rest = {name: value for name, value in given.items() if name != kind}
        given = {**rest, **cast("Mapping[str, Any]", inner)}
    schema = next((name for name in _SCHEMAS if name in given), None)
    if "inputSchema" in given or (schema is None and "type" not in given):
        return given
    found = {name: value for name, value in given.items() if name not in _ASIDE}
    if schema is not None:
        found["inputSchema"] = found.pop(schema)
    if "output_schema" in found:
        found["outputSchema"] = found.pop("output_schema")
    return found


def of_object(given: Any) -> Mapping[str, Any] | None:
    """A tool object of another library as MCP's JSON; None where it is no tool.

    LangChain's tools and those like them have a name, a description and a schema, LlamaIndex's in
    their metadata; MCP's SDK has pydantic models, and FastMCP makes them.
    """
    if isinstance(given, type):
        return None
    if callable(made := getattr(given, "to_mcp_tool", None)):
        given = made()
    named = isinstance(getattr(given, "name", None), str)
    says = given if named else getattr(given, "metadata", None)
    name, description = getattr(says, "name", None), getattr(says, "description", None)
    if not isinstance(name, str):
        return None
    if hasattr(given, "model_dump") and not hasattr(given, "args_schema"):
        definition: Any = given.model_dump(by_alias=True, exclude_none=True)
        return cast("Mapping[str, Any]", definition) if isinstance(definition, Mapping) else None
    if not isinstance(description, str):
        return None
    schemas = (_of_one_text(given), *(getattr(says, member, None) for member in _SCHEMA_MEMBERS))
    found: dict[str, Any] = {"name": name, "description": description}
    for schema in schemas:
        if hasattr(schema, "model_json_schema"):
            schema = cast("Any", schema).model_json_schema()
        if isinstance(schema, Mapping):
            found["inputSchema"] = schema
            break
    runs = given if callable(given) else getattr(given, "invoke", None)
    return {**found, "handle": runs if callable(runs) else None}


def _of_one_text(given: Any) -> Mapping[str, Any] | None:
    """The schema of LangChain's `Tool`, whose own is of how it calls its function; else None."""
    args = getattr(given, "args", None)
    if not isinstance(args, Mapping) or list(cast("Mapping[str, Any]", args)) != [_ONE_TEXT]:
        return None
    return {"type": "object", "properties": dict(args), "required": [_ONE_TEXT]}
