"""Prompts, resources, completions and tasks: list, or find the one upstream and forward.

Owns: the straight lines of every method but tools/*. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.domain.naming import split_uri
from armory.gateway import tasks
from armory.gateway.calls.tool_calls import finished, missing
from armory.gateway.context import RequestContext
from armory.gateway.lists.tools import refuse_cursor
from armory.gateway.views.definitions import Form, Kind
from armory.protocol.codes import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
)
from armory.protocol.errors import RpcError
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.meta import SERVER_INFO
from armory.protocol.rawjson import encode, members_or_none, need_text, pack, text_of

if TYPE_CHECKING:
    from armory.gateway.gateway import Gateway

_LISTS: Mapping[str, tuple[Kind, bytes]] = {
    "prompts/list": ("prompts", b"prompts"),
    "resources/list": ("resources", b"resources"),
    "resources/templates/list": ("templates", b"resourceTemplates"),
}


def list_entries(
    gateway: Gateway, context: RequestContext, method: str, params: Mapping[str, Raw]
) -> Reply:
    """Answer `prompts/list`, `resources/list` or `resources/templates/list`.

    Raises:
        RpcError: a cursor that is not ours.
    """
    refuse_cursor(params)
    view = context.view
    kind, member = _LISTS[method]
    form = Form(context.era, original=context.endpoint.transparent)
    body = view.listed_json(kind, view.sight(context), form)
    listed = b'"' + member + b'":[' + body + b"]}"
    if context.era == "legacy":
        return Reply(Raw(b"{" + listed), era="legacy")
    ttl, scope = view.cache_fields(method, context.endpoint)
    meta = {SERVER_INFO: view.info(context.endpoint)}
    head = encode({"resultType": "complete", "ttlMs": ttl, "cacheScope": scope, "_meta": meta})
    return Reply(Raw(head[:-1] + b"," + listed), era="modern")


async def get_prompt(gateway: Gateway, context: RequestContext, params: dict[str, Raw]) -> Reply:
    """Answer `prompts/get`.

    Raises:
        UnknownTool: no such prompt for this caller.
        UpstreamUnavailable: its upstream cannot answer.
    """
    name = need_text(params, "name")
    record = context.view.prompt(context, name)
    if record is None:
        raise missing(gateway, context, "prompt", name)
    changed = {**params, "name": pack(record.original_name)}
    return await send(
        gateway, context, record.server, "prompts/get", changed, record.original_name, retry=True
    )


async def read_resource(gateway: Gateway, context: RequestContext, params: dict[str, Raw]) -> Reply:
    """Answer `resources/read`.

    Raises:
        RpcError: no such resource for this caller.
        UpstreamUnavailable: its upstream cannot answer.
    """
    server, uri = locate(gateway, context, need_text(params, "uri"))
    changed = {**params, "uri": pack(uri)}
    return await send(gateway, context, server, "resources/read", changed, uri, retry=True)


def locate(gateway: Gateway, context: RequestContext, uri: str) -> tuple[str, str]:
    """(server, original URI) of a URI as the client knows it.

    Raises:
        RpcError: nothing there for this caller.
    """
    endpoint = context.endpoint
    found = (endpoint.name, uri) if endpoint.transparent else split_uri(uri)
    if found is None or not context.view.may_read(context, *found):
        code = RESOURCE_NOT_FOUND if context.era == "legacy" else INVALID_PARAMS
        raise RpcError(code, f"unknown resource: {uri[:200]}", {"uri": uri})
    return found


async def complete(gateway: Gateway, context: RequestContext, params: dict[str, Raw]) -> Reply:
    """Answer `completion/complete`: the reference says whose completion it is.

    Raises:
        RpcError: no reference that means anything here.
        UnknownTool: no such prompt for this caller.
        UpstreamUnavailable: its upstream cannot answer.
    """
    ref = members_or_none(params.get("ref"))
    if ref is None:
        raise RpcError(INVALID_PARAMS, "params.ref is missing or not an object")
    kind = text_of(ref, "type")
    if kind == "ref/prompt":
        name = need_text(ref, "name")
        record = context.view.prompt(context, name)
        if record is None:
            raise missing(gateway, context, "prompt", name)
        server = record.server
        ref["name"] = pack(record.original_name)
    elif kind == "ref/resource":
        server, uri = locate(gateway, context, need_text(ref, "uri"))
        ref["uri"] = pack(uri)
    else:
        raise RpcError(
            INVALID_PARAMS, f"params.ref.type is {kind!r}; expected ref/prompt or ref/resource"
        )
    changed = {**params, "ref": pack(ref)}
    return await send(gateway, context, server, "completion/complete", changed, retry=True)


async def task_method(
    gateway: Gateway, context: RequestContext, method: str, params: dict[str, Raw]
) -> Reply:
    """Answer `tasks/get`, `tasks/update`, `tasks/result` or `tasks/cancel`.

    Raises:
        RpcError: no such task for this caller.
        UpstreamUnavailable: its upstream cannot answer.
    """
    server, original = await tasks.resolved(gateway, context, params)
    changed = {**params, "taskId": pack(original)}
    return await send(gateway, context, server, method, changed, original)


async def pass_on(
    gateway: Gateway, context: RequestContext, method: str, params: dict[str, Raw]
) -> Reply:
    """Forward a method that the gateway does not know, on the transparent endpoint only.

    Raises:
        RpcError: this is not the transparent endpoint, or its server is not for this caller
            (-32601); no such task for this caller.
        UpstreamUnavailable: the upstream cannot answer.
    """
    endpoint, owner = context.endpoint, Owner(context.principal, context.session)
    if not endpoint.transparent or not gateway.may_use(owner, endpoint, endpoint.name):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
    about_tasks = method.startswith("tasks/")
    if about_tasks and "taskId" in params:
        await tasks.resolved(gateway, context, params)
    reply = await send(gateway, context, endpoint.name, method, params)
    return await tasks.own_only(gateway, context, reply) if about_tasks else reply


async def send(
    gateway: Gateway,
    context: RequestContext,
    server: str,
    method: str,
    params: dict[str, Raw],
    name: str | None = None,
    *,
    retry: bool = False,
) -> Reply:
    """One call to one upstream, its answer in the client's names.

    Raises:
        RateLimited: not now.
        UpstreamUnavailable: the upstream cannot answer.
    """
    await gateway.admit(context, method, name or server)
    call = Call(
        method=method,
        params=params,
        client=gateway.face(context, server),
        name_header=name,
        safe_to_retry=retry,
    )
    reply = await gateway.pool.request(server, Owner(context.principal, context.session), call)
    return await finished(gateway, context, server, reply)


def described(gateway: Gateway, context: RequestContext) -> dict[str, Any]:
    """Who the endpoint is: `capabilities`, `instructions`, `serverInfo`, as the client's era has
    them (the gateway's own capabilities included).
    """
    view = gateway.view
    transparent = context.endpoint.transparent
    modern = context.era == "modern"
    merged: dict[str, Any] = {}
    extensions: dict[str, Any] = {}
    for lists in view.servers(context.endpoint).values():
        _merge_primitives(merged, lists)
        declared = lists.capabilities.get("extensions")
        if isinstance(declared, dict):
            extensions.update(cast("dict[str, Any]", declared))
        if transparent:
            kept = ("experimental",) if modern else ("experimental", "tasks")
            merged.update({k: v for k, v in lists.capabilities.items() if k in kept})
    if not transparent:
        merged.setdefault("tools", {"listChanged": True})
        if modern:
            extensions.update(gateway.extension())
        else:
            merged["experimental"] = gateway.extension()
    if extensions and modern:
        merged["extensions"] = extensions
    return {
        "capabilities": merged,
        "instructions": gateway.instructions(context),
        "serverInfo": view.info(context.endpoint),
    }


def _merge_primitives(merged: dict[str, Any], lists: ServerLists) -> None:
    own = lists.capabilities
    for key in ("logging", "completions"):
        if key in own:
            merged.setdefault(key, {})
    if "prompts" in own or lists.prompts:
        merged["prompts"] = {"listChanged": True}
    if "resources" in own or lists.resources or lists.templates:
        merged["resources"] = {"subscribe": True, "listChanged": True}
    if "tools" in own or lists.tools:
        merged["tools"] = {"listChanged": True}
