"""tools/list, one straight line, read top-down.

Owns: what a listing shows. Never imports a transport; policy has the first
word, retrieval only narrows what is shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog
from msgspec import Raw

from armory.domain.query import Query
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError, RateLimited
from armory.gateway.calls import find_tools as find
from armory.gateway.context import RequestContext
from armory.gateway.metatools import definitions as metatools
from armory.gateway.query_parsing import ListRequest, read_asked
from armory.gateway.views.definitions import Form
from armory.gateway.views.view import View
from armory.protocol import meta as meta_keys
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.meta import SERVER_INFO
from armory.protocol.rawjson import encode
from armory.security.policy import VisibleCatalog

if TYPE_CHECKING:
    from armory.gateway.gateway import Gateway

_log = structlog.get_logger(__name__)
LIST = "tools/list"
_BYTES_PER_TOKEN = 4


async def list_tools(gateway: Gateway, context: RequestContext, params: Mapping[str, Raw]) -> Reply:
    """Answer `tools/list`.

    Raises:
        RpcError: a cursor that is not ours, or a carried value that does not parse.
        RateLimited: the caller's queries are used up.
    """
    view = context.view
    sight = view.sight(context)
    refuse_cursor(params)
    if context.endpoint.transparent:
        form = Form(context.era, original=True, headers=True)
        return _listing(view, context, view.all_tools_json(sight, form), filtered=False)
    spec = view.set_spec(context.endpoint)
    asked = read_asked(context, params, spec.query if spec else ())
    if asked.mode == "raw":
        form = Form(context.era, headers=True)
        return _listing(view, context, view.all_tools_json(sight, form), raw=True, filtered=False)
    if asked.query is not None and asked.mode is None and gateway.searches:
        return await _filtered(gateway, view, sight, context, asked.query)
    return _unfiltered(view, sight, context, asked)


def refuse_cursor(params: Mapping[str, Raw]) -> None:
    """Every list is one page, so no cursor was ever given out.

    Raises:
        RpcError: there is one.
    """
    if "cursor" in params and bytes(memoryview(params["cursor"])) != b"null":
        raise RpcError(
            INVALID_PARAMS, "params.cursor was not given out here; list again without one"
        )


def _unfiltered(
    view: View, sight: VisibleCatalog, context: RequestContext, asked: ListRequest
) -> Reply:
    settings = view.settings
    spec = view.set_spec(context.endpoint)
    wanted = (spec.without_query if spec else None) or settings.without_query
    if asked.mode is not None:
        wanted = "all" if asked.mode == "all" else "search"
    form = Form(context.era)
    if asked.servers is not None or asked.categories is not None:
        tools = view.catalog.tools
        names = [n for n in tools if n in sight.tools.names and _fits(tools[n], asked)]
        return _listing(view, context, view.tools_json(names, form), filtered=True)
    whole = wanted == "all" or (wanted == "auto" and len(sight.tools) <= settings.full_list_limit)
    if whole or not (settings.search_tools or settings.call_tool):
        return _listing(view, context, view.all_tools_json(sight, form), filtered=False)
    shown = dict.fromkeys(view.pinned(sight))
    revealed = context.revealed or ()
    names = in_order(view, [*shown, *(n for n in revealed if n in sight.tools.names)])
    body = view.tools_json(names, Form(context.era, load=True))
    return _listing(view, context, _with_meta_tools(view, context, body, cut=True), filtered=False)


def _fits(tool: ToolRecord, asked: ListRequest) -> bool:
    if asked.servers is not None and tool.server not in asked.servers:
        return False
    return asked.categories is None or tool.category in asked.categories


def in_order(view: View, names: Iterable[str]) -> list[str]:
    """Names without repeats, in the catalogue's order."""
    return sorted(set(names), key=view.positions.__getitem__)


async def _filtered(
    gateway: Gateway, view: View, sight: VisibleCatalog, context: RequestContext, query: Query
) -> Reply:
    started = time.perf_counter()
    await gateway.admit(context, LIST, "")
    selection = await search(gateway, view, query, sight)
    form = Form(context.era, load=True)
    pinned = view.pinned(sight)
    chosen = _within_budget(view, form, pinned, selection)
    names = in_order(view, chosen)
    cut = len(names) < len(sight.tools)
    body = _with_meta_tools(view, context, view.tools_json(names, form), cut=cut)
    told: dict[str, Any] = {
        "returned": len(names),
        "visible": len(sight.tools),
        "threshold": selection.threshold,
        "degraded": selection.degraded,
        "catalog_version": view.catalog.version,
    }
    reply = _listing(view, context, body, filtered=True, selection=told)
    gateway.tell_listed(context, query, view, sight, names, body, selection, started)
    return reply


async def search(gateway: Gateway, view: View, query: Query, sight: VisibleCatalog) -> Selection:
    """Search within what is visible; a search that breaks is an empty one that says so.

    Raises:
        RateLimited: too many searches run or wait already.
    """
    retriever = gateway.retriever
    if retriever is None:
        return Selection((), len(sight.tools), query.threshold or 0.0, degraded="no retriever")
    try:
        return view.found(await retriever.search(query, view.searchable(sight)))
    except RateLimited:
        raise
    except Exception as error:  # noqa: BLE001 a listing never fails for what retrieval cannot do
        _log.error(
            "retrieval_failed", error=repr(error), exc_info=not isinstance(error, ArmoryError)
        )
        return Selection(
            (), len(sight.tools), query.threshold or 0.0, degraded="pinned only: the search failed"
        )


def _within_budget(
    view: View, form: Form, pinned: Sequence[str], selection: Selection
) -> list[str]:
    chosen = list(pinned)
    names = (match.tool.name for match in selection.matches)
    found = [name for name in names if name in view.positions and name not in chosen]
    budget = view.settings.token_budget
    if budget is None:
        return chosen + found
    left = budget * _BYTES_PER_TOKEN - sum(len(view.tool_json(name, form)) for name in pinned)
    for name in found:
        size = len(view.tool_json(name, form))
        if size > left:
            break
        left -= size
        chosen.append(name)
    return chosen


def _with_meta_tools(view: View, context: RequestContext, body: bytes, *, cut: bool) -> bytes:
    settings = view.settings
    parts = [body] if body else []
    with_call = settings.call_tool and cut
    if settings.search_tools:
        parts.append(view.search_json(context, call_tool=with_call))
    if settings.find_tools:
        parts.append(encode(find.definition()))
    if with_call:
        parts.append(encode(metatools.call_definition()))
    return b",".join(parts)


def _listing(
    view: View,
    context: RequestContext,
    body: bytes,
    *,
    filtered: bool,
    raw: bool = False,
    selection: Mapping[str, Any] | None = None,
) -> Reply:
    meta: dict[str, Any] = {}
    if selection is not None:
        meta[meta_keys.SELECTION] = selection
    if context.era == "legacy":
        tail = b',"_meta":' + encode(meta) if meta else b""
        return Reply(Raw(b'{"tools":[' + body + b"]" + tail + b"}"), era="legacy")
    ttl, scope = view.cache_fields(LIST, context.endpoint)
    if not (raw or context.endpoint.transparent):
        ttl = 0
    if filtered:
        scope = "private"
    meta[SERVER_INFO] = view.info(context.endpoint)
    head = encode({"resultType": "complete", "ttlMs": ttl, "cacheScope": scope, "_meta": meta})
    return Reply(Raw(head[:-1] + b',"tools":[' + body + b"]}"), era="modern")
