"""Protocol negotiation: finding what an upstream speaks, and opening links to it.

Owns: the order of attempts. A modern probe first; whatever is no modern answer falls back to
`initialize`, and over HTTP from there to HTTP+SSE. Links with a handshake to an upstream that is
modern as well are opened apart; what the gateway answers itself, in place of a server, is asked
nothing. Never imports the pool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from armory.domain.principal import Principal
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.link import Owner
from armory.protocol.session_events import SessionObserver
from armory.upstreams.connecting.describing import Description
from armory.upstreams.connecting.known import Known, adopted
from armory.upstreams.connecting.meeting import meet
from armory.upstreams.connecting.start_turns import Waiting
from armory.upstreams.connecting.starting import Starting
from armory.upstreams.connecting.verdict import NO_VERDICT, NoHandshake, Verdict, refuses
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.oauth.people import Vault
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.context import Identity, LinkContext, Unintelligible
from armory.upstreams.session.handshake import Incompatible, NotModern, discover, initialize
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.skill_folder.folder import SkillFolder
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http import HttpLink
from armory.upstreams.transports.http_client import HttpClient
from armory.upstreams.transports.http_failures import HttpFailure
from armory.upstreams.transports.http_legacy import LegacyHttpLink
from armory.upstreams.transports.openapi import OpenApiLink
from armory.upstreams.transports.skills import SkillsLink
from armory.upstreams.transports.sse import SseLink
from armory.upstreams.transports.stdio import StdioLink

log = Logger(__name__)

_Found = TypeVar("_Found")


class Connector:
    """Opens links to one upstream and remembers what it speaks.

    Args:
        spec: the upstream, `${principal}` not filled in.
        client_info: the gateway's `clientInfo`.
        errors: takes what its processes write to standard error.
        vault: where people's logins are.

    Attributes:
        awaited: processes that have not answered yet, and turns to start that have not come.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        client_info: Mapping[str, Any],
        errors: ErrorOutput | None = None,
        inflow: Inflow | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.spec = spec
        self._vault = vault
        self.awaited: list[Starting | Waiting] = []
        self._errors = ErrorOutput() if errors is None else errors
        self._dies = False
        self._budget = Budget(spec.key)
        self._silent: set[tuple[str, bytes]] = set()
        self._inflow = inflow or Inflow()
        self._client_info = client_info
        self._client: HttpClient | None = None
        self._known = Known(spec)
        self._description = Description(spec)
        self._folder = None if spec.skills is None else SkillFolder(spec.skills)

    @property
    def starting(self) -> Starting | Waiting | None:
        """What is awaited for longest."""
        return self.awaited[0] if self.awaited else None

    @property
    def verdict(self) -> Verdict | None:
        """What it was found to speak."""
        return self._known.verdict

    @property
    def may_shake_hands(self) -> bool:
        """Whether a session with a handshake can be had, as far as is known."""
        return self._known.may_shake_hands

    def came(self, principal: Principal) -> None:
        """As `PeopleTokens.came`, of an upstream where each principal has its own token."""
        if self._client is not None and self._client.people is not None:
            self._client.people.came(principal)

    async def close(self) -> None:
        """Close the pooled connections; every link is to be closed before."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def connect(
        self,
        owner: Owner,
        capabilities: Mapping[str, Any],
        observer: SessionObserver,
        *,
        key: str = "",
        fresh: bool = True,
    ) -> BaseLink:
        """A live link for one caller.

        Args:
            owner: whose it is: fills `${principal}`, and answers what is asked outside calls.
            capabilities: the client's, declared to a legacy upstream.
            observer: who is told what happens outside requests.
            key: the pool's key of whose session it is.
            fresh: ask a stateless upstream anew who it is, instead of believing the last answer.

        Raises:
            UpstreamUnavailable: it cannot be reached, or speaks nothing known here.
        """
        context = self._context(owner, observer, key)
        known = self.verdict
        if self.spec.served_here:
            return await self._connect_here(context, owner.principal, fresh=fresh)
        if not fresh and self._known.identity is not None and self._client is not None:
            link = HttpLink(context, self._client.as_principal(owner.principal))
            link.adopt(self._known.identity)
            return link
        connect = self._connect_stdio if self.spec.is_stdio else self._connect_http
        try:
            return await connect(context, capabilities, owner.principal)
        except (Incompatible, Unintelligible, HttpFailure):
            if known is None:
                raise
            self._known.forget()
            return await connect(context, capabilities, owner.principal)

    async def connect_legacy(
        self,
        owner: Owner,
        capabilities: Mapping[str, Any],
        observer: SessionObserver,
        *,
        key: str,
    ) -> BaseLink:
        """A live link with a handshake, of an upstream that may speak both eras.

        Takes what `connect` takes. What the upstream is asked otherwise does not change.

        Raises:
            NoHandshake: it has none; it is not tried again.
            UpstreamUnavailable: as for `connect`.
        """
        if self.spec.served_here:
            raise NoHandshake
        if self.verdict is None or self.verdict.era == "legacy":
            link = await self.connect(owner, capabilities, observer, key=key)
            if link.era == "legacy":
                return link
            await link.close()
        context = self._context(owner, observer, key)
        try:
            link = await self._handshaken(context, capabilities, owner.principal)
        except UpstreamUnavailable as error:
            if not (refuses(error) or self.spec.is_stdio):
                raise
            log.debug("upstream_without_handshake", upstream=self.spec.key, error=str(error))
            self._known.found(handshake=False)
            raise NoHandshake from None
        self._known.found(handshake=True)
        self._known.tell(link)
        return link

    async def _handshaken(
        self, context: LinkContext, capabilities: Mapping[str, Any], principal: Principal
    ) -> BaseLink:
        if self.spec.is_stdio:
            return await self._initialized(context, capabilities)
        client = self.client.as_principal(principal)
        legacy = LegacyHttpLink(context, client, capabilities, self._known.offer)
        try:
            await legacy.open()
        except BaseException:
            await legacy.close()
            raise
        return legacy

    def _context(self, owner: Owner, observer: SessionObserver, key: str) -> LinkContext:
        return LinkContext(
            self.spec.filled_for(owner.principal),
            self._client_info,
            observer,
            key,
            self._errors,
            self._budget,
            owner.client,
            self._silent,
            self._inflow,
        )

    async def _connect_here(
        self, context: LinkContext, principal: Principal, *, fresh: bool
    ) -> BaseLink:
        """A link that answers by itself: there is nobody to negotiate with."""
        if self._folder is not None:
            link: BaseLink = await SkillsLink.opened(context, self._folder)
            self._known.verdict = Verdict("modern", "skills", handshake=False)
        else:
            api = await self._description.read(fresh=fresh)
            link = OpenApiLink(context, self.client.as_principal(principal), api)
            self._known.verdict = Verdict("modern", "openapi", handshake=False)
        self._known.tell(link)
        return link

    # --- stdio

    async def _connect_stdio(
        self, context: LinkContext, capabilities: Mapping[str, Any], principal: Principal
    ) -> BaseLink:
        if self._known.tries("modern") and not self._dies:
            link = StdioLink(context)
            identity = await self._started(
                link, lambda within_s: self._met(link, capabilities, within_s)
            )
            if identity is not None:
                return await self._known.settled(link, identity, "stdio")
            await link.close()
            log.debug("upstream_respawned_for_initialize", upstream=self.spec.key, death=link.death)
        link = StdioLink(context)
        try:
            identity = await self._shaken(link, capabilities)
        except UpstreamUnavailable:
            died, self._dies = self._dies, link.death is not None and self._known.tries("modern")
            if not died or self._dies:
                raise
            return await self._connect_stdio(context, capabilities, principal)
        self._dies = False
        return await self._known.settled(link, identity, "stdio")

    async def _initialized(self, context: LinkContext, capabilities: Mapping[str, Any]) -> BaseLink:
        """A link to a process of its own that is initialised at once."""
        link = StdioLink(context)
        await adopted(link, await self._shaken(link, capabilities))
        return link

    async def _shaken(self, link: StdioLink, capabilities: Mapping[str, Any]) -> Identity:
        return await self._started(
            link, lambda within_s: initialize(link, self._known.offer, capabilities, within_s)
        )

    async def _started(self, link: StdioLink, meet: Callable[[float], Awaitable[_Found]]) -> _Found:
        starting = Starting(link)
        self.awaited.append(starting)
        try:
            await link.open()
            return await starting.answer(meet)
        except BaseException:
            await link.close()
            raise
        finally:
            self.awaited.remove(starting)

    async def _met(
        self, link: StdioLink, capabilities: Mapping[str, Any], within_s: float
    ) -> Identity | None:
        try:
            return await meet(
                link,
                self._known.offer if self._known.tries("legacy") else None,
                capabilities,
                within_s,
            )
        except NotModern as sign:
            raise self._known.only_legacy(sign) from None

    # --- HTTP

    async def _connect_http(
        self, context: LinkContext, capabilities: Mapping[str, Any], principal: Principal
    ) -> BaseLink:
        client = self.client.as_principal(principal)
        if self.spec.transport == "sse" or (self.verdict and self.verdict.transport == "sse"):
            return await self._connect_sse(context, capabilities, client)
        if self._known.tries("modern"):
            link = await self._try_modern(context, client)
            if link is not None:
                return link
        legacy = LegacyHttpLink(context, client, capabilities, self._known.offer)
        try:
            await legacy.open()
        except HttpFailure as failure:
            await legacy.close()
            if (
                self.spec.transport != "auto"
                or failure.status in NO_VERDICT
                or failure.status >= 500
            ):
                raise
            try:
                return await self._connect_sse(context, capabilities, client)
            except UpstreamUnavailable as error:
                log.debug("upstream_sse_failed", upstream=self.spec.key, error=str(error))
            raise
        except BaseException:
            await legacy.close()
            raise
        self._known.verdict = Verdict("legacy", "streamable-http")
        self._known.tell(legacy)
        return legacy

    @property
    def client(self) -> HttpClient:
        """The pooled connections."""
        if self._client is None:
            self._client = HttpClient(self._description.client_spec, self._vault)
        return self._client

    async def _try_modern(self, context: LinkContext, client: HttpClient) -> BaseLink | None:
        """A modern link; None when the upstream may speak an older revision."""
        link = HttpLink(context, client)
        try:
            identity = await discover(link, self.spec.connect_timeout_s)
            return await self._known.settled(link, identity, "streamable-http")
        except NotModern as sign:
            if not self._known.tries("legacy"):
                raise self._known.only_legacy(sign) from None
        except HttpFailure as failure:
            if failure.status in NO_VERDICT or not self._known.tries("legacy"):
                raise
        except (Unintelligible, UpstreamTimeout):
            if not self._known.tries("legacy"):
                raise
        return None

    async def _connect_sse(
        self, context: LinkContext, capabilities: Mapping[str, Any], client: HttpClient
    ) -> BaseLink:
        link = SseLink(context, client)
        await link.open()
        try:
            identity = await initialize(link, self._known.offer, capabilities)
            return await self._known.settled(link, identity, "sse")
        except BaseException:
            await link.close()
            raise
