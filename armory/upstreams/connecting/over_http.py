"""Finding what an HTTP server speaks, and opening links to it.

Owns: the order of attempts: a modern probe first; whatever is no modern answer falls back to
`initialize`, and from there to HTTP+SSE. Never imports the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.logger import Logger
from armory.upstreams.connecting.negotiated import Negotiated
from armory.upstreams.connecting.verdict import NO_VERDICT, Verdict
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import LinkContext, Unintelligible
from armory.upstreams.session.handshake import NotModern, discover, initialize
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http import HttpLink
from armory.upstreams.transports.http_client import HttpClient
from armory.upstreams.transports.http_failures import HttpFailure
from armory.upstreams.transports.http_legacy import LegacyHttpLink
from armory.upstreams.transports.sse import SseLink

log = Logger(__name__)


class OverHttp:
    """Opens links to one upstream over HTTP.

    Args:
        spec: the upstream.
        known: what it was found to speak; kept up to date.
    """

    def __init__(self, spec: UpstreamSpec, known: Negotiated) -> None:
        self._spec = spec
        self._known = known

    async def connect(
        self, context: LinkContext, client: HttpClient, capabilities: Mapping[str, Any]
    ) -> BaseLink:
        """A link of the newest era that it speaks.

        Raises:
            UpstreamUnavailable: it cannot be reached, or speaks nothing known here.
        """
        verdict = self._known.verdict
        if self._spec.transport == "sse" or (verdict and verdict.transport == "sse"):
            return await self._connect_sse(context, client, capabilities)
        if self._known.may_speak("modern"):
            link = await self._try_modern(context, client)
            if link is not None:
                return link
        try:
            legacy = await self.connect_legacy(context, client, capabilities)
        except HttpFailure as failure:
            if (
                self._spec.transport != "auto"
                or failure.status in NO_VERDICT
                or failure.status >= 500
            ):
                raise
            try:
                return await self._connect_sse(context, client, capabilities)
            except UpstreamUnavailable as error:
                log.debug("upstream_sse_failed", upstream=self._spec.key, error=str(error))
                if type(error) is UpstreamUnavailable:  # there was an event stream
                    said = error.message.removeprefix(f"upstream {self._spec.key!r}: ")
                    failure.add(f"over HTTP+SSE: {said}")
            raise
        self._known.verdict = Verdict("legacy", "streamable-http")
        self._known.log_connected(legacy)
        return legacy

    async def connect_legacy(
        self, context: LinkContext, client: HttpClient, capabilities: Mapping[str, Any]
    ) -> BaseLink:
        """A link to a session with a handshake, over Streamable HTTP.

        Raises:
            UpstreamUnavailable: it cannot be reached, or takes no handshake.
        """
        link = LegacyHttpLink(context, client, capabilities, self._known.offer)
        try:
            await link.open()
        except BaseException:
            await link.close()
            raise
        return link

    async def _try_modern(self, context: LinkContext, client: HttpClient) -> BaseLink | None:
        """A modern link; None when the upstream may speak an older revision."""
        link = HttpLink(context, client)
        try:
            identity = await discover(link, self._spec.connect_timeout_s)
            return await self._known.record_link(link, identity, "streamable-http")
        except NotModern as sign:
            if not self._known.may_speak("legacy"):
                raise self._known.only_legacy(sign) from None
        except HttpFailure as failure:
            if failure.status in NO_VERDICT or not self._known.may_speak("legacy"):
                raise
        except (Unintelligible, UpstreamTimeout):
            if not self._known.may_speak("legacy"):
                raise
        return None

    async def _connect_sse(
        self, context: LinkContext, client: HttpClient, capabilities: Mapping[str, Any]
    ) -> BaseLink:
        link = SseLink(context, client)
        await link.open()
        try:
            identity = await initialize(link, self._known.offer, capabilities)
            return await self._known.record_link(link, identity, "sse")
        except BaseException:
            await link.close()
            raise
