"""`find_tools`: the retrieval agent as a tool, beside `search_tools`.

Owns: its definition, its call, the shape of its answer. Never imports a chat library or retrieval.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from armory.agent.findings import AgentResult
from armory.domain.query import MAX_QUERY_CHARS, VisibleSet
from armory.gateway.context import RequestContext
from armory.gateway.metatools import definitions as metatools
from armory.gateway.results.compact import compact_result, wants_toon
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.meta import ALWAYS_LOAD
from armory.protocol.rawjson import encode

if TYPE_CHECKING:
    from armory.gateway.gateway import Gateway

_DEFAULT_TOP_K = 10
_TEXT = (
    "Find tools for a task that needs thinking about: a language model on the gateway searches, "
    "judges what it finds and searches again. Slower than search_tools, better for a task of "
    "several steps or in unusual words. Returns tools with their input schemas, best first."
)


class Finder(Protocol):
    """The retrieval agent (`armory.agent.loop.RetrievalAgent`)."""

    async def run(
        self,
        question: str,
        *,
        visible: VisibleSet | None = None,
        user: str | None = None,
        rejected: Collection[str] = (),
        top_k: int = 10,
    ) -> AgentResult:
        """Search until the model has enough; raises `BackendError` when the model fails."""
        ...


def definition() -> dict[str, Any]:
    """`find_tools` as listed."""
    found = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {
        "name": metatools.FIND,
        "title": "Find tools by reasoning",
        "description": _TEXT,
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_QUERY_CHARS,
                    "description": "The whole task, in plain words.",
                },
                "top_k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 50,
                    "description": "At most so many tools.",
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": found},
                "answer": {"type": "string"},
                "stopped": {"type": "string"},
            },
            "required": ["tools", "answer", "stopped"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {ALWAYS_LOAD: True},
    }


def structure(result: AgentResult) -> dict[str, Any]:
    """The `structuredContent` of an answer."""
    return {
        "tools": [
            {
                "name": found.tool.name,
                "description": found.tool.description,
                "inputSchema": found.tool.input_schema or {"type": "object"},
                "score": round(found.score, 4),
                "reason": found.reason,
            }
            for found in result.tools
        ],
        "documents": [
            {"id": hit.chunk.id, "text": hit.chunk.text, "score": round(hit.strength, 4)}
            for hit in result.chunks
            if hit.chunk.tool is None
        ][:_DEFAULT_TOP_K],
        "answer": result.answer,
        "stopped": result.stopped,
        "iterations": result.iterations,
    }


async def find_tools(gateway: Gateway, context: RequestContext, params: dict[str, Raw]) -> Reply:
    """Answer a call of `find_tools`.

    Raises:
        RpcError: an argument is missing or out of range.
        RateLimited: not now.
        BackendError: the model failed before anything was found.
    """
    arguments = metatools.read_search(params)
    if len(arguments.texts) != 1:
        raise RpcError(
            INVALID_PARAMS,
            "arguments.query is a list; find_tools takes one text, the whole task",
            {"parameter": "query"},
        )
    assert gateway.finder is not None
    await gateway.admit(context, "tools/call", metatools.FIND)
    view = context.view
    result = await gateway.finder.run(
        arguments.texts[0],
        visible=view.common(view.sight(context)),
        user=context.principal.user or context.principal.key,
        top_k=arguments.top_k or _DEFAULT_TOP_K,
    )
    names = [found.tool.name for found in result.tools]
    gateway.reveal(context, names)
    told = structure(result)
    blocks = metatools.found_blocks(
        names,
        metatools.as_text(told),
        references=metatools.wants_references(context.client.capabilities),
    )
    raw = Raw(encode({"content": blocks, "structuredContent": told, "isError": False}))
    if wants_toon(context.headers):
        raw = await compact_result(raw, metatools.FIND, gateway.compacted)
    return Reply(result=raw)
