"""The tools that Armory adds: `search_tools` and `call_tool` (`find_tools` has its own file).

Owns: their definitions, reading their arguments, and the shape of what `search_tools` answers.
Never imports retrieval; calls nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.domain.query import MAX_QUERY_CHARS, MAX_TEXTS, MAX_TOP_K, Query
from armory.domain.results import Selection
from armory.gateway.query_parsing import check_names, check_texts, check_top_k
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.meta import ALWAYS_LOAD, TOOL_REFERENCE
from armory.protocol.rawjson import brief, members_or_none, text_of, value

SEARCH = "search_tools"
CALL = "call_tool"
FIND = "find_tools"
META_TOOLS = frozenset((SEARCH, CALL, FIND))
MAX_DESCRIPTION = 1_000
_SEARCH_LEAD = (
    "Find tools by what you want to do. More tools exist than are listed: describe the task in "
    "plain words (several intents as a list) and get the matching tools with their input schemas. "
)
_CALL_TEXT = (
    "Call a tool by name, for tools found with search_tools that are not in the tool list. "
    "Give the exact name and the arguments as its inputSchema asks; the result is the tool's own."
)


def search_definition(servers: Mapping[str, ServerLists], *, call_tool: bool) -> dict[str, Any]:
    """`search_tools` as listed; its description names the servers, within 1,000 characters."""
    tail = (
        "Call what you find with call_tool. " if call_tool else "Call what you find by its name. "
    )
    return {
        "name": SEARCH,
        "title": "Search tools",
        "description": _SEARCH_LEAD
        + tail
        + _behind(servers, MAX_DESCRIPTION - len(_SEARCH_LEAD + tail)),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "description": "What the tool should do; a list for several intents.",
                    "anyOf": [
                        {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS},
                        {
                            "type": "array",
                            "items": {"type": "string", "minLength": 1},
                            "minItems": 1,
                            "maxItems": MAX_TEXTS,
                        },
                    ],
                },
                "top_k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_TOP_K,
                    "description": "At most so many tools.",
                },
                "servers": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Only tools of these servers.",
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "description": {"type": "string"},
                            "inputSchema": {"type": "object"},
                            "score": {"type": "number"},
                            "reason": {"type": "string"},
                        },
                        "required": ["name", "description", "inputSchema", "score", "reason"],
                    },
                },
                "returned": {"type": "integer"},
                "visible": {"type": "integer"},
            },
            "required": ["tools", "returned", "visible"],
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
        "_meta": {ALWAYS_LOAD: True},
    }


def call_definition() -> dict[str, Any]:
    """`call_tool` as listed."""
    return {
        "name": CALL,
        "title": "Call a tool",
        "description": _CALL_TEXT,
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's exact name."},
                "arguments": {"type": "object", "description": "The tool's arguments."},
            },
            "required": ["name"],
        },
        "_meta": {ALWAYS_LOAD: True},
    }


def purpose(key: str, lists: ServerLists) -> str:
    """One phrase that says what a server is for."""
    for text in (lists.info.get("description"), lists.instructions, lists.info.get("title")):
        if isinstance(text, str) and text.strip():
            first = " ".join(text.split()).split(". ")[0].rstrip(".")
            return first if len(first) <= 120 else f"{first[:117]}..."
    names = [str(tool.get("name")) for tool in lists.tools[:4] if tool.get("name")]
    return ", ".join(names) + (" ..." if len(lists.tools) > 4 else "") if names else key


def _behind(servers: Mapping[str, ServerLists], room: int) -> str:
    if not servers:
        return "No server is connected yet."
    lead = "Servers: "
    each = [f"{key} ({purpose(key, lists)})" for key, lists in servers.items()]
    text = lead + "; ".join(each) + "."
    if len(text) <= room:
        return text
    text = lead + ", ".join(servers) + "."
    if len(text) <= room:
        return text
    named: list[str] = []
    for key in servers:
        rest = f", and {len(servers) - len(named)} more."
        if len(lead + ", ".join([*named, key]) + rest) > room:
            break
        named.append(key)
    return lead + ", ".join(named) + f", and {len(servers) - len(named)} more."


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What `search_tools` was called with."""

    texts: tuple[str, ...]
    top_k: int | None
    servers: frozenset[str] | None

    def as_query(self, user: str | None) -> Query:
        """The query that it stands for."""
        return Query(self.texts, top_k=self.top_k, servers=self.servers, source="tool", user=user)


def read_search(params: Mapping[str, Raw]) -> SearchArguments:
    """The arguments of a `search_tools` call.

    Raises:
        RpcError: one is missing or out of range.
    """
    arguments = _arguments(params)
    raw = arguments.get("query")
    if raw is None:
        raise RpcError(
            INVALID_PARAMS,
            "arguments.query is missing; expected what you want to do, in plain words",
            {"parameter": "query"},
        )
    texts = check_texts(value(raw), "arguments.query")
    top_k = _optional(arguments, "top_k")
    servers = _optional(arguments, "servers")
    return SearchArguments(
        texts,
        None if top_k is None else check_top_k(top_k, "arguments.top_k"),
        None if servers is None else check_names(servers, "arguments.servers"),
    )


def read_call(params: Mapping[str, Raw]) -> dict[str, Raw]:
    """The `tools/call` parameters that a `call_tool` call stands for.

    Raises:
        RpcError: no name, or arguments that are no object.
    """
    arguments = _arguments(params)
    name = text_of(arguments, "name")
    if name is None:
        raise RpcError(
            INVALID_PARAMS,
            "arguments.name is missing; expected the tool's exact name",
            {"parameter": "name"},
        )
    changed = {key: raw for key, raw in params.items() if key not in ("name", "arguments")}
    changed["name"] = arguments["name"]
    inner = arguments.get("arguments")
    if inner is not None and bytes(memoryview(inner)) != b"null":
        if members_or_none(inner) is None:
            raise RpcError(
                INVALID_PARAMS,
                f"arguments.arguments is {brief(inner)}; expected an object, the called tool's own "
                "arguments",
                {"parameter": "arguments"},
            )
        changed["arguments"] = inner
    return changed


def _arguments(params: Mapping[str, Raw]) -> dict[str, Raw]:
    raw = params.get("arguments")
    if raw is None:
        return {}
    opened = members_or_none(raw)
    if opened is None:
        raise RpcError(
            INVALID_PARAMS,
            f"params.arguments is {brief(raw)}; expected an object",
            {"parameter": "arguments"},
        )
    return opened


def _optional(arguments: Mapping[str, Raw], name: str) -> Any:
    raw = arguments.get(name)
    return None if raw is None else value(raw)


def found_structure(selection: Selection) -> dict[str, Any]:
    """The `structuredContent` of a `search_tools` answer."""
    return {
        "tools": [
            {
                "name": match.tool.name,
                "description": match.tool.description,
                "inputSchema": match.tool.input_schema or {"type": "object"},
                "score": round(match.score, 4),
                "reason": match.reason,
            }
            for match in selection.matches
        ],
        "returned": len(selection.matches),
        "visible": selection.visible,
    }


def wants_references(capabilities: Mapping[str, Any]) -> bool:
    """Whether the client declares that it understands `tool_reference` content blocks."""
    for place in ("extensions", "experimental"):
        declared = capabilities.get(place)
        if isinstance(declared, dict) and TOOL_REFERENCE in cast("dict[str, Any]", declared):
            return True
    return False


def found_blocks(names: Sequence[str], text: str, *, references: bool) -> list[dict[str, Any]]:
    """The `content` of a `search_tools` answer."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if references:
        blocks.extend({"type": "tool_reference", "tool_name": name} for name in names)
    return blocks


def as_text(structure: Mapping[str, Any]) -> str:
    """A structure as compact JSON text."""
    return msgspec.json.encode(structure).decode()
