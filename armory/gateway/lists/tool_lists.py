"""tools/list, one straight line, read top-down.

Owns: what a listing shows, and searching what a caller sees. Never imports a transport; policy has
the first word, retrieval only narrows what is shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from msgspec import Raw

from armory.domain.query import Query, VisibleSet
from armory.domain.results import BYTES_PER_TOKEN, Selection, lacking
from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError, RateLimited
from armory.gateway.context import RequestContext
from armory.gateway.lists.groups import negotiated, scoped_by_upstream
from armory.gateway.lists.named import with_named
from armory.gateway.lists.pages import list_result, refuse_cursor
from armory.gateway.lists.whole import is_whole
from armory.gateway.metatools import definitions
from armory.gateway.outcomes import Outcomes
from armory.gateway.ports import Limiter, Retriever
from armory.gateway.queries.carriers import (
    ListRequest,
    check_size,
    raw_by_url,
    read_list_request,
)
from armory.gateway.queries.filters import Patterns
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.definitions import Form, ui_meta
from armory.gateway.views.view import View
from armory.logger import Logger
from armory.protocol.capabilities import declares_apps
from armory.protocol.link import Reply
from armory.protocol.meta import SELECTION
from armory.protocol.rawjson import encode

_log = Logger(__name__)
LIST = "tools/list"
_MEMBER = b"tools"
_FOR_APPS = 16
"""Tools for apps alone that a listing may have beside the tools with an interface."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The contents of a listing with a query.

    Attributes:
        selection: what was found.
        names: exposed names of the listed tools, in the catalog's order.
        body: the listed definitions as JSON, separated by commas, meta-tools included.
    """

    selection: Selection
    names: list[str]
    body: bytes


class ToolLists:
    """Lists and searches the tools that a caller sees.

    Args:
        retriever: None: nothing is ever searched.
        limiter: asked before a query is answered.
        outcomes: records answered queries and lists that were cut; knows each caller's last tool.
    """

    def __init__(self, retriever: Retriever | None, limiter: Limiter, outcomes: Outcomes) -> None:
        self._retriever = retriever
        self._limiter = limiter
        self._outcomes = outcomes

    def filters(self, settings: GatewaySettings) -> bool:
        """Whether queries filter listings under these settings."""
        return settings.tool_rag and self._retriever is not None

    async def list(self, context: RequestContext, params: Mapping[str, Raw]) -> Reply:
        """Answer `tools/list`.

        Raises:
            RpcError: a cursor that is not ours, or a carried value that does not parse.
            RateLimited: the caller's queries are used up.
        """
        view = context.view
        refuse_cursor(params)
        if context.endpoint.transparent:
            form = Form(context.era, original=True, headers=True)
            scoped = scoped_by_upstream(context)
            if scoped:
                return _outside_own_groups(context, form, scoped)
            return _everything(context, form, kept=True)
        spec = view.set_spec(context.endpoint)
        by_groups = negotiated(context)  # else the set's query would list tools twice
        own = spec.query if spec and not by_groups else ()
        request = read_list_request(context, params, own, view.settings.experimental)
        if request.mode == "raw" and not request.narrowed:
            return _everything(context, Form(context.era, headers=True), kept=raw_by_url(context))
        if request.query is not None and request.mode is None and self.filters(view.settings):
            check_size(request.query, view.settings)
            return await self._filtered(context, request.query, request.names)
        shown = view.visible(context).tools.names
        if request.names is not None:
            shown = await request.names.among(shown)
        if by_groups and request.mode not in ("all", "raw"):
            return _outside_groups(context, request, shown)
        return self._unfiltered(context, request, shown)

    async def _filtered(
        self, context: RequestContext, query: Query, patterns: Patterns | None
    ) -> Reply:
        started = time.perf_counter()
        view = context.view
        await self._limiter.acquire(context.principal, LIST, "")
        filtered = await self.choose(context, query, among=patterns)
        selection, names, body = filtered.selection, filtered.names, filtered.body
        described = {
            "returned": len(names),
            "visible": len(view.visible(context).tools),
            "threshold": selection.threshold,
            "degraded": selection.degraded,
            "catalog_version": view.catalog.version,
        }
        reply = list_result(
            context, LIST, _MEMBER, body, kept=False, private=True, meta={SELECTION: described}
        )
        self._outcomes.listed(context, query, selection, names, len(body), started)
        return reply

    def _unfiltered(self, context: RequestContext, request: ListRequest, among: Set[str]) -> Reply:
        started = time.perf_counter()
        view = context.view
        visible, settings = view.visible(context), view.settings
        if request.narrowed:
            tools = view.catalog.tools
            names = [n for n in tools if n in among and _fits(tools[n], request)]
            raw = request.mode == "raw"
            pinned = () if raw else view.pinned(visible)
            body = view.listed.tools(names, Form(context.era, headers=raw), pinned)
            self._outcomes.cut(context, names, len(body), started)
            return list_result(context, LIST, _MEMBER, body, kept=False, private=True)
        if is_whole(context, request):
            pins = settings.pin or settings.server_pins
            pinned = view.pinned(visible) if pins else ()
            return _everything(context, Form(context.era), pinned)
        revealed = context.session.revealed if context.session is not None else ()
        shown = [*view.pinned(visible), *(name for name in revealed if name in visible.tools.names)]
        names = _in_order(view, shown)
        body = view.listed.tools(names, Form(context.era, load=True))
        body = _with_meta_tools(context, _with_those_for_apps(context, names, body), cut=True)
        self._outcomes.cut(context, names, len(body), started)
        return list_result(context, LIST, _MEMBER, body, kept=False)

    async def choose(
        self,
        context: RequestContext,
        query: Query,
        *,
        explain: bool = False,
        among: Patterns | None = None,
    ) -> Filtered:
        """Search, and choose what a listing with a query shows.

        Args:
            context: whose request it is.
            query: what to search for.
            explain: fill the selection's `ranking` and `withheld`.
            among: patterns of the names that may be found; None: any.

        Raises:
            RateLimited: too many searches run or wait already.
        """
        view = context.view
        selection = await self.search(context, query, explain=explain, among=among)
        visible = view.visible(context)
        form = Form(context.era, load=True)
        pinned = view.pinned(visible)
        if pinned and among is not None:
            pinned = sorted(await among.among(pinned))
        pinned = [name for name in pinned if _fits(view.catalog.tools[name], query)]
        chosen = _within_budget(view, form, pinned, selection)
        names = _in_order(view, chosen)
        cut = len(names) < len(visible.tools)
        body = _with_those_for_apps(context, names, view.listed.tools(names, form))
        body = _with_meta_tools(context, body, cut=cut)
        return Filtered(selection, names, body)

    async def search(
        self,
        context: RequestContext,
        query: Query,
        *,
        explain: bool = False,
        among: Patterns | None = None,
        skills: bool = False,
    ) -> Selection:
        """Search within what the caller sees. A search that fails returns an empty, degraded
        selection.

        Args:
            context: whose request it is.
            query: what to search for.
            explain: fill `ranking` and `withheld`.
            among: patterns of the names that may be found; None: any.
            skills: whether visible skills may be found, too.

        Raises:
            RateLimited: too many searches run or wait already.
        """
        view = context.view
        visible = view.visible(context)
        if query.last_tool is None and (last := self._outcomes.last_tool(context)):
            query = replace(query, last_tool=last)
        if among is not None:
            names = await among.among(visible.tools.names)
            visible = replace(visible, tools=VisibleSet(names))
        if self._retriever is None:
            return _nothing(query, len(visible.tools), "no retriever")
        searched = view.searchable(visible, kept=among is None)
        if skills and visible.skills:
            searched = view.with_skills(searched, visible)
        try:
            found = view.named(await self._retriever.search(query, searched, explain=explain))
            found = replace(found, degraded=lacking(found.degraded, view.lacks(context)))
            return with_named(view, Form(context.era, load=True), query, visible, found)
        except RateLimited:
            raise
        except Exception as error:  # noqa: BLE001 a listing never fails for what retrieval cannot do
            defect = not isinstance(error, ArmoryError)
            _log.rate_limited("error", "retrieval_failed", error=repr(error), exc_info=defect)
            return _nothing(query, len(visible.tools), "pinned only: the search failed")


def _nothing(query: Query, visible: int, degraded: str) -> Selection:
    return Selection((), visible, query.threshold or 0.0, degraded=degraded)


def _everything(
    context: RequestContext, form: Form, pinned: Sequence[str] = (), *, kept: bool = False
) -> Reply:
    view = context.view
    body = view.listed.all_tools(view.visible(context), form, pinned)
    return list_result(context, LIST, _MEMBER, body, kept=kept)


def _outside_groups(context: RequestContext, request: ListRequest, among: Set[str]) -> Reply:
    """The listing for clients with groups: pinned tools that match; the meta-tools
    unless some did.
    """
    view = context.view
    tools, pinned = view.catalog.tools, view.pinned(view.visible(context))
    names = [name for name in pinned if name in among and _fits(tools[name], request)]
    body = view.listed.tools(names, Form(context.era, load=True))
    if not request.narrowed:
        body = _with_meta_tools(context, body, cut=True)
    return list_result(context, LIST, _MEMBER, body, kept=False, private=True)


def _outside_own_groups(context: RequestContext, form: Form, scoped: Set[str]) -> Reply:
    """The tools of an upstream that are in none of its groups."""
    view = context.view
    visible = view.visible(context).tools
    names = [name for name in view.catalog.tools if name in visible.names - scoped]
    body = view.listed.tools(names, form)
    return list_result(context, LIST, _MEMBER, body, kept=False, private=True)


def _fits(tool: ToolRecord, request: ListRequest | Query) -> bool:
    if request.servers is not None and tool.server not in request.servers:
        return False
    return request.categories is None or tool.category in request.categories


def _in_order(view: View, names: Iterable[str]) -> list[str]:
    """Names without repeats, in the catalog's order."""
    return sorted(set(names), key=view.tables.positions.__getitem__)


def _within_budget(
    view: View, form: Form, pinned: Sequence[str], selection: Selection
) -> list[str]:
    chosen = list(pinned)
    names = (match.tool.name for match in selection.matches)
    matches = [name for name in names if name in view.tables.positions and name not in chosen]
    budget = view.settings.token_budget
    if budget is None:
        return chosen + matches
    left = budget * BYTES_PER_TOKEN - sum(len(view.listed.tool(name, form)) for name in pinned)
    for name in matches:
        size = len(view.listed.tool(name, form))
        if size <= left:
            left -= size
            chosen.append(name)
    return chosen


def _with_those_for_apps(context: RequestContext, shown: Sequence[str], body: bytes) -> bytes:
    """The listed tools, and those that their user interfaces may call, since a host calls no tool
    that it has not seen listed. Only for clients that render interfaces: others would take them for
    tools of the model.
    """
    if not declares_apps(context.client.capabilities):
        return body
    view = context.view
    tools, apps = view.catalog.tools, view.tables.apps
    rendered = {tools[name].server for name in shown if ui_meta(tools[name])}
    visible = view.visible(context).tools.names & apps
    wanted = [
        name
        for server in sorted(rendered)
        for name in view.tables.by_server[server]
        if name in visible and name not in shown
    ]
    more = view.listed.tools(wanted[:_FOR_APPS], Form(context.era))
    return b",".join(filter(None, (body, more)))


def _with_meta_tools(context: RequestContext, body: bytes, *, cut: bool) -> bytes:
    settings = context.view.settings
    parts = [body] if body else []
    with_call = settings.call_tool and cut
    if settings.search_tools:
        parts.append(context.view.search_json(context, call_tool=with_call))
    if settings.find_tools:
        limits = {"chars": settings.query_chars, "top_k": settings.query_top_k}
        find = definitions.find_definition(search_tools=settings.search_tools, **limits)
        parts.append(encode(find))
    if with_call:
        searching = definitions.searching_tool(settings)
        parts.append(encode(definitions.call_definition(searching)))
    return b",".join(parts)
