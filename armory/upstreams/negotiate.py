"""Protocol negotiation: what an upstream speaks, and opening links to it.

Owns: the order of attempts, and the verdict that is remembered. A modern probe first; whatever is
no modern answer falls back to `initialize`, and over HTTP from there to HTTP+SSE. Never imports
the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import structlog

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.link import Owner
from armory.protocol.session_events import SessionObserver
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS, Era
from armory.tasks import start, stop
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.session.base import BaseLink, Identity, LinkContext, Unintelligible
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.duplex import DuplexLink
from armory.upstreams.session.handshake import Incompatible, NotModern, discover, initialize
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.starting import Starting
from armory.upstreams.transports.http import HttpLink
from armory.upstreams.transports.http_client import HttpClient, HttpFailure
from armory.upstreams.transports.http_legacy import LegacyHttpLink
from armory.upstreams.transports.sse import SseLink
from armory.upstreams.transports.stdio import StdioLink

log = structlog.get_logger(__name__)

_Found = TypeVar("_Found")
_NO_VERDICT = frozenset((401, 403, 407, 429, 502, 503, 504))
"""HTTP statuses that say nothing about what the upstream speaks."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an upstream was found to speak."""

    era: Era
    transport: Literal["stdio", "streamable-http", "sse"]


class Connector:
    """Opens links to one upstream and remembers what it speaks.

    Args:
        spec: the upstream, `${principal}` not filled in.
        client_info: the gateway's `clientInfo`.
        errors: takes what its processes write to standard error.

    Attributes:
        starting: the process that has not answered yet, while there is one.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        client_info: Mapping[str, Any],
        errors: ErrorOutput | None = None,
    ) -> None:
        self.spec = spec
        self.starting: Starting | None = None
        self._errors = ErrorOutput() if errors is None else errors
        self._dies = False
        self.verdict: Verdict | None = None
        self._budget = Budget(spec.key)
        self._client_info = client_info
        self._client: HttpClient | None = None
        self._identity: Identity | None = None

    @property
    def offer(self) -> str:
        """The legacy revision to offer."""
        pinned = self.spec.protocol
        return pinned if pinned in LEGACY_VERSIONS else LEGACY_VERSIONS[-1]

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
        spec = self.spec.filled_for(owner.principal)
        context = LinkContext(
            spec, self._client_info, observer, key, self._errors, self._budget, owner.client
        )
        known = self.verdict
        if not fresh and self._identity is not None and self._client is not None:
            link = HttpLink(context, self._client)
            link.adopt(self._identity)
            return link
        connect = self._connect_stdio if spec.is_stdio else self._connect_http
        try:
            return await connect(context, capabilities)
        except (Incompatible, Unintelligible, HttpFailure):
            if known is None:
                raise
            # It was another server, or another release of it, when the verdict was found.
            self.verdict = self._identity = None
            return await connect(context, capabilities)

    def _tries(self, era: Era) -> bool:
        if self.spec.protocol != "auto":
            return (self.spec.protocol in MODERN_VERSIONS) == (era == "modern")
        return self.verdict is None or self.verdict.era == era

    # --- stdio

    async def _connect_stdio(
        self, context: LinkContext, capabilities: Mapping[str, Any]
    ) -> BaseLink:
        if self._tries("modern") and not self._dies:
            link = StdioLink(context)
            identity = await self._started(
                link, lambda within_s: self._meet(link, capabilities, within_s)
            )
            if identity is not None:
                return await self._settled(link, identity, "stdio")
            await link.close()
            log.debug("upstream_respawned_for_initialize", upstream=self.spec.key, death=link.death)
        link = StdioLink(context)
        try:
            identity = await self._started(
                link, lambda within_s: initialize(link, self.offer, capabilities, within_s)
            )
        except UpstreamUnavailable:
            died, self._dies = self._dies, link.death is not None and self._tries("modern")
            if not died or self._dies:
                raise
            return await self._connect_stdio(context, capabilities)  # it lives again: ask it all
        self._dies = False
        return await self._settled(link, identity, "stdio")

    async def _started(self, link: StdioLink, meet: Callable[[float], Awaitable[_Found]]) -> _Found:
        self.starting = starting = Starting(link)
        try:
            await link.open()
            return await starting.answer(meet)
        except BaseException:
            await link.close()
            raise
        finally:
            if self.starting is starting:
                self.starting = None

    async def _meet(
        self, link: StdioLink, capabilities: Mapping[str, Any], within_s: float
    ) -> Identity | None:
        """Probe a fresh process; None when it must be started anew to be initialised.

        A process that is silent for a third of the time gets `initialize` beside the probe: it may
        be slow to start, or one that answers nothing that it does not know.
        """
        third = self.spec.connect_timeout_s / 3
        probe = start(discover(link, within_s), f"probe {link.server}")
        tasks = {probe}
        try:
            await asyncio.wait(tasks, timeout=third)
            if not self._tries("legacy"):
                return await self._only_modern(probe)
            if probe.done() and (identity := _outcome(probe)) is not None:
                return identity
            if link.closed:
                return None
            handshake = initialize(link, self.offer, capabilities, within_s - third)
            tasks.add(start(handshake, f"initialize {link.server}"))
            return await _first_of(tasks, link)
        finally:
            await stop(*tasks)

    async def _only_modern(self, probe: asyncio.Task[Identity]) -> Identity:
        try:
            return await probe
        except NotModern as sign:
            raise self._only_legacy(sign) from None

    # --- HTTP

    async def _connect_http(
        self, context: LinkContext, capabilities: Mapping[str, Any]
    ) -> BaseLink:
        client = self._client
        if client is None:
            client = self._client = HttpClient(self.spec)
        if self.spec.transport == "sse" or (self.verdict and self.verdict.transport == "sse"):
            return await self._connect_sse(context, capabilities, client)
        if self._tries("modern"):
            link = await self._try_modern(context, client)
            if link is not None:
                return link
        legacy = LegacyHttpLink(context, client, capabilities, self.offer)
        try:
            await legacy.open()
        except HttpFailure as failure:
            await legacy.close()
            if (
                self.spec.transport != "auto"
                or failure.status in _NO_VERDICT
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
        self.verdict = Verdict("legacy", "streamable-http")
        self._tell(legacy)
        return legacy

    async def _try_modern(self, context: LinkContext, client: HttpClient) -> BaseLink | None:
        """A modern link; None when the upstream may speak an older revision."""
        link = HttpLink(context, client)
        try:
            identity = await discover(link, self.spec.connect_timeout_s)
            return await self._settled(link, identity, "streamable-http")
        except NotModern as sign:
            if not self._tries("legacy"):
                raise self._only_legacy(sign) from None
        except HttpFailure as failure:
            if failure.status in _NO_VERDICT or not self._tries("legacy"):
                raise
        except (Unintelligible, UpstreamTimeout):
            if not self._tries("legacy"):
                raise
        return None

    async def _connect_sse(
        self, context: LinkContext, capabilities: Mapping[str, Any], client: HttpClient
    ) -> BaseLink:
        link = SseLink(context, client)
        await link.open()
        try:
            identity = await initialize(link, self.offer, capabilities)
            return await self._settled(link, identity, "sse")
        except BaseException:
            await link.close()
            raise

    # ---

    async def _settled(
        self,
        link: DuplexLink | HttpLink,
        identity: Identity,
        transport: Literal["stdio", "streamable-http", "sse"],
    ) -> BaseLink:
        link.adopt(identity)
        if identity.era == "legacy":
            try:
                await link.notify("notifications/initialized", {})
            except BaseException:
                await link.close()
                raise
        self.verdict = Verdict(identity.era, transport)
        if link.stateless and not self.spec.templated:
            self._identity = identity
        self._tell(link)
        return link

    def _tell(self, link: BaseLink) -> None:
        log.debug(
            "upstream_connected",
            upstream=link.server,
            era=link.era,
            revision=link.protocol_version,
            transport=self.verdict.transport if self.verdict else "",
        )

    def _only_legacy(self, sign: NotModern) -> Incompatible:
        return Incompatible(
            f"upstream {self.spec.key!r} is pinned to {self.spec.protocol}, and does not speak it: "
            f"{sign}; set 'protocol' to auto",
            upstream=self.spec.key,
        )


async def _first_of(tasks: set[asyncio.Task[Identity]], link: StdioLink) -> Identity | None:
    """What the first successful attempt found; None when the process is of no more use."""
    waiting, refusal = set(tasks), None
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            try:
                return task.result()
            except (NotModern, UpstreamTimeout):
                continue
            except UpstreamUnavailable as error:
                refusal = error
    if link.closed or refusal is None:
        return None
    raise refusal


def _outcome(probe: asyncio.Task[Identity]) -> Identity | None:
    """The identity that a finished probe found; None when it found no modern server."""
    try:
        return probe.result()
    except NotModern:
        return None
    except Incompatible:
        raise
    except UpstreamUnavailable as error:
        log.debug("upstream_probe_failed", error=str(error))
        return None
