"""What the tools that Armory adds answer.

Owns: the shape of their results, from what was found. Never imports retrieval; calls nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Raw

from armory.agent.findings import AgentResult
from armory.domain.results import Selection
from armory.protocol.meta import TOOL_REFERENCE
from armory.protocol.rawjson import encode

MAX_DOCUMENTS = 10


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
    return encode(structure).decode()


def finding_structure(result: AgentResult) -> dict[str, Any]:
    """The `structuredContent` of an answer."""
    return {
        "tools": [
            {
                "name": finding.tool.name,
                "description": finding.tool.description,
                "inputSchema": finding.tool.input_schema or {"type": "object"},
                "score": round(finding.score, 4),
                "reason": finding.reason,
            }
            for finding in result.tools
        ],
        "documents": [
            {"id": hit.chunk.id, "text": hit.chunk.text, "score": round(hit.strength, 4)}
            for hit in result.chunks
            if hit.chunk.tool is None
        ][:MAX_DOCUMENTS],
        "answer": result.answer,
        "stopped": result.stopped,
        "iterations": result.iterations,
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
