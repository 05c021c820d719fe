"""Protocol negotiation: finding what an upstream speaks, and opening links to it.

Owns: `Connector`: what all links to one upstream share, and which way each is opened. In which
order an upstream is tried stands in `over_stdio` and `over_http`. Links with a handshake to an
upstream that is modern as well are opened apart; what the gateway answers itself, in place of a
server, is asked nothing. Never imports the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.link import Owner
from armory.protocol.session_events import SessionObserver
from armory.upstreams.connecting.describing import Description
from armory.upstreams.connecting.negotiated import Negotiated
from armory.upstreams.connecting.over_http import OverHttp
from armory.upstreams.connecting.over_stdio import OverStdio
from armory.upstreams.connecting.start_turns import Waiting
from armory.upstreams.connecting.starting import Starting
from armory.upstreams.connecting.verdict import NoHandshake, Verdict, refuses
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.local.openapi import OpenApiLink
from armory.upstreams.local.skills import SkillsLink
from armory.upstreams.oauth.people import Vault
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.context import LinkContext, Unintelligible
from armory.upstreams.session.handshake import Incompatible
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.session.turns import Silent
from armory.upstreams.skill_folder.folder import SkillFolder
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http import HttpLink
from armory.upstreams.transports.http_client import UpstreamClient
from armory.upstreams.transports.http_failures import HttpFailure

log = Logger(__name__)


class Connector:
    """Opens links to one upstream and remembers what it speaks.

    Args:
        spec: the upstream, `${principal}` not filled in.
        client_info: the gateway's `clientInfo`.
        errors: takes what its processes write to standard error.
        inflow: bounds answers that are not whole yet, in all.
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
        self._budget = Budget(spec.key)
        self._silent = Silent()
        self._inflow = inflow or Inflow()
        self._client_info = client_info
        self._client: UpstreamClient | None = None
        self._known = Negotiated(spec)
        self._over_stdio = OverStdio(spec, self._known, self.awaited)
        self._over_http = OverHttp(spec, self._known)
        self._description = Description(spec)
        self._folder = None if spec.skills is None else SkillFolder(spec.skills)

    @property
    def starting(self) -> Starting | Waiting | None:
        """What the process that has been starting for longest is waiting for."""
        return self.awaited[0] if self.awaited else None

    def starting_of(self, owner: str) -> Starting | Waiting | None:
        """What the process of one owner's session is waiting for."""
        return next((one for one in self.awaited if one.owner == owner), None)

    @property
    def verdict(self) -> Verdict | None:
        """Which era and transport it was found to speak; None while unknown."""
        return self._known.verdict

    @property
    def may_shake_hands(self) -> bool:
        """Whether a session with a handshake is possible, as far as is known."""
        return self._known.may_shake_hands

    @property
    def client(self) -> UpstreamClient:
        """The pooled connections."""
        if self._client is None:
            self._client = UpstreamClient(self._description.client_spec, self._vault)
        return self._client

    def note_caller(self, principal: Principal) -> None:
        """As `PeopleTokens.note_caller`, for upstreams where each principal has its own token."""
        if self._client is not None and self._client.people is not None:
            self._client.people.note_caller(principal)

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
        """Open a link for one owner.

        Args:
            owner: whose it is: fills `${principal}`, and answers what is asked outside calls.
            capabilities: the client's, declared to a legacy upstream.
            observer: gets the events that come outside requests.
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
        try:
            return await self._negotiated(context, capabilities, owner.principal)
        except (Incompatible, Unintelligible, HttpFailure):
            if known is None:
                raise
            self._known.forget()
            return await self._negotiated(context, capabilities, owner.principal)

    async def connect_legacy(
        self,
        owner: Owner,
        capabilities: Mapping[str, Any],
        observer: SessionObserver,
        *,
        key: str,
    ) -> BaseLink:
        """Open a link with a handshake to an upstream that may speak both eras.

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
            self._known.record_handshake(handshake=False)
            raise NoHandshake from None
        self._known.record_handshake(handshake=True)
        self._known.log_connected(link)
        return link

    async def _negotiated(
        self, context: LinkContext, capabilities: Mapping[str, Any], principal: Principal
    ) -> BaseLink:
        if self.spec.is_stdio:
            return await self._over_stdio.connect(context, capabilities)
        client = self.client.as_principal(principal)
        return await self._over_http.connect(context, client, capabilities)

    async def _handshaken(
        self, context: LinkContext, capabilities: Mapping[str, Any], principal: Principal
    ) -> BaseLink:
        if self.spec.is_stdio:
            return await self._over_stdio.connect_legacy(context, capabilities)
        client = self.client.as_principal(principal)
        return await self._over_http.connect_legacy(context, client, capabilities)

    def _context(self, owner: Owner, observer: SessionObserver, key: str) -> LinkContext:
        return LinkContext(
            self.spec.filled_for(owner.principal),
            self._client_info,
            observer,
            key,
            self._errors,
            self._budget,
            owner.client_of(self.spec.key),
            self._silent,
            self._inflow,
        )

    async def _connect_here(
        self, context: LinkContext, principal: Principal, *, fresh: bool
    ) -> BaseLink:
        """A link that answers by itself: there is no server to negotiate with."""
        if self._folder is not None:
            link: BaseLink = await SkillsLink.opened(context, self._folder)
            self._known.verdict = Verdict("modern", "skills", handshake=False)
        else:
            api = await self._description.read(fresh=fresh)
            link = OpenApiLink(context, self.client.as_principal(principal), api)
            self._known.verdict = Verdict("modern", "openapi", handshake=False)
        self._known.log_connected(link)
        return link
