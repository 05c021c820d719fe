"""The results of the meta-tools.

Owns: the shape of their results, from what was found. Never imports retrieval; calls nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import Raw

from armory.agent.findings import AgentResult
from armory.domain.catalog import ServerLists
from armory.domain.results import Match, Selection
from armory.domain.tool import ToolRecord
from armory.gateway.metatools.definitions import purpose
from armory.protocol.headers import unannotated
from armory.protocol.meta import TOOL_REFERENCE
from armory.protocol.rawjson import encode

MAX_SERVERS = 40
_SHOWN, _SHOWN_CHARS = 5, 100
"""How many unknown servers an answer names, and how many characters of each."""
_RUN_FIELDS = ("documents", "chunks", "answer", "stopped", "error", "iterations")
Interface = Callable[[ToolRecord], dict[str, Any]]
Servers = Callable[[], tuple[list[dict[str, Any]], int]]


def found_structure(
    selection: Selection,
    servers: Servers,
    interface: Interface,
    skills: Sequence[Match] = (),
    missing: Callable[[], Sequence[str]] = tuple,
) -> dict[str, Any]:
    """The `structuredContent` of a `search_tools` answer.

    Args:
        selection: what was found.
        servers: gives the servers that the caller sees; asked only where nothing was found.
        interface: gives what a tool's `_meta` says of its user interface.
        skills: skills that were found beside the tools.
        missing: gives the servers that were asked for and of which the caller sees no tool; asked
            likewise.
    """
    structure: dict[str, Any] = {
        "tools": [_found(match, interface(match.tool)) for match in selection.matches],
        "returned": len(selection.matches),
        "visible": selection.visible,
    }
    if skills:
        structure["skills"] = [_skill(match) for match in skills]
    elif not selection.matches:
        shown, more = servers()
        structure["unlikely"] = [
            {
                "name": match.tool.name,
                "description": match.tool.description,
                "score": round(match.score, 4),
            }
            for match in selection.nearest
        ]
        structure["servers"] = shown
        structure["advice"] = _advice(shown, more, missing(), unlikely=bool(selection.nearest))
    return structure


def _found(match: Match, ui: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": match.tool.name,
        "description": match.tool.description,
        "inputSchema": unannotated(match.tool.arguments_schema),
        "score": round(match.score, 4),
        "reason": match.reason,
    }
    if ui:
        found["_meta"] = ui
    return found


def _skill(match: Match) -> dict[str, Any]:
    return {
        "uri": match.tool.name,
        "name": match.tool.definition["frontmatter"]["name"],
        "description": match.tool.description,
        "server": match.tool.server,
        "score": round(match.score, 4),
        "reason": match.reason,
    }


def about_servers(
    servers: Mapping[str, ServerLists], tools: Mapping[str, int]
) -> tuple[list[dict[str, Any]], int]:
    """Servers for an answer, capped in number, with what each is for; and how many more there are.

    Args:
        servers: of the catalog.
        tools: how many tools of each the caller sees.
    """
    shown = [
        {"name": key, "about": purpose(key, lists), "tools": tools[key]}
        for key, lists in servers.items()
        if tools.get(key)
    ]
    return shown[:MAX_SERVERS], max(0, len(shown) - MAX_SERVERS)


def _advice(
    servers: Sequence[Mapping[str, Any]], more: int, missing: Sequence[str], *, unlikely: bool
) -> str:
    if not servers:
        return "There is no tool that you may use here."
    said: list[str] = []
    if missing:
        named = ", ".join(name[:_SHOWN_CHARS] for name in missing[:_SHOWN])
        said.append(f"There is no server {named} with tools that you may use; see `servers`.")
    if unlikely or not missing:
        said.append(
            "No tool fits well. Ask again in other words: what is to be done, and to what; or give "
            "the name of a server or a tool as the query."
        )
    if unlikely:
        said.append(
            "`unlikely` has what comes nearest: search for its exact name to get its schema."
        )
    if more:
        said.append(f"{more} more servers are not named here.")
    return " ".join(said)


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
    return encode(structure).decode()


def finding_structure(result: AgentResult) -> dict[str, Any]:
    """The `structuredContent` of an answer."""
    fields = result.as_json()
    return {
        "tools": [
            {
                "name": finding.tool.name,
                "description": finding.tool.description,
                "inputSchema": unannotated(finding.tool.arguments_schema),
                "score": round(finding.score, 4),
                "reason": finding.reason,
            }
            for finding in result.tools
        ],
        **{name: fields[name] for name in _RUN_FIELDS},
    }


def result_of(
    structure: Mapping[str, Any], names: Sequence[str], capabilities: Mapping[str, Any]
) -> Raw:
    """The result of a call: the structure as text and as itself, and references where understood.

    Args:
        structure: the `structuredContent`.
        names: exposed names of the tools in it.
        capabilities: the client's own.
    """
    references = wants_references(capabilities)
    blocks = found_blocks(names, as_text(structure), references=references)
    return Raw(encode({"content": blocks, "structuredContent": structure, "isError": False}))
