"""The definitions of the meta-tools: `search_tools`, `call_tool`, `find_tools`.

Owns: their names and definitions. Never imports retrieval; calls nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from armory.domain.catalog import Catalog, ServerLists
from armory.domain.query import MAX_QUERY_CHARS, MAX_TEXTS, MAX_TOP_K
from armory.domain.visibility import VisibleCatalog
from armory.gateway.settings import GatewaySettings
from armory.protocol.meta import ALWAYS_LOAD

SEARCH = "search_tools"
CALL = "call_tool"
FIND = "find_tools"
META_TOOLS = frozenset((SEARCH, CALL, FIND))
MAX_DESCRIPTION = 1_000
MAX_REJECTED = 1_000
_SEARCH_LEAD = (
    "Find tools by what you want to do. More tools exist than are listed: describe the task in "
    "plain words (several intents as a list) and get the matching tools with their input schemas. "
)
_CALL_TEXT = (
    "Call a tool by name, for tools {found}that are not in the tool list. "
    "Give the exact name and the arguments as its inputSchema asks; the result is the tool's own."
)
_FIND_TEXT = (
    "Find tools for a task that needs thinking about: a language model on the gateway searches, "
    "judges what it finds and searches again. {slower}for a task of several steps or in unusual "
    "words. Returns tools with their input schemas, best first."
)


_LOOKED_AT = 1_000
"""Characters of a server's instructions in which a phrase is sought that says what it is for."""
NAMED_TOOLS = 4
"""Tools of a server that are named where it does not say what it is for."""


def searching_tool(settings: GatewaySettings) -> str | None:
    """The name of the tool that models are told to search with; None: there is none."""
    return SEARCH if settings.search_tools else FIND if settings.find_tools else None


def search_definition(
    servers: Mapping[str, ServerLists],
    *,
    call_tool: bool,
    chars: int = MAX_QUERY_CHARS,
    top_k: int = MAX_TOP_K,
) -> dict[str, Any]:
    """`search_tools` as listed. Its description names the servers, within 1,000 characters.

    Args:
        servers: that the caller sees.
        call_tool: whether what is found is called with `call_tool`.
        chars: longest query.
        top_k: most tools that may be asked for.
    """
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
                        {"type": "string", "minLength": 1, "maxLength": chars},
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
                    "maximum": top_k,
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
                "skills": {
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "Instructions that fit; read them with resources/read.",
                },
                "returned": {"type": "integer"},
                "visible": {"type": "integer"},
                "unlikely": {
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "Where nothing fits: what comes nearest.",
                },
                "servers": {"type": "array", "items": {"type": "object"}},
                "advice": {"type": "string"},
            },
            "required": ["tools", "returned", "visible"],
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
        "_meta": {ALWAYS_LOAD: True},
    }


def call_definition(searching: str | None = SEARCH) -> dict[str, Any]:
    """`call_tool` as listed; `searching`: see `searching_tool`."""
    found = f"found with {searching} " if searching else ""
    return {
        "name": CALL,
        "title": "Call a tool",
        "description": _CALL_TEXT.format(found=found),
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


def find_definition(
    *, search_tools: bool = True, chars: int = MAX_QUERY_CHARS, top_k: int = MAX_TOP_K
) -> dict[str, Any]:
    """`find_tools` as listed, beside `search_tools` or alone; parameters as for
    `search_definition`.
    """
    slower = f"Slower than {SEARCH}, better " if search_tools else "Also "
    entry = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {
        "name": FIND,
        "title": "Find tools by reasoning",
        "description": _FIND_TEXT.format(slower=slower),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": chars,
                    "description": "The whole task, in plain words.",
                },
                "top_k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": top_k,
                    "description": "At most so many tools.",
                },
                "rejected": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MAX_REJECTED,
                    "description": "Digests of `chunks` of earlier answers that were of no use.",
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": entry},
                "answer": {"type": "string"},
                "stopped": {"type": "string"},
                "error": {"type": ["string", "null"]},
                "documents": {"type": "array", "items": {"type": "object"}},
                "chunks": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["tools", "answer", "stopped"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {ALWAYS_LOAD: True},
    }


def servers_shown(
    catalog: Catalog, visible: VisibleCatalog, by_server: Mapping[str, Sequence[str]]
) -> Mapping[str, ServerLists]:
    """The upstreams with tools that a caller sees, in configuration order; each with its first
    visible tools and no others, by their exposed names without the server's.

    Args:
        catalog: what is served.
        visible: what of it the caller sees.
        by_server: the names of each server's tools; no more of them are looked at than are named.
    """
    shown: dict[str, ServerLists] = {}
    for key, lists in catalog.servers.items():
        seen = filter(visible.tools.names.__contains__, by_server.get(key, ()))
        named = islice(seen, NAMED_TOOLS + 1)
        if first := [{"name": name.removeprefix(f"{key}__")} for name in named]:
            shown[key] = replace(lists, tools=first)
    return shown


def purpose(key: str, lists: ServerLists) -> str:
    """A phrase that says what a server is for; at worst, the names of its first tools.

    Args:
        key: of the server.
        lists: with no tool that the reader may not see (`servers_shown`).
    """
    for text in (lists.info.get("description"), lists.instructions, lists.info.get("title")):
        if isinstance(text, str) and (text := text[:_LOOKED_AT]).strip():
            first = " ".join(text.split()).split(". ")[0].rstrip(".")
            return first if len(first) <= 120 else f"{first[:117]}..."
    names = [str(tool.get("name")) for tool in lists.tools[:NAMED_TOOLS] if tool.get("name")]
    return ", ".join(names) + (" ..." if len(lists.tools) > NAMED_TOOLS else "") if names else key


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
