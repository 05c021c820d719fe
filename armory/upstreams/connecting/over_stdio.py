"""Finding what a process speaks, and opening links to it.

Owns: the order of attempts: a modern probe first; whatever is no modern answer falls back to
`initialize`, where need be in a new process. Never imports the pool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.upstreams.connecting.meeting import meet
from armory.upstreams.connecting.negotiated import Negotiated, adopted
from armory.upstreams.connecting.start_turns import Waiting
from armory.upstreams.connecting.starting import Starting
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.handshake import NotModern, initialize
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

log = Logger(__name__)

_Found = TypeVar("_Found")


class OverStdio:
    """Opens links to the processes of one upstream.

    Args:
        spec: the upstream.
        known: what it was found to speak; kept up to date.
        awaited: takes each process until it has answered.
    """

    def __init__(
        self, spec: UpstreamSpec, known: Negotiated, awaited: list[Starting | Waiting]
    ) -> None:
        self._spec = spec
        self._known = known
        self._awaited = awaited
        self._skips_probe = False

    async def connect(self, context: LinkContext, capabilities: Mapping[str, Any]) -> BaseLink:
        """A link of the newest era that it speaks.

        Raises:
            UpstreamUnavailable: it cannot be started, or speaks nothing known here.
        """
        if self._known.may_speak("modern") and not self._skips_probe:
            link = StdioLink(context)
            identity = await self._started(
                link, lambda within_s: self._probed(link, capabilities, within_s)
            )
            if identity is not None:
                return await self._known.record_link(link, identity, "stdio")
            await link.close()
            log.debug(
                "upstream_respawned_for_initialize", upstream=self._spec.key, death=link.death
            )
        link = StdioLink(context)
        try:
            identity = await self._initialized(link, capabilities)
        except UpstreamUnavailable:
            skipped = self._skips_probe
            # Where it died, it is not probed first the next time.
            self._skips_probe = link.death is not None and self._known.may_speak("modern")
            if not skipped or self._skips_probe:
                raise
            return await self.connect(context, capabilities)
        self._skips_probe = False
        return await self._known.record_link(link, identity, "stdio")

    async def connect_legacy(
        self, context: LinkContext, capabilities: Mapping[str, Any]
    ) -> BaseLink:
        """A link to a process of its own that is initialised at once.

        Raises:
            UpstreamUnavailable: it cannot be started, or takes no handshake.
        """
        link = StdioLink(context)
        await adopted(link, await self._initialized(link, capabilities))
        return link

    async def _initialized(self, link: StdioLink, capabilities: Mapping[str, Any]) -> Identity:
        return await self._started(
            link, lambda within_s: initialize(link, self._known.offer, capabilities, within_s)
        )

    async def _started(self, link: StdioLink, meet: Callable[[float], Awaitable[_Found]]) -> _Found:
        starting = Starting(link)
        self._awaited.append(starting)
        try:
            await link.open()
            return await starting.answer(meet)
        except BaseException:
            await link.close()
            raise
        finally:
            self._awaited.remove(starting)

    async def _probed(
        self, link: StdioLink, capabilities: Mapping[str, Any], within_s: float
    ) -> Identity | None:
        try:
            return await meet(
                link,
                self._known.offer if self._known.may_speak("legacy") else None,
                capabilities,
                within_s,
            )
        except NotModern as sign:
            raise self._known.only_legacy(sign) from None
