"""The tools that the caller sees, one by one, and calling them.

Owns: the routes. Decides nothing: the request path does, as for a call over MCP.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Raw
from pydantic import Field

from armory.domain.results import BYTES_PER_TOKEN
from armory.domain.tool import ToolRecord
from armory.errors import InvalidRequest, UpstreamUnavailable
from armory.gateway.context import RequestContext
from armory.gateway.results.answers import missing
from armory.gateway.views.definitions import Form
from armory.protocol.errors import RpcError
from armory.protocol.rawjson import EMPTY_OBJECT, brief, pack
from armory.threads import for_callers_if
from armory.web.rest.live.access import LiveGateway, tool_of
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape

_SHORT, _MANY = 200, 500
_FORM = Form("modern")


class ToolPage(Shape):
    """Which part of the tools."""

    after: Annotated[int, Field(ge=0)] = Field(
        default=0, description="How many tools to leave out."
    )
    limit: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    set: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Only tools of this set."
    )


class ToolRow(Answer):
    """One tool in short."""

    name: str
    server: str
    title: str
    description: str = Field(description="The first 200 characters of its description.")
    tags: list[str]
    category: str | None
    tokens: int = Field(description="Estimate of what its definition costs in a prompt.")
    hints: list[str] = Field(description="Names of its annotations that are true.")


class ToolRows(Answer):
    """Tools in the order of the catalog."""

    version: int = Field(description="Version of the catalog.")
    total: int
    tools: list[ToolRow]


class ToolDetail(ToolRow):
    """One tool."""

    original_name: str
    fingerprint: str
    pinned: bool = Field(description="Whether every listing has it.")
    definition: dict[str, Any] = Field(description="The definition as a listing shows it.")
    usage: dict[str, Any] | None = Field(
        description="Statistics of the last 30 days; null: never called."
    )


class Arguments(Shape):
    """What to call a tool with."""

    arguments: dict[str, Any] = Field(default_factory=dict)


class CallAnswer(Answer):
    """What a call gave: exactly one of `result` and `error` is set."""

    result: dict[str, Any] | None = Field(description="The tool's result, as over MCP.")
    error: dict[str, Any] | None = Field(description="The JSON-RPC error of the server.")
    took_ms: float
    bytes: int


def routes(live: LiveGateway) -> list[Route]:
    """The routes of tools."""
    name = {"name": "Exposed name of the tool."}
    return [
        Route("GET", "/v1/tools", partial(_list, live), "The tools that the caller sees", ToolRows,
              tag="gateway", params=ToolPage),
        Route("GET", "/v1/tools/{name}", partial(_one, live), "One tool", ToolDetail,
              tag="gateway", path_params=name),
        Route("POST", "/v1/tools/{name}/call", partial(_call, live), "Call a tool", CallAnswer,
              tag="gateway", path_params=name, body=Arguments, verbatim=True, problems=(504,),
              counts=True,
              description="Counts and is limited like a call over MCP. A result with `isError` is "
              "the tool's own; what kept the tool from answering is a problem."),
    ]  # fmt: skip


async def _list(live: LiveGateway, call: RestCall) -> Reply:
    asked: ToolPage = call.params
    path = "" if asked.set is None else f"set/{asked.set}"
    try:
        endpoint = live.endpoint(path, None if call.admin else call.principal)
    except Problem:
        raise InvalidRequest(f"there is no set {asked.set!r}", parameter="set") from None
    context = await live.context(call.principal, endpoint, current=asked.after == 0)
    view = context.view
    seen = view.visible(context).tools.names
    names = [name for name in view.catalog.tools if name in seen]
    part = names[asked.after : asked.after + asked.limit]
    rows = await for_callers_if(len(part) > _MANY, _rows, context, part)
    return Reply({"version": view.catalog.version, "total": len(names), "tools": Raw(rows)})


async def _one(live: LiveGateway, call: RestCall) -> Reply:
    context = await live.context(call.principal)
    view = context.view
    record = tool_of(context, call.path["name"])
    found = call.services.accounts.usage.tools().get(record.name)
    usage = None
    if found is not None:
        usage = {
            "uses": found.uses,
            "error_rate": round(found.error_rate, 6),
            "p50_ms": round(found.p50_ms, 3),
            "p99_ms": round(found.p99_ms, 3),
            "last_used_at_ms": found.last_used_at_ms,
        }
    more = {
        "description": record.description,
        "original_name": record.original_name,
        "fingerprint": record.fingerprint,
        "pinned": record.name in view.pinned(view.visible(context)),
        "definition": Raw(view.listed.tool(record.name, _FORM)),
        "usage": usage,
    }
    return Reply({**_row(context, record), **more})


async def _call(live: LiveGateway, call: RestCall) -> Reply:
    context = await live.context(call.principal)
    try:
        record = tool_of(context, call.path["name"])
    except Problem:
        await call.count()  # else names could be guessed without limit
        error = missing(live.gateway.pool, context, "tool", call.path["name"])
        if isinstance(error, UpstreamUnavailable):  # nobody can tell whether it has that tool
            try:
                raise error from None
            finally:
                del error  # which holds this frame by its trace
        raise
    arguments: Raw = call.body.get("arguments", EMPTY_OBJECT)
    if bytes(memoryview(arguments)[:1]) != b"{":
        message = f"arguments: expected a JSON object; it is {brief(arguments)}"
        raise InvalidRequest(message, parameter="arguments")
    params = {"name": pack(record.name), "arguments": arguments}
    started = time.perf_counter()
    try:
        reply = await live.gateway.tool_calls.call(context, params, raising=True)
    except RpcError as error:
        raise InvalidRequest(error.message, parameter="arguments") from None
    took_ms = round((time.perf_counter() - started) * 1_000, 3)
    result = None if reply.error is not None else b"".join(reply.parts)
    size = len(result) if result is not None else len(bytes(reply.error or b""))
    body: dict[str, Any] = {
        "result": None if result is None else Raw(result),
        "error": reply.error,
        "took_ms": took_ms,
        "bytes": size,
    }
    return Reply(msgspec.json.encode(body))


def _rows(context: RequestContext, names: Sequence[str]) -> bytes:
    tools = context.view.catalog.tools
    return msgspec.json.encode([_row(context, tools[name]) for name in names])


def _row(context: RequestContext, record: ToolRecord) -> dict[str, Any]:
    size = len(context.view.listed.tool(record.name, _FORM))
    return {
        "name": record.name,
        "server": record.server,
        "title": record.title,
        "description": record.description[:_SHORT],
        "tags": list(record.tags),
        "category": record.category,
        "tokens": -(-size // BYTES_PER_TOKEN),
        "hints": _hints(record.annotations),
    }


def _hints(annotations: Mapping[str, Any]) -> list[str]:
    return [name for name, value in annotations.items() if value is True]
