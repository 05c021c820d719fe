"""Who must hear of a change: lists that differ for a client, and resources that it subscribed to.

Owns: subscriptions of clients and the reference counts toward upstreams. Never imports a
transport: a client is a function that takes a notification and returns at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import structlog

from armory.domain.catalog import Diff
from armory.domain.naming import expose_uri
from armory.domain.principal import Principal
from armory.domain.tool import ListedRecord, ToolRecord
from armory.errors import ArmoryError, BackendError
from armory.gateway.requests import Endpoint
from armory.gateway.results.uri_rewriting import expose_params
from armory.gateway.tasks import Place, TaskRegister
from armory.gateway.views.view import View
from armory.protocol.link import Owner, Params
from armory.protocol.meta import RELATED_TASK
from armory.protocol.rawjson import members_or_none, pack, text_of
from armory.protocol.session_events import Notified
from armory.security.policy import Scope
from armory.tasks import Tasks

if TYPE_CHECKING:
    from armory.gateway.ports import Pool

_log = structlog.get_logger(__name__)
MayUse = Callable[[Owner, Endpoint, str], bool]
Deliver = Callable[[str, Params], None]
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
LOGGED = "notifications/message"
ABOUT_TASKS = frozenset(("notifications/tasks", "notifications/tasks/status"))
RELAYED = ABOUT_TASKS | {"notifications/elicitation/complete", LOGGED}
_MADE_WITHIN_S = 2.0
"""So long news of a task waits for the result that makes it."""
_WAITING = 256


@dataclass(slots=True, eq=False)
class Subscription:
    """One client that listens: a legacy session, or one `subscriptions/listen` stream.

    Attributes:
        principal, endpoint, session: whose it is and where it listens.
        deliver: takes (method, params); must neither block nor raise.
        lists: the list-changed methods that it wants.
        uris: resources that it subscribed to, as (server, original URI).
        tasks: exposed ids of tasks that it wants to hear of.
        relays: whether it hears notifications that belong to the whole upstream session.
    """

    principal: Principal
    endpoint: Endpoint
    deliver: Deliver
    session: str | None = None
    lists: frozenset[str] = frozenset((TOOLS, PROMPTS, RESOURCES))
    uris: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    tasks: frozenset[str] = frozenset()
    relays: bool = False


class Changes:
    """The hub between upstream news and listening clients.

    Args:
        pool: the upstream sessions.
        tasks: whose a task is.
        may_use: whether a caller sees anything of a server at an endpoint.
    """

    def __init__(self, pool: Pool, tasks: TaskRegister, may_use: MayUse) -> None:
        self._pool = pool
        self._tasks = tasks
        self._may_use = may_use
        self._waiting = Tasks()
        self._subscriptions: set[Subscription] = set()
        self._watched: dict[tuple[str, str], Counter[str]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, subscription: Subscription) -> None:
        """Let a client listen."""
        self._subscriptions.add(subscription)

    async def remove(self, subscription: Subscription) -> None:
        """Let a client go, with the resources that it watched."""
        self._subscriptions.discard(subscription)
        for server, uri in list(subscription.uris):
            try:
                await self.unwatch(subscription, server, uri)
            except ArmoryError as error:
                _log.info("unsubscribe_failed", server=server, error=error.message)

    # -- lists -------------------------------------------------------------------------------

    def swapped(self, old: View, new: View, personal: frozenset[str] = frozenset()) -> None:
        """Tell everybody whose visible set differs between two views, once per list.

        What differs of `personal` upstreams only the gateway sees: see `tell_session_of`.
        """
        diff = new.catalog.diff(old.catalog)
        if not diff and old.policy is new.policy and old.settings is new.settings:
            return
        verdicts: dict[tuple[object, ...], frozenset[str]] = {}
        for subscription in list(self._subscriptions):
            endpoint, principal = subscription.endpoint, subscription.principal
            key = (
                new.policy.profile(principal),
                old.policy.profile(principal),
                endpoint.scope.key,
            )
            changed = verdicts.get(key)
            if changed is None:
                changed = verdicts[key] = _differs(old, new, diff, principal, endpoint, personal)
            for method in (TOOLS, PROMPTS, RESOURCES):
                if method in changed and method in subscription.lists:
                    subscription.deliver(method, {})

    def tell_session_of(self, server: str, owner: str, methods: frozenset[str]) -> None:
        """Tell the clients that one upstream session serves that its lists differ for them."""
        for subscription in list(self._subscriptions):
            scope = subscription.endpoint.scope
            listed = scope.has_server(server) or scope.tools is not None
            if not listed or not self._is_for(subscription, server, owner):
                continue
            for method in (TOOLS, PROMPTS, RESOURCES):
                if method in methods and method in subscription.lists:
                    subscription.deliver(method, {})

    def tell_session(self, session: str, method: str) -> None:
        """Tell one legacy session alone."""
        for subscription in self._subscriptions:
            if subscription.session == session and method in subscription.lists:
                subscription.deliver(method, {})

    def tell_user(self, user: str) -> None:
        """Tell every client of one user that its lists differ: its packs changed."""
        for subscription in list(self._subscriptions):
            if subscription.principal.user == user:
                for method in (TOOLS, PROMPTS, RESOURCES):
                    if method in subscription.lists:
                        subscription.deliver(method, {})

    # -- resources ---------------------------------------------------------------------------

    async def watch(self, subscription: Subscription, server: str, uri: str) -> None:
        """Let a client hear of updates of one resource; twice is once.

        Raises:
            UpstreamUnavailable: the upstream cannot be told.
        """
        if (server, uri) in subscription.uris:
            return
        subscription.uris.add((server, uri))
        try:
            await self._count(subscription, server, uri, +1)
        except BaseException:
            subscription.uris.discard((server, uri))
            raise

    async def unwatch(self, subscription: Subscription, server: str, uri: str) -> None:
        """The reverse; nothing where there was no subscription.

        Raises:
            UpstreamUnavailable: the upstream cannot be told.
        """
        if (server, uri) in subscription.uris:
            subscription.uris.discard((server, uri))
            await self._count(subscription, server, uri, -1)

    async def _count(self, subscription: Subscription, server: str, uri: str, step: int) -> None:
        owner = Owner(subscription.principal, subscription.session)
        key = (server, self._pool.key(server, owner))
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            counts = self._watched.setdefault(key, Counter())
            before = frozenset(counts)
            counts[uri] += step
            if counts[uri] <= 0:
                del counts[uri]
            after = frozenset(counts)
            try:
                if after != before:
                    await self._pool.set_subscriptions(server, owner, after)
            except BaseException:
                if step > 0:
                    counts[uri] -= step
                    if counts[uri] <= 0:
                        del counts[uri]
                raise
            finally:
                if not counts:
                    self._watched.pop(key, None)

    # -- from upstream -----------------------------------------------------------------------

    def on_notification(self, event: Notified) -> None:
        """What an upstream says outside any request; list changes are the supervisor's."""
        if event.method == UPDATED:
            self._updated(event)
        elif event.method in RELAYED:
            self._relay(event)

    def _updated(self, event: Notified) -> None:
        uri, server = text_of(event.params, "uri"), event.server
        if uri is None:
            return
        for subscription in list(self._subscriptions):
            wanted = (server, uri) in subscription.uris
            if wanted and self._is_for(subscription, server, event.owner):
                shown = uri if subscription.endpoint.transparent else expose_uri(server, uri)
                subscription.deliver(UPDATED, {**event.params, "uri": pack(shown)})

    def _relay(self, event: Notified) -> None:
        if event.method == LOGGED and not event.owner:
            return  # a session that many share says to none of them whom it means
        task = _task_in(event.params)
        if task is None:
            if event.method not in ABOUT_TASKS:
                self._spread(event)
            return
        place = Place(event.server, event.owner, task)
        maker = self._tasks.near(place)
        if maker is not None:
            self._spread(event, maker)
        elif len(self._waiting) < _WAITING:  # its result may be on its way still
            self._waiting.spawn(self._when_made(place, event), "news of a task")

    async def _when_made(self, place: Place, event: Notified) -> None:
        try:
            maker = await self._tasks.maker(place, within_s=_MADE_WITHIN_S)
        except BackendError:
            maker = None
        if maker is None:
            _log.debug("task_of_nobody", upstream=event.server, method=event.method)
        else:
            self._spread(event, maker)

    def _spread(self, event: Notified, maker: str | None = None) -> None:
        """Tell those whom one upstream session serves; `maker`: only that principal."""
        server, task = event.server, text_of(event.params, "taskId")
        for subscription in list(self._subscriptions):
            endpoint, principal = subscription.endpoint, subscription.principal
            if maker is not None and principal.key != maker:
                continue
            mine = Owner(principal, subscription.session)
            if self._pool.key(server, mine) != event.owner:
                continue
            if not (endpoint.scope.has_server(server) and self._may_use(mine, endpoint, server)):
                continue
            shown = event.params
            if not endpoint.transparent:
                shown = expose_params(shown, server)
            wanted = task is not None and text_of(shown, "taskId") in subscription.tasks
            if wanted or subscription.relays:
                subscription.deliver(event.method, shown)

    def _is_for(self, subscription: Subscription, server: str, owner: str) -> bool:
        mine = Owner(subscription.principal, subscription.session)
        return self._pool.key(server, mine) == owner


def _task_in(params: Params) -> str | None:
    """The task that a notification is about."""
    if "taskId" in params:
        return text_of(params, "taskId") or ""
    related = members_or_none((members_or_none(params.get("_meta")) or {}).get(RELATED_TASK))
    return None if related is None else text_of(related, "taskId") or ""


def _differs(
    old: View,
    new: View,
    diff: Diff,
    principal: Principal,
    endpoint: Endpoint,
    personal: frozenset[str],
) -> frozenset[str]:
    before = old.policy.sight(old.catalog, principal, _scope(old, endpoint))
    after = new.policy.sight(new.catalog, principal, _scope(new, endpoint))

    def touched(
        kind: Literal["tools", "prompts", "resources", "templates"],
        a: frozenset[str],
        b: frozenset[str],
        names: frozenset[str],
    ) -> bool:
        if personal:
            records: tuple[Mapping[str, ToolRecord | ListedRecord], ...] = (
                getattr(old.catalog, kind),
                getattr(new.catalog, kind),
            )
            own = {n for known in records for n, r in known.items() if r.server in personal}
            a, b, names = a - own, b - own, names - own
        return a != b or not names.isdisjoint(b)

    found: set[str] = set()
    if touched("tools", before.tools.names, after.tools.names, diff.tools.names):
        found.add(TOOLS)
    if touched("prompts", before.prompts, after.prompts, diff.prompts.names):
        found.add(PROMPTS)
    if touched("resources", before.resources, after.resources, diff.resources.names) or touched(
        "templates", before.templates, after.templates, diff.templates.names
    ):
        found.add(RESOURCES)
    return frozenset(found)


def _scope(view: View, endpoint: Endpoint) -> Scope:
    """What the endpoint shows in a view: a set may be another one, or be gone."""
    found = view.endpoint(endpoint.kind, endpoint.name)
    return found.scope if found is not None else endpoint.scope
