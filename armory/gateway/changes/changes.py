"""Decides which clients are notified: of changed lists, of watched resources, of their tasks.

Owns: `Changes`, the hub between upstream notifications and listening clients. Never imports a
transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from armory import tasks
from armory.domain.naming import expose_uri
from armory.domain.principal import Principal
from armory.errors import BackendError, UpstreamUnavailable
from armory.gateway.changes.differences import ViewDifference
from armory.gateway.changes.resource_watches import ResourceWatches
from armory.gateway.changes.rounds import Rounds
from armory.gateway.changes.task_streams import MayUse, TaskStreams
from armory.gateway.ports import Pool
from armory.gateway.results.uri_rewriting import expose_params
from armory.gateway.subscription import Subscription
from armory.gateway.tasks.register import Place, TaskRegister
from armory.logger import Logger
from armory.protocol.capabilities import HANDSHAKE
from armory.protocol.link import Owner, Params
from armory.protocol.meta import RELATED_TASK
from armory.protocol.methods import (
    ABOUT_TASKS,
    ELICITATION_COMPLETE,
    LISTS_CHANGED,
    LOGGED,
    RESOURCE_UPDATED,
)
from armory.protocol.rawjson import members_or_none, pack, text_of
from armory.protocol.session_events import Notified, is_of_one_client, principal_of

_log = Logger(__name__)
_RELAYED = ABOUT_TASKS | {ELICITATION_COMPLETE, LOGGED}
_MADE_WITHIN_S = 2.0
"""How long news of a task waits for the result that creates the task."""
_WAITING = 256
_LEVELS, _LONGEST = 32, 8_192
"""Slashes and characters of an updated URI up to which watched resources above it are sought."""


class Changes:
    """The hub between notifications of upstreams and listening clients.

    Args:
        pool: the upstream sessions.
        register: whose a task is.
        may_use: whether a caller sees anything of a server at an endpoint.
        sees_whole: whether policy keeps nothing from a caller of what its endpoint has.
        may_read: whether policy lets a caller use the resource with that URI of a server.
        may_know: whether policy lets a caller know of a server.
        on_dropped: called with the server of each notification that has no recipient, or that came
            while too many were on their way.

    Attributes:
        resources: the resources that clients watch.
        task_streams: the tasks of modern upstreams that clients follow.
    """

    def __init__(
        self,
        pool: Pool,
        register: TaskRegister,
        may_use: MayUse,
        sees_whole: Callable[[Subscription], bool],
        may_read: Callable[[Principal, str, str], bool],
        may_know: Callable[[Principal, str], bool],
        on_dropped: Callable[[str], None] = lambda _server: None,
    ) -> None:
        self._on_dropped = on_dropped
        self.resources = ResourceWatches(pool)
        self.task_streams = TaskStreams(pool, may_use)
        self._pool = pool
        self._register = register
        self._may_use = may_use
        self._sees_whole = sees_whole
        self._may_read = may_read
        self._may_know = may_know
        self._subscriptions: set[Subscription] = set()
        self._direct: set[Subscription] = set()  # those of them at a transparent endpoint
        self._by_principal: dict[str, set[Subscription]] = {}
        self._rounds = Rounds()
        self._waiting = tasks.Tasks()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, subscription: Subscription) -> None:
        """Register a listening client."""
        self._subscriptions.add(subscription)
        self._by_principal.setdefault(subscription.principal.key, set()).add(subscription)
        if subscription.endpoint.transparent:
            self._direct.add(subscription)

    async def remove(self, subscription: Subscription) -> None:
        """Unregister a client, with the resources that it watched."""
        self._subscriptions.discard(subscription)
        self._direct.discard(subscription)
        principal = subscription.principal.key
        theirs = self._by_principal.get(principal, set())
        theirs.discard(subscription)
        if not theirs:
            self._by_principal.pop(principal, None)
        await self.task_streams.leave(subscription)
        await self.resources.remove_all(subscription)

    async def close(self) -> None:
        """Cancel every task, and wait for it."""
        self._rounds.close()
        await self._waiting.stop()
        await self.task_streams.close()
        await self.resources.close()

    # -- lists -------------------------------------------------------------------------------

    def view_swapped(self, difference: ViewDifference) -> None:
        """Notify all clients whose visible set differs between two views, once per list."""

        def tell(subscription: Subscription) -> None:
            if subscription in self._subscriptions:  # still
                principal, endpoint = subscription.principal, subscription.endpoint
                subscription.tell_lists(difference.lists_changed(principal, endpoint))

        if difference:
            self._rounds.begin(self._subscriptions, tell)

    def tell_owner(self, server: str, owner: str, methods: frozenset[str]) -> None:
        """Notify the clients of one upstream session that its lists differ for them.

        Args:
            server: the upstream.
            owner: key of its session (`Pool.key`).
            methods: the list-changed notifications.
        """
        for subscription in list(self._behind(owner)):
            if _may_list(subscription, server) and self._serves(server, owner, subscription):
                subscription.tell_lists(methods)

    def tell_alike(self, server: str, answers: int, methods: frozenset[str]) -> None:
        """Notify the clients with the same client capabilities that an upstream's lists differ for
        them.

        Args:
            server: the upstream.
            answers: what they answer; see `protocol.capabilities`.
            methods: the list-changed notifications.
        """
        alike = (answers, answers | HANDSHAKE)
        for subscription in list(self._subscriptions):
            listed = _may_list(subscription, server) and subscription.answers in alike
            if listed and self._may_know(subscription.principal, server):
                subscription.tell_lists(methods)

    def tell_session(self, session: str, method: str) -> None:
        """Notify one legacy session."""
        for subscription in self._subscriptions:
            if subscription.session == session:
                subscription.tell_lists(frozenset((method,)))

    def tell_user(self, user: str) -> None:
        """Notify all clients of one user that its lists differ, since its packs changed."""
        for subscription in list(self._subscriptions):
            if subscription.principal.user == user:
                subscription.tell_lists(frozenset(LISTS_CHANGED))

    # -- from upstream -----------------------------------------------------------------------

    def on_notification(self, event: Notified) -> None:
        """Handle a notification of an upstream that belongs to no request.

        The supervisor handles list changes. For clients of the upstream's own endpoint they pass in
        any case, even where nothing differs.
        """
        if event.method in LISTS_CHANGED:
            self._lists_announced(event)
        elif event.method == RESOURCE_UPDATED:
            self._updated(event)
        elif event.method in _RELAYED:
            self._relay(event)
        elif event.owner and not event.list_changed:
            self._spread(event, unknown=True)

    def served_alone(self, server: str, owner: str) -> list[Owner]:
        """The clients that have one upstream session to themselves."""
        if not owner:  # it is nobody's alone, and there may be thousands of clients
            return []
        return [
            subscription.owner
            for subscription in self._behind(owner)
            if subscription.session is not None
            and owner != subscription.principal.key
            and self._serves(server, owner, subscription)
        ]

    def _lists_announced(self, event: Notified) -> None:
        server = event.server
        for subscription in list(self._direct):
            if subscription.endpoint.name != server:
                continue
            if event.owner:
                hears = self._serves(server, event.owner, subscription)
            else:
                hears = not self._pool.announces(server, subscription.owner)
            if hears and self._may_use(subscription, server):
                subscription.tell_lists(frozenset((event.method,)))

    def _updated(self, event: Notified) -> None:
        uri, server, session = text_of(event.params, "uri"), event.server, event.owner
        if uri is None:
            return

        def tell(subscription: Subscription) -> None:
            watches = subscription.uris and self._serves(server, session, subscription)
            if watches and self._may_read(subscription.principal, server, uri):  # by now
                shown = uri if subscription.endpoint.transparent else expose_uri(server, uri)
                subscription.deliver(RESOURCE_UPDATED, {**event.params, "uri": pack(shown)})

        # URIs need not show that one is below another. So in a session that serves one client alone
        # every update counts of an upstream of which it watches anything.
        if is_of_one_client(session):
            concerned = self.resources.all_watchers(server, session)
        else:
            concerned = self.resources.watchers(server, session, {uri, *_above(uri)})
        if concerned and self._rounds.too_many:
            self._on_dropped(server)
        elif concerned:
            self._rounds.begin(concerned, tell)

    def _relay(self, event: Notified) -> None:
        task = _task_in(event.params)
        if task is None:
            # a session that many share says to none of them whom it means
            if event.owner and event.method not in ABOUT_TASKS:
                self._spread(event)
            else:
                self._on_dropped(event.server)
            return
        place = Place(event.server, event.owner, task)
        maker = self._register.near(place)
        if maker is not None:
            self._spread(event, maker)
        elif len(self._waiting) < _WAITING:  # its result may be on its way still
            self._waiting.spawn(self._when_made(place, event), "news of a task")
        else:
            self._on_dropped(event.server)

    async def _when_made(self, place: Place, event: Notified) -> None:
        try:
            maker = await self._register.maker(place, within_s=_MADE_WITHIN_S)
        except BackendError:
            maker = None
        if maker is None:
            self._on_dropped(event.server)
            _log.debug("task_of_nobody", upstream=event.server, method=event.method)
        else:
            self._spread(event, maker)

    def _spread(self, event: Notified, maker: str | None = None, *, unknown: bool = False) -> None:
        """Notify the clients that one upstream session serves.

        Args:
            event: what it said.
            maker: only this principal.
            unknown: nobody here can tell what it is about: only at the upstream's own endpoint, for
                those who see all of it.
        """
        server, task = event.server, text_of(event.params, "taskId")

        def tell(subscription: Subscription) -> None:
            endpoint = subscription.endpoint
            if subscription not in self._subscriptions:  # any more
                return
            if maker is not None and subscription.principal.key != maker:
                return
            if unknown and not (endpoint.transparent and self._sees_whole(subscription)):
                return
            if not self._serves(server, event.owner, subscription):
                return
            visible = self._may_use(subscription, server)
            if not (endpoint.scope.has_server(server) and visible):
                return
            shown = event.params
            if not endpoint.transparent:
                shown = expose_params(shown, server)
            followed = task is not None and text_of(shown, "taskId") in subscription.tasks
            if followed or subscription.relays:
                subscription.deliver(event.method, shown)

        if self._rounds.too_many:
            self._on_dropped(server)
        else:
            self._rounds.begin(self._behind(event.owner), tell)

    def _behind(self, owner: str) -> Iterable[Subscription]:
        """The clients that an upstream session with this key (`Pool.key`) may serve."""
        if not owner:
            return self._subscriptions
        return self._by_principal.get(owner) or self._by_principal.get(principal_of(owner), ())

    def _serves(self, server: str, owner: str, subscription: Subscription) -> bool:
        """Whether one upstream session serves a client."""
        try:
            return self._pool.key(server, subscription.owner) == owner
        except UpstreamUnavailable:  # removed from the configuration, while its calls finish
            return False


def _may_list(subscription: Subscription, server: str) -> bool:
    """Whether an endpoint may show anything of a server: the whole server, or tools by name."""
    scope = subscription.endpoint.scope
    return scope.has_server(server) or scope.tools is not None


def _above(uri: str) -> list[str]:
    """The URIs of which this one may be a sub-resource: its prefixes up to each slash."""
    above: list[str] = []
    end = min(len(uri), _LONGEST)
    while len(above) < 2 * _LEVELS and (end := uri.rfind("/", 0, end)) > 0:
        above += (uri[: end + 1], uri[:end])
    return above


def _task_in(params: Params) -> str | None:
    """The id of the task that a notification is about."""
    if "taskId" in params:
        return text_of(params, "taskId") or ""
    related = members_or_none((members_or_none(params.get("_meta")) or {}).get(RELATED_TASK))
    return None if related is None else text_of(related, "taskId") or ""
