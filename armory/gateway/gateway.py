"""The gateway: what is served right now, and one method per thing that a client may ask.

Owns: the current `View` and swapping it, and the side effects around answers (statistics, limits,
reveal). Never imports a transport.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

import structlog
from msgspec import Raw

from armory.domain.catalog import EMPTY, Catalog
from armory.domain.principal import Principal
from armory.domain.query import Query
from armory.domain.results import Listing, Selection
from armory.domain.tool import ToolRecord
from armory.feedback.attribution import QueryAttribution
from armory.gateway import primitives, query_parsing
from armory.gateway.calls import tool_calls as calls
from armory.gateway.calls.find_tools import Finder
from armory.gateway.changes import TOOLS, Changes, Subscription
from armory.gateway.context import RequestContext, served_from
from armory.gateway.lists import tools
from armory.gateway.metatools.definitions import CALL, FIND, SEARCH, purpose
from armory.gateway.ports import Limiter, Pool, Retriever, ToolEvents
from armory.gateway.requests import ClientRequest, Endpoint
from armory.gateway.results.channels import ExposedChannel
from armory.gateway.results.compact import Count
from armory.gateway.settings import GatewaySettings
from armory.gateway.tasks import TaskRegister
from armory.gateway.views.definitions import Form
from armory.gateway.views.principal_lists import PrincipalLists
from armory.gateway.views.view import View
from armory.protocol.link import ClientChannel, Owner, Reply
from armory.protocol.meta import QUERY, TOOL_RAG
from armory.protocol.session_events import Notified, SessionEvent
from armory.security.policy import Policy, VisibleCatalog

RELIST_S = 10.0
_MAX_INSTRUCTIONS = 4_000
_log = structlog.get_logger(__name__)


class Gateway:
    """The request path.

    Args:
        pool: upstream sessions.
        retriever: search over the tools; None lists without ever searching.
        policy: who may see and call what.
        settings: see `GatewaySettings`.
        limiter: rate limits and quotas, if any.
        events: where statistics go, if anywhere.
        relist: has one upstream's lists fetched anew; returns when they are served.
        finder: the retrieval agent behind `find_tools`, if there is one.
        preceding: remembers queries, so that events of calls name the one before; None: they don't.
    """

    def __init__(
        self,
        pool: Pool,
        retriever: Retriever | None = None,
        policy: Policy | None = None,
        settings: GatewaySettings | None = None,
        *,
        limiter: Limiter | None = None,
        events: ToolEvents | None = None,
        relist: Callable[[str], Awaitable[None]] | None = None,
        finder: Finder | None = None,
        preceding: QueryAttribution | None = None,
    ) -> None:
        self.pool = pool
        self.retriever = retriever
        self.finder = finder
        self.compacted: Count = lambda origin, before, after: None
        """Told of results that became TOON: where from, tokens before, tokens after."""
        self.preceding = preceding
        self._limiter = limiter
        self._events = events
        self._relist = relist
        self._view = View(EMPTY, policy or Policy(), settings or GatewaySettings())
        self.tasks = TaskRegister()
        self.changes = Changes(pool, self.tasks, self.may_use)
        self.personal = PrincipalLists(pool, self.changes.tell_session_of)

    @property
    def view(self) -> View:
        """What is served right now, to callers without lists of their own."""
        return self._view

    def view_for(self, request: ClientRequest) -> View:
        """What this caller is served from right now."""
        personal, view = self.personal, self._view
        return personal.view(request, view) if personal.servers else view

    def may_use(self, owner: Owner, endpoint: Endpoint, server: str) -> bool:
        """Whether a caller sees anything of a server at an endpoint right now."""
        view = self._view
        if server in self.personal.servers:
            view = self.personal.view_of(owner, endpoint, view)
        return view.may_use(owner.principal, endpoint, server)

    async def context(
        self, request: ClientRequest, *, own_lists: Literal["unused", "known", "current"] = "known"
    ) -> RequestContext:
        """The request with the view that it is served from, taken here and nowhere else.

        Args:
            request: as it arrived.
            own_lists: what of the lists that the principal has to itself has to be there:
                `known`, whatever was had before, waited for where there was none yet; `current`,
                what they are by now; `unused`, nothing: what is the same for everybody.
        """
        personal, view = self.personal, self._view
        if personal.servers and own_lists != "unused":
            await personal.prepare(request, view, current=own_lists == "current")
            view = personal.view(request, self._view)
        return served_from(request, view)

    @property
    def ready(self) -> bool:
        """Whether a first snapshot is there."""
        return self._view.catalog.version > 0

    @property
    def searches(self) -> bool:
        """Whether a query filters listings."""
        return self._view.settings.tool_rag and self.retriever is not None

    def publish(self, catalog: Catalog) -> None:
        """Serve a new snapshot, and tell the clients whose visible set changed."""
        if catalog is not self._view.catalog:
            self._swap(View(catalog, self._view.policy, self._view.settings, self._view))

    def reconfigure(
        self, *, policy: Policy | None = None, settings: GatewaySettings | None = None
    ) -> None:
        """Serve under another policy or other settings, likewise."""
        view = self._view
        self._swap(View(view.catalog, policy or view.policy, settings or view.settings))

    def _swap(self, view: View) -> None:
        old, self._view = self._view, view
        self.personal.look(view)
        self.changes.swapped(old, view, self.personal.servers)

    def on_mismatch(self, relist: Callable[[str], Awaitable[None]]) -> None:
        """Set `relist` after the fact: what fetches lists is made after the gateway."""
        self._relist = relist

    async def relist(self, server: str) -> None:
        """Have one upstream's lists fetched anew, within ten seconds."""
        if self._relist is None:
            return
        try:
            async with asyncio.timeout(RELIST_S):
                await self._relist(server)
        except TimeoutError:
            _log.warning("relist_too_slow", upstream=server)

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        if isinstance(event, Notified):
            if event.list_changed:
                self.personal.heard(event.server, event.owner)
            self.changes.on_notification(event)

    # -- what clients ask --------------------------------------------------------------------

    async def list_tools(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """`tools/list`; see `gateway.lists.tools.list_tools`."""
        return await tools.list_tools(self, context, params)

    async def call_tool(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """`tools/call`; see `gateway.calls.tool_calls.call_tool`."""
        return await calls.call_tool(self, context, params)

    async def list_entries(
        self, method: str, context: RequestContext, params: dict[str, Raw]
    ) -> Reply:
        """`prompts/list`, `resources/list`, `resources/templates/list`."""
        return primitives.list_entries(self, context, method, params)

    async def get_prompt(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """`prompts/get`; see `gateway.primitives.get_prompt`."""
        return await primitives.get_prompt(self, context, params)

    async def read_resource(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """`resources/read`; see `gateway.primitives.read_resource`."""
        return await primitives.read_resource(self, context, params)

    async def complete(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """`completion/complete`; see `gateway.primitives.complete`."""
        return await primitives.complete(self, context, params)

    async def task_method(
        self, method: str, context: RequestContext, params: dict[str, Raw]
    ) -> Reply:
        """`tasks/*`; see `gateway.primitives.task_method`."""
        return await primitives.task_method(self, context, method, params)

    async def pass_on(self, context: RequestContext, method: str, params: dict[str, Raw]) -> Reply:
        """A method that the gateway does not know; see `gateway.primitives.pass_on`."""
        return await primitives.pass_on(self, context, method, params)

    async def subscribe(
        self, context: RequestContext, subscription: Subscription, uri: str, *, on: bool = True
    ) -> None:
        """`resources/subscribe` and `unsubscribe`.

        Raises:
            RpcError: no such resource for this caller.
            UpstreamUnavailable: its upstream cannot be told.
        """
        server, original = primitives.locate(self, context, uri)
        if on:
            await self.changes.watch(subscription, server, original)
        else:
            await self.changes.unwatch(subscription, server, original)

    # -- who we are --------------------------------------------------------------------------

    def described(self, context: RequestContext) -> dict[str, Any]:
        """`capabilities`, `instructions` and `serverInfo` of the endpoint, for this client."""
        return primitives.described(self, context)

    def extension(self) -> dict[str, Any]:
        """The Tool RAG extension, as capabilities advertise it."""
        settings = self._view.settings
        return {
            TOOL_RAG: {
                "query": QUERY,
                "enabled": self.searches,
                "searchTools": settings.search_tools,
            }
        }

    def instructions(self, context: RequestContext) -> str:
        """What is behind the endpoint: the upstream's own text on the transparent one."""
        view = self._view
        servers = view.servers(context.endpoint)
        if context.endpoint.transparent:
            return "".join(lists.instructions for lists in servers.values())
        visible = {view.catalog.tools[n].server for n in view.sight(context).tools.names}
        lines = [
            "Armory, a gateway in front of several MCP servers. Tools are named server__tool."
            + (f" Use {SEARCH} to find tools that are not listed." if self.searches else "")
        ]
        size = len(lines[0])
        for key, lists in servers.items():
            if key not in visible:
                continue
            line = f"- {key}: {' '.join(lists.instructions.split()) or purpose(key, lists)}"
            line = line if len(line) <= 500 else line[:497] + "..."
            if size + len(line) > _MAX_INSTRUCTIONS:
                lines.append("- and more")
                break
            size += len(line)
            lines.append(line)
        return "\n".join(lines)

    def offers(self, context: RequestContext, meta_tool: str) -> bool:
        """Whether a meta-tool exists at this endpoint (listed or not)."""
        if context.endpoint.transparent:
            return False
        settings = self._view.settings
        return {
            SEARCH: settings.search_tools,
            CALL: settings.call_tool,
            FIND: settings.find_tools and self.finder is not None,
        }.get(meta_tool, False)

    def endpoint(self, kind: str, name: str) -> Endpoint | None:
        """The endpoint of that kind and name; None when there is none."""
        return self._view.endpoint(kind, name)

    def face(self, context: RequestContext, server: str) -> ClientChannel:
        """The client as `server` may reach it: names are exposed on the way out."""
        if context.endpoint.transparent:
            return context.client
        return ExposedChannel(context.client, server)

    # -- around answers ----------------------------------------------------------------------

    async def admit(self, context: RequestContext, method: str, name: str) -> None:
        """Ask the limiter.

        Raises:
            RateLimited: not now.
        """
        if self._limiter is not None:
            await self._limiter.admit(context.principal, method, name)

    def reveal(self, context: RequestContext, names: Iterable[str]) -> None:
        """Let tools that a legacy session searched for enter its list."""
        if self._view.settings.reveal != "session" or context.revealed is None:
            return
        new = set(names) - context.revealed
        if new and context.session is not None:
            context.revealed.update(new)
            self.changes.tell_session(context.session, TOOLS)

    def tell_called(
        self,
        context: RequestContext,
        record: ToolRecord,
        started: float,
        *,
        ok: bool,
        searched: bool = False,
    ) -> None:
        """Note the outcome of a call; `searched`: it came by way of `call_tool`."""
        if self._events is None:
            return
        latency_ms = (time.perf_counter() - started) * 1_000
        who, query = context.principal, None
        if ok and self.preceding is not None:
            query = query_parsing.own_query(context) or self.preceding.led_to(
                who, record.name, context.session, searched=searched
            )
        self._events.called(who, record.name, ok=ok, latency_ms=latency_ms, query=query)

    def tell_listed(
        self,
        context: RequestContext,
        query: Query,
        view: View,
        sight: VisibleCatalog,
        names: list[str],
        body: bytes,
        selection: Selection,
        started: float,
    ) -> None:
        """Note the outcome of a listing or a search."""
        if self.preceding is not None:
            found = (match.tool.name for match in selection.matches)
            self.preceding.asked(context.principal, query.texts, found, context.session)
        if self._events is None:
            return
        listing = Listing(
            query,
            visible=len(sight.tools),
            visible_bytes=len(view.all_tools_json(sight, Form(context.era))),
            returned_bytes=len(body),
            top_score=selection.top_score,
            latency_ms=(time.perf_counter() - started) * 1_000,
            selected=tuple(names),
            degraded=selection.degraded,
        )
        self._events.listed(context.principal, listing)

    def discovery(self, principal: Principal | None) -> dict[str, Any]:
        """The discovery document: endpoints and versions, and what this caller may see of servers
        and sets.
        """
        view = self._view
        base = view.settings.public_url
        document: dict[str, Any] = {
            "name": view.settings.server_name,
            "version": view.settings.server_version,
            "endpoints": {"mcp": f"{base}/mcp", "sse": f"{base}/sse"},
            "extensions": self.extension(),
        }
        if principal is not None:
            names = view.policy.sight(view.catalog, principal).tools.names
            seen = {view.catalog.tools[name].server for name in names}
            shown = [k for k in view.catalog.servers if k in seen or not view.policy.restricts]
            document["servers"] = {key: f"{base}/mcp/{key}" for key in shown}
            document["sets"] = {key: f"{base}/mcp/set/{key}" for key in view.settings.sets}
        return document
