"""The result of negotiation with one upstream, kept for its later links.

Owns: the verdict, the last answer about who a stateless upstream is, which eras are worth a try,
and taking over what a link found out. Never opens a link.
"""

from __future__ import annotations

from dataclasses import replace

from armory.logger import Logger
from armory.protocol.methods import INITIALIZED
from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS, Era
from armory.upstreams.connecting.verdict import Transport, Verdict
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Identity
from armory.upstreams.session.duplex import DuplexLink
from armory.upstreams.session.handshake import Incompatible, NotModern
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http import HttpLink

log = Logger(__name__)


class Negotiated:
    """What one upstream was found to speak, kept from one link to the next.

    Args:
        spec: the upstream.

    Attributes:
        verdict: what it was found to speak; None: nothing is known.
        identity: who it is, of one that keeps nothing between requests; None: ask.
    """

    def __init__(self, spec: UpstreamSpec) -> None:
        self._spec = spec
        self.verdict: Verdict | None = None
        self.identity: Identity | None = None

    @property
    def offer(self) -> str:
        """The legacy revision to offer."""
        pinned = self._spec.protocol
        return pinned if pinned in LEGACY_VERSIONS else LEGACY_VERSIONS[-1]

    @property
    def may_shake_hands(self) -> bool:
        """Whether a session with a handshake is possible, as far as is known."""
        if self._spec.protocol in MODERN_VERSIONS or self._spec.served_here:
            return False
        verdict = self.verdict
        return verdict is None or verdict.era == "legacy" or verdict.handshake is not False

    def may_speak(self, era: Era) -> bool:
        """Whether it may speak this era."""
        if self._spec.protocol != "auto":
            return (self._spec.protocol in MODERN_VERSIONS) == (era == "modern")
        return self.verdict is None or self.verdict.era == era

    def forget(self) -> None:
        """Negotiate from scratch: the upstream is another server now, or another release of it."""
        self.verdict = self.identity = None

    def record_handshake(self, *, handshake: bool) -> None:
        """Record whether it takes a handshake."""
        if self.verdict is not None:
            self.verdict = replace(self.verdict, handshake=handshake)

    async def record_link(
        self, link: DuplexLink | HttpLink, identity: Identity, transport: Transport
    ) -> BaseLink:
        """Record what a link found out, and return the link, ready for requests."""
        await adopted(link, identity)
        verdict = self.verdict
        if verdict is None or (verdict.era, verdict.transport) != (identity.era, transport):
            self.verdict = Verdict(identity.era, transport)
        if link.stateless and not self._spec.templated:
            self.identity = identity
        self.log_connected(link)
        return link

    def log_connected(self, link: BaseLink) -> None:
        """Log what is spoken over a new link."""
        log.debug(
            "upstream_connected",
            upstream=link.server,
            era=link.era,
            revision=link.protocol_version,
            transport=self.verdict.transport if self.verdict else "",
        )

    def only_legacy(self, sign: NotModern) -> Incompatible:
        """The error for an upstream that is pinned to a modern revision and does not speak it."""
        return Incompatible(
            f"upstream {self._spec.key!r} is pinned to {self._spec.protocol}, and does not speak "
            f"it: {sign}; set 'protocol' to auto",
            upstream=self._spec.key,
        )


async def adopted(link: DuplexLink | HttpLink, identity: Identity) -> None:
    """Set the identity of a link, and finish its handshake. On failure the link is closed."""
    link.adopt(identity)
    if identity.era == "legacy":
        try:
            await link.notify(INITIALIZED, {})
        except BaseException:
            await link.close()
            raise
