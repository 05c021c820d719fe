"""tools/call, one straight line, read top-down, and what stands beside it for every other method
that goes to exactly one upstream.

Owns: resolving, forwarding, and the answer of a call that could not be made. Never imports a
transport.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from armory.domain.naming import split_name
from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError, BackendError, RateLimited, UnknownTool, UpstreamUnavailable
from armory.gateway.calls.find_tools import find_tools
from armory.gateway.calls.mirrored import mirrored_headers
from armory.gateway.calls.task_tools import drive, needs_task
from armory.gateway.context import RequestContext
from armory.gateway.lists.tools import search
from armory.gateway.metatools import definitions as metatools
from armory.gateway.results.compact import compact_result, wants_toon
from armory.gateway.results.uri_rewriting import expose_result, has_links
from armory.gateway.tasks import note_made
from armory.gateway.views.view import View
from armory.protocol import meta as meta_keys
from armory.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.rawjson import brief, encode, members_or_none, need_text, pack

if TYPE_CHECKING:
    from armory.gateway.gateway import Gateway

_FAILED = (UpstreamUnavailable, RateLimited, BackendError)


async def call_tool(gateway: Gateway, context: RequestContext, params: dict[str, Raw]) -> Reply:
    """Answer `tools/call`.

    Raises:
        UnknownTool: no such tool for this caller, whether hidden or not there.
        RpcError: parameters that do not fit.
    """
    name = need_text(params, "name")
    searched = False
    if name in metatools.META_TOOLS and gateway.offers(context, name):
        if name != metatools.CALL:
            answer = _search_tools if name == metatools.SEARCH else find_tools
            try:
                return await answer(gateway, context, params)
            except _FAILED as error:
                return failed_call(error)
        params = metatools.read_call(params)
        name = need_text(params, "name")
        searched = True
    view = context.view
    record = view.tool(context, name)
    if record is None:
        error = missing(gateway, context, "tool", name)
        if isinstance(error, UpstreamUnavailable):
            return failed_call(error)
        raise error
    _check_arguments(params)
    started = time.perf_counter()
    ok = False
    try:
        await gateway.admit(context, "tools/call", record.name)
        if needs_task(record, params):
            reply = await _as_task(gateway, context, record, params)
        else:
            reply = await _send(gateway, context, view, record, params)
            if _refuses_headers(reply):
                reply = await _listed_anew(gateway, context, record, params)
        ok = _succeeded(reply)
    except _FAILED as error:
        reply = failed_call(error)
    finally:
        gateway.tell_called(context, record, started, ok=ok, searched=searched)
    return await finished(gateway, context, record.server, reply)


async def _send(
    gateway: Gateway,
    context: RequestContext,
    view: View,
    record: ToolRecord,
    params: dict[str, Raw],
) -> Reply:
    return await gateway.pool.request(
        record.server,
        Owner(context.principal, context.session),
        Call(
            method="tools/call",
            params={**params, "name": pack(record.original_name)},
            client=gateway.face(context, record.server),
            name_header=record.original_name,
            param_headers=mirrored_headers(view.headers_of(record), params),
            safe_to_retry=_safe(record),
        ),
    )


async def _listed_anew(
    gateway: Gateway, context: RequestContext, record: ToolRecord, params: dict[str, Raw]
) -> Reply:
    """The upstream refused our headers: its tool has changed. List again and try once more."""
    await gateway.relist(record.server)
    view = gateway.view_for(context)
    newer = view.catalog.tools.get(record.name)
    if newer is not None:
        reply = await _send(gateway, context, view, newer, params)
        if not _refuses_headers(reply):
            return reply
    raise UpstreamUnavailable(
        f"upstream {record.server!r} refuses the headers that its own tool definition asks for",
        upstream=record.server,
    )


def _refuses_headers(reply: Reply) -> bool:
    return reply.error is not None and code_of(reply.error) == HEADER_MISMATCH


async def _as_task(
    gateway: Gateway, context: RequestContext, record: ToolRecord, params: dict[str, Raw]
) -> Reply:
    owner = Owner(context.principal, context.session)
    client = gateway.face(context, record.server)

    async def send(method: str, sent: dict[str, Raw]) -> Reply:
        call = Call(method, sent, client, safe_to_retry=method == "tasks/get")
        return await gateway.pool.request(record.server, owner, call)

    return await drive(record.server, {**params, "name": pack(record.original_name)}, send)


def missing(gateway: Gateway, context: RequestContext, kind: str, name: str) -> ArmoryError:
    """The error for a name that is not listed: `UpstreamUnavailable` where its upstream is down and
    the caller might see it, else `UnknownTool`, the same for what is not there and what is hidden.
    """
    short = name if len(name) <= 200 else name[:197] + "..."
    server, _ = split_name(name) or ("", "")
    if (
        server in gateway.pool.servers()
        and server not in context.view.catalog.servers
        and context.endpoint.scope.has_tool(server, name)
        and context.view.policy.allows(context.principal, name)
    ):
        return UpstreamUnavailable(
            f"upstream {server!r} is down, so that it is not known whether it has the {kind} "
            f"{short!r}",
            upstream=server,
        )
    return UnknownTool(f"unknown {kind}: {short}")


async def finished(gateway: Gateway, context: RequestContext, server: str, reply: Reply) -> Reply:
    """An upstream's answer in the client's names; a task that it made becomes the caller's."""
    transparent = context.endpoint.transparent
    linked = not transparent and has_links(reply.outline)
    if (transparent or linked) and b'"taskId"' in reply.outline:
        await note_made(gateway, context, server, reply)
    if transparent:
        return reply
    if reply.result is not None:
        result = reply.result
        configured = gateway.view.settings.result_formats.get(server, "json")
        if wants_toon(context.headers, configured):
            result = await compact_result(result, server, gateway.compacted)
        if result is reply.result and not linked:
            return reply
        exposed = expose_result(result, server)
        return reply if exposed is reply.result else Reply(result=exposed, era=reply.era)
    if reply.error is not None and has_links(reply.error):
        opened = members_or_none(reply.error)
        data = opened and members_or_none(opened.get("data"))
        if opened and data:
            opened["data"] = expose_result(pack(data), server)
            return Reply(error=pack(opened), era=reply.era)
    return reply


def failed_call(error: ArmoryError) -> Reply:
    """A result that tells a model what went wrong and whether trying again makes sense."""
    told: dict[str, Any] = {
        "code": error.code,
        "upstream": getattr(error, "upstream", "") or None,
        "retry_after_s": error.retry_after_s,
    }
    text = error.message
    if error.retry_after_s is not None:
        text = f"{text} Try again in {error.retry_after_s:g} s."
    result = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {meta_keys.ERROR: told},
    }
    return Reply(result=Raw(encode(result)))


class _Outcome(msgspec.Struct):
    isError: bool = False


_outcome = msgspec.json.Decoder(_Outcome)


def _succeeded(reply: Reply) -> bool:
    if reply.result is None:
        return False
    if b'"isError"' not in reply.outline:
        return True
    try:
        return not _outcome.decode(reply.outline).isError
    except (msgspec.DecodeError, RecursionError):
        return True


def _safe(record: ToolRecord) -> bool:
    hints = record.annotations
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


def _check_arguments(params: Mapping[str, Raw]) -> None:
    raw = params.get("arguments")
    if raw is None:
        return
    first = bytes(memoryview(raw)[:1])
    if first != b"{" and bytes(memoryview(raw)) != b"null":
        raise RpcError(
            INVALID_PARAMS,
            f"params.arguments is {brief(raw)}; expected an object",
            {"parameter": "arguments"},
        )


async def _search_tools(gateway: Gateway, context: RequestContext, params: dict[str, Raw]) -> Reply:
    started = time.perf_counter()
    arguments = metatools.read_search(params)
    await gateway.admit(context, "tools/call", metatools.SEARCH)
    view = context.view
    sight = view.sight(context)
    query = arguments.as_query(context.principal.user or context.principal.key)
    selection = await search(gateway, view, query, sight)
    structure = metatools.found_structure(selection)
    if selection.degraded:
        structure["degraded"] = selection.degraded
    text = metatools.as_text(structure)
    names = [match.tool.name for match in selection.matches]
    if context.revealed is not None:
        gateway.reveal(context, names)
    blocks = metatools.found_blocks(
        names, text, references=metatools.wants_references(context.client.capabilities)
    )
    result = Raw(encode({"content": blocks, "structuredContent": structure, "isError": False}))
    if wants_toon(context.headers):
        result = await compact_result(result, metatools.SEARCH, gateway.compacted)
    gateway.tell_listed(
        context, query, view, sight, names, bytes(memoryview(result)), selection, started
    )
    return Reply(result=result)
