"""A listening client.

Owns: `Subscription`. Never imports a transport: a client is a function that takes a notification
and returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from armory.domain.principal import Principal
from armory.gateway.endpoint import Endpoint
from armory.protocol.capabilities import EVERYTHING
from armory.protocol.link import ClientChannel, Owner, Params
from armory.protocol.methods import GROUPS_CHANGED, LISTS_CHANGED, TOOLS_CHANGED

Deliver = Callable[[str, Params], None]


@dataclass(slots=True, eq=False)
class Subscription:
    """A listening client: a legacy session, or one `subscriptions/listen` stream.

    Attributes:
        principal, endpoint, session: whose it is and where it listens.
        deliver: takes (method, params); must neither block nor raise.
        lists: the list-changed methods that it wants; that of groups only where they are served.
        uris: resources that it subscribed to, as (server, original URI).
        tasks: exposed ids of tasks that it wants to hear of.
        relays: whether it hears notifications that belong to the whole upstream session.
        client: how to reach the client of the session; None on modern.
        exposed: makes of that the channel for one server, where clients know mapped names.
        answers: what of an upstream's questions the client answers; see `protocol.capabilities`.
    """

    principal: Principal
    endpoint: Endpoint
    deliver: Deliver
    session: str | None = None
    lists: frozenset[str] = frozenset(LISTS_CHANGED)
    uris: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    tasks: frozenset[str] = frozenset()
    relays: bool = False
    client: ClientChannel | None = None
    exposed: Callable[[ClientChannel, str], ClientChannel] | None = None
    answers: int = EVERYTHING

    @property
    def owner(self) -> Owner:
        """The owner of its subscriptions at upstreams."""
        exposed = None if self.endpoint.transparent else self.exposed
        return Owner(self.principal, self.session, self.client, exposed)

    def tell_lists(self, methods: frozenset[str]) -> None:
        """Deliver those list changes that it subscribed to."""
        for method in LISTS_CHANGED:
            if method in methods and method in self.lists:
                self.deliver(method, {})
        if GROUPS_CHANGED in self.lists and methods & {TOOLS_CHANGED, GROUPS_CHANGED}:
            self.deliver(GROUPS_CHANGED, {})
