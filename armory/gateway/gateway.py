"""The gateway: assembles the parts of the request path, and holds the view that they serve.

Owns: putting the parts together, the current `View`, swapping it, and giving each request its own.
Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from armory.domain.catalog import EMPTY, Catalog
from armory.domain.principal import Principal
from armory.feedback.attribution import QueryAttribution
from armory.gateway.calls.forwarding import Forwarder
from armory.gateway.calls.meta_tools import MetaTools
from armory.gateway.calls.skills import Skills
from armory.gateway.calls.tool_calls import ToolCalls
from armory.gateway.changes.announcements import Announcements
from armory.gateway.changes.changes import Changes
from armory.gateway.changes.differences import ViewDifference
from armory.gateway.client_news import ClientNews
from armory.gateway.context import RequestContext, served_from
from armory.gateway.description import Description
from armory.gateway.lists.groups import Groups
from armory.gateway.lists.manifest import Manifest
from armory.gateway.lists.tool_lists import ToolLists
from armory.gateway.lists.whole import lacks_some
from armory.gateway.outcomes import Outcomes
from armory.gateway.ports import (
    Finder,
    Hold,
    Limiter,
    OnCompacted,
    Pool,
    PrivateTools,
    Relist,
    Retriever,
    ToolEvents,
)
from armory.gateway.primitives import Primitives
from armory.gateway.requests import ClientRequest
from armory.gateway.results.answers import Answers
from armory.gateway.session_methods import SessionMethods
from armory.gateway.settings import GatewaySettings
from armory.gateway.subscription import Subscription
from armory.gateway.tasks.ownership import TaskOwnership
from armory.gateway.tasks.register import TaskRegister
from armory.gateway.views.declared_lists import DeclaredLists
from armory.gateway.views.principal_lists import PrincipalLists
from armory.gateway.views.principal_views import PlainPrivateTools, PrincipalViews
from armory.gateway.views.view import View
from armory.logger import Logger
from armory.protocol.session_events import Notified, Replaced, SessionEvent
from armory.security.policy import Policy

_log = Logger(__name__)
RELIST_S = 10.0
OwnLists = Literal["unused", "known", "current"]


class Unlimited:
    """A limiter without limits."""

    async def acquire(self, principal: Principal, method: str, name: str) -> Hold | None:
        """As `Limiter.acquire`; always admits."""

    async def take(self, principal: Principal) -> None:
        """As `Limiter.take`; always admits."""


@dataclass(frozen=True, slots=True)
class Services:
    """The services around the request path.

    Attributes:
        limiter: rate limits and quotas.
        events: where statistics go; None: nowhere.
        contents: whether events of calls carry arguments and results.
        attribution: remembers queries, so that events of calls name the one before; None: they
            don't.
        finder: gives the retrieval agent behind `find_tools`; None while there is none.
        relist: has one upstream's lists fetched anew; None: nothing can.
        on_compacted: called for each result that became TOON.
        on_dropped: called for each notification of an upstream that has no recipient.
        private_tools: makes catalogs of single principals' lists.
        tasks: who made which task.
    """

    limiter: Limiter = field(default_factory=Unlimited)
    events: ToolEvents | None = None
    contents: bool = False
    attribution: QueryAttribution | None = None
    finder: Callable[[], Finder | None] = lambda: None
    relist: Relist | None = None
    on_compacted: OnCompacted = lambda _origin, _before, _after: None
    on_dropped: Callable[[str], None] = lambda _server: None
    private_tools: PrivateTools = field(default_factory=PlainPrivateTools)
    tasks: TaskRegister = field(default_factory=TaskRegister)


class Gateway:
    """The request path.

    Args:
        pool: upstream sessions.
        retriever: search over the tools; None lists without ever searching.
        policy: who may see and call what.
        settings: see `GatewaySettings`.
        services: what stands around it.

    Attributes:
        limiter: rate limits and quotas.
        changes: who hears of what changed.
        client_news: what clients say without being asked.
        principal_lists: the lists that single principals have to themselves.
        declared_lists: those of clients that can be asked less than others.
        tool_lists, tool_calls, primitives, skills, groups, manifest, session_methods: answer
            requests.
        description: says who the gateway is.
        tasks: whose tasks are.
    """

    def __init__(
        self,
        pool: Pool,
        retriever: Retriever | None = None,
        policy: Policy | None = None,
        settings: GatewaySettings | None = None,
        services: Services | None = None,
    ) -> None:
        services = services or Services()
        self.limiter = limiter = services.limiter
        self.pool = pool
        self._relist = services.relist
        self._view = View(EMPTY, policy or Policy(), settings or GatewaySettings())
        self._prepared: ViewDifference | None = None
        self.changes = Changes(
            pool,
            services.tasks,
            self._may_use,
            lambda subscription: self._view_of(subscription).servers.sees_whole(subscription),
            self._may_read,
            self._may_know,
            services.on_dropped,
        )
        self._announcements = Announcements(self._list_changed)
        self.principal_lists = PrincipalLists(pool, self.changes.tell_owner)
        self.declared_lists = DeclaredLists(pool, self.changes.tell_alike)
        self._principal_views = PrincipalViews(
            self.principal_lists, self.declared_lists, services.private_tools
        )
        self.tasks = TaskOwnership(pool, services.tasks)
        outcomes = Outcomes(services.events, services.attribution, contents=services.contents)
        answers = Answers(self.tasks, services.on_compacted)
        self.tool_lists = ToolLists(retriever, limiter, outcomes)
        self.description = Description(self.tool_lists.filters, lacks_some)
        meta_tools = MetaTools(
            self.tool_lists, services.finder, limiter, answers, self.changes, outcomes
        )
        self.tool_calls = ToolCalls(
            pool, limiter, answers, self.tasks, meta_tools, outcomes, self._renewed
        )
        forwarder = Forwarder(pool, limiter, answers, self.tasks)
        self.primitives = Primitives(forwarder, self.tasks)
        self.skills = Skills(forwarder)
        self.groups = Groups(self.primitives.pass_on)
        self.manifest = Manifest(self.tool_lists.list, self.primitives.pass_on)
        self.session_methods = SessionMethods(pool, self.changes.resources, limiter, self.tasks)
        self.client_news = ClientNews(pool, limiter, self.tasks)

    # -- what is served ----------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The view that is served now, to callers without lists of their own."""
        return self._view

    @property
    def ready(self) -> bool:
        """Whether a first snapshot is there."""
        return self._view.catalog.version > 0

    def awaits(self, server: str, principal: Principal) -> bool:
        """Whether an upstream is configured that has not listed yet, and this caller may know of
        it.
        """
        view = self._view
        return (
            server not in view.catalog.servers
            and server in self.pool.servers()
            and view.policy.concerns(principal, server)
        )

    def discovery(self, principal: Principal | None) -> dict[str, Any]:
        """The discovery document, see `Description.discovery`."""
        awaited: list[str] = []
        if principal is not None:
            awaited = [key for key in self.pool.servers() if self.awaits(key, principal)]
        return self.description.discovery(self._view, principal, awaited)

    async def context(
        self, request: ClientRequest, *, own_lists: OwnLists = "known"
    ) -> RequestContext:
        """The request with its view, which is taken here, once for each request.

        Args:
            request: as it arrived.
            own_lists: what of the lists that the principal has to itself has to be there:
                `known`, whatever was had before, waited for where there was none yet; `current`,
                what they are by now; `unused`, nothing: what is the same for everybody.
        """
        if own_lists == "unused":
            return served_from(request, self._view)
        current, declared = own_lists == "current", self.declared_lists
        alike = (current or declared.any_differ) and declared.concern(
            request.answers, current=current
        )
        if not (alike or self.principal_lists.has(request.session_id, request.principal.key)):
            return served_from(request, self._view)
        views = self._principal_views
        await views.prepare(request, current=current)
        view = await views.view_off_loop(
            request.owner, request.endpoint, self._view, request.answers
        )
        if current:
            await views.index()
        return served_from(request, view)

    def prepare(self, catalog: Catalog) -> None:
        """Do the expensive part of `publish` for a large snapshot; in any thread."""
        old = self._view
        view = View(catalog, old.policy, old.settings, old)
        view.names  # noqa: B018 # the first search would take them apart on the event loop
        view.policy.prepare(catalog)
        self._prepared = ViewDifference(old, view, self.principal_lists.servers)

    def publish(self, catalog: Catalog) -> None:
        """Serve a new snapshot, and notify the clients whose visible set changed."""
        old = self._view
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.old is old and prepared.new.catalog is catalog:
            self._swap(prepared.new, prepared)
        elif catalog is not old.catalog:
            self._swap(View(catalog, old.policy, old.settings, old))

    def reconfigure(
        self, *, policy: Policy | None = None, settings: GatewaySettings | None = None
    ) -> None:
        """Serve with another policy or other settings, and notify likewise."""
        old = self._view
        self._swap(View(old.catalog, policy or old.policy, settings or old.settings, old))

    def _swap(self, view: View, prepared: ViewDifference | None = None) -> None:
        old, self._view = self._view, view
        self.principal_lists.view_swapped(view)
        self._principal_views.view_swapped()
        private = self.principal_lists.servers
        self.declared_lists.view_swapped(view, private)
        if prepared is None or prepared.private != private:
            prepared = ViewDifference(old, view, private)
        self.changes.view_swapped(prepared)
        view.policy.serve(view.catalog)

    def _view_of(self, subscription: Subscription) -> View:
        """The view that serves a client now."""
        view, owner, endpoint = self._view, subscription.owner, subscription.endpoint
        alike = self.declared_lists.concern(subscription.answers, current=False)
        if alike or self.principal_lists.has(owner.session_id, owner.principal.key):
            return self._principal_views.view(owner, endpoint, view, subscription.answers)
        return view

    def _may_use(self, subscription: Subscription, server: str) -> bool:
        """Whether a client sees anything of a server at its endpoint now."""
        principal, endpoint = subscription.principal, subscription.endpoint
        return self._view_of(subscription).servers.may_use(principal, endpoint, server)

    def _may_read(self, principal: Principal, server: str, uri: str) -> bool:
        return self._view.policy.allows_uri(principal, server, uri)

    def _may_know(self, principal: Principal, server: str) -> bool:
        return self._view.policy.concerns(principal, server)

    async def _renewed(self, context: RequestContext, server: str) -> RequestContext:
        """Fetch one upstream's lists again, within ten seconds; returns the request with the new
        view, for a retry.
        """
        if self._relist is not None:
            try:
                async with asyncio.timeout(RELIST_S):
                    await self._relist(server)
            except TimeoutError:
                _log.warning("relist_too_slow", upstream=server)
        view = await self._principal_views.view_off_loop(
            context.owner, context.endpoint, self._view, context.answers
        )
        return served_from(context, view)

    # -- from upstream -----------------------------------------------------------------------

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`."""
        if isinstance(event, Notified):
            if event.list_changed:
                self._announcements.take(event)
            else:
                self.changes.on_notification(event)
        elif isinstance(event, Replaced):
            self.changes.resources.replaced(event.server)

    def _list_changed(self, event: Notified) -> None:
        self.principal_lists.on_list_changed(event.server, event.owner)
        for owner in self.changes.served_alone(event.server, event.owner):
            self.principal_lists.separate_client(event.server, owner, self._view)
        if self.principal_lists.separate_principal(event.server, event.owner, self._view):
            self.changes.tell_owner(event.server, event.owner, frozenset((event.method,)))
        self.changes.on_notification(event)

    async def session_ended(self, session_id: str) -> None:
        """A legacy session ended: drop everything that was kept for it alone."""
        self.principal_lists.release(session_id)
        await self.pool.release_session(session_id)

    async def close(self) -> None:
        """Cancel the background tasks."""
        self._announcements.close()
        await self._principal_views.close()
        await self.principal_lists.close()
        await self.declared_lists.close()
        await self.changes.close()
