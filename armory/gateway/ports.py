"""What the request path needs from other rooms, as Protocols.

Owns: the interfaces of the upstream pool, retrieval, the agent, limits, statistics and the builder
of catalogs. Adapters satisfy them structurally; nothing here imports them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from armory.agent.findings import AgentResult
from armory.domain.catalog import Catalog, ServerLists
from armory.domain.principal import Principal
from armory.domain.query import Query, VisibleSet
from armory.domain.results import CallOutcome, Listing, Selection
from armory.domain.tool import ToolRecord
from armory.protocol.link import (
    Call,
    ClientChannel,
    Owner,
    Params,
    Reply,
)
from armory.protocol.versions import Era


class Pool(Protocol):
    """The upstream sessions (`upstreams.pool.Pool`)."""

    def request(self, server: str, owner: Owner, call: Call) -> Awaitable[Reply]:
        """Send one call over the session that serves `owner`.

        Raises:
            UpstreamUnavailable: the upstream is down, its breaker is open, it is overloaded
                (`UpstreamOverloaded`), or it died during the call.
            UpstreamTimeout: the deadline passed.
        """
        ...

    async def set_subscriptions(
        self, server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        """Subscribe the session of `owner` to exactly these original URIs; `again` is one of them
        that one more client subscribed to.
        """
        ...

    async def listen(self, server: str, owner: Owner, call: Call) -> Reply:
        """Send a `subscriptions/listen` over the session that serves `owner`. It takes no place in
        the queue of calls. Returns when the stream has ended.

        Raises:
            UpstreamUnavailable: no session can be opened, or the call ended otherwise.
        """
        ...

    async def fetch_lists(
        self, server: str, owner: Owner, capabilities: Mapping[str, Any] | None = None
    ) -> ServerLists:
        """Fetch all lists as `owner` sees them; changes are announced from then on, if the upstream
        can.

        Raises:
            UpstreamUnavailable: they cannot be fetched.
        """
        ...

    async def fetch_lists_for(
        self, server: str, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        """Fetch all lists as a client with those capabilities would see them, over a temporary
        session.

        Args:
            server: the upstream.
            capabilities: what the client declares.
            handshake: whether to use a session with a handshake even if the upstream is modern as
                well.

        Raises:
            UpstreamUnavailable: they cannot be fetched.
        """
        ...

    def key(self, server: str, owner: Owner) -> str:
        """Key of the session that serves `owner`: `SessionEvent.owner`.

        Empty for a session that all share, else the principal's key, alone or before a line feed.
        """
        ...

    async def settle(self, server: str, owner: Owner) -> None:
        """Find out for certain which session serves `owner`: `key` may differ afterwards.

        Raises:
            UpstreamUnavailable: it cannot be found out.
        """
        ...

    async def release_session(self, session_id: str) -> None:
        """A legacy client session ended: close the upstream sessions that only it used."""
        ...

    async def notify(self, server: str, owner: Owner, method: str, params: Params) -> None:
        """Send a notification over the session that serves `owner`; dropped in the modern era.

        Raises:
            UpstreamUnavailable: it cannot be reached.
        """
        ...

    async def roots_changed(self, owner: Owner, client: ClientChannel, params: Params) -> None:
        """A legacy client's roots changed: notify the upstream sessions that serve it, with the
        parameters `params`.
        """
        ...

    def log_level_changed(self, owner: Owner, level: str) -> None:
        """A legacy client set its log level: set it on the upstream sessions that serve it."""
        ...

    def announces(self, server: str, owner: Owner) -> bool:
        """Whether `owner` has an open session, other than the gateway's own, that announces changes
        of lists.
        """
        ...

    def era(self, server: str) -> Era | None:
        """Era of the upstream; None while it has never been reached."""
        ...

    def may_shake_hands(self, server: str) -> bool:
        """Whether a session with a handshake is possible, as far as is known."""
        ...

    def servers(self) -> list[str]:
        """Keys of all configured upstreams, including those that are down."""
        ...


class Retriever(Protocol):
    """Search over the indexed tools (`retrieval.retriever.Retriever`)."""

    async def search(
        self, query: Query, visible: VisibleSet | None, *, explain: bool = False
    ) -> Selection:
        """The matches for `query` within `visible` (None: everything)."""
        ...


class ToolEvents(Protocol):
    """Takes the outcomes of calls and listings: into a queue that is written later."""

    def called(self, principal: Principal, call: CallOutcome) -> None:
        """One `tools/call` ended. Must not block or raise."""
        ...

    def listed(self, principal: Principal, listing: Listing) -> None:
        """A query was answered, or a `tools/list` was cut without one. Must not block or raise."""
        ...


class Limiter(Protocol):
    """Rate limits and quotas."""

    async def acquire(self, principal: Principal, method: str, name: str) -> Hold | None:
        """Count one request against the principal's limits; returns a function to call when it has
        ended, or None.

        Raises:
            RateLimited: they are used up; the error says until when.
        """
        ...

    async def take(self, principal: Principal) -> None:
        """Count one request that reaches no upstream, against the rate only.

        Raises:
            RateLimited: the rate is used up; the error says until when.
        """
        ...


class Finder(Protocol):
    """The retrieval agent (`agent.loop.RetrievalAgent`)."""

    async def run(
        self,
        question: str,
        *,
        visible: VisibleSet | None = None,
        user: str | None = None,
        rejected: Collection[str] = (),
        top_k: int = 10,
    ) -> AgentResult:
        """Search until the model has found enough.

        Raises:
            BackendError: the model failed.
        """
        ...


class PrivateTools(Protocol):
    """Builds catalogs from the lists of single principals, under the same rules as the shared one,
    and makes their tools searchable (`runtime.catalog.keeper.CatalogKeeper`).
    """

    def build_private(self, lists: Mapping[str, ServerLists], shared: Catalog) -> Catalog:
        """A catalog of one principal's lists of some upstreams.

        Args:
            lists: the principal's lists, by server.
            shared: the catalog that everybody else sees.
        """
        ...

    async def index_private(self, tools: tuple[ToolRecord, ...]) -> None:
        """Make these tools searchable beside the shared ones; returns when that is done, or will be
        soon.
        """
        ...


Hold = Callable[[], None]
"""Gives back the slot that a request took; called once."""
Relist = Callable[[str], Awaitable[None]]
"""Fetches the lists of one upstream anew; returns when they are served."""
OnCompacted = Callable[[str, int, int], None]
"""Called for a result that became TOON: (server or meta-tool, tokens before, tokens after)."""
