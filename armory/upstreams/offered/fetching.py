"""Fetching the lists and groups of one upstream.

Owns: over which session lists and groups are fetched, and what stands in for those of somebody who
has to log in first. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from armory.domain.catalog import ServerLists
from armory.domain.groups import OwnGroup
from armory.errors import LoginNeeded, UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.capabilities import GROUPS_DECLARED, declares_groups
from armory.protocol.link import Owner
from armory.protocol.session_events import SessionObservers
from armory.upstreams.clock import Clock
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.verdict import NoHandshake
from armory.upstreams.gateway_client import OWN_CAPABILITIES, OWNER
from armory.upstreams.link_pool import LinkPool
from armory.upstreams.offered.groups import fetch_groups
from armory.upstreams.offered.login_tool import lists_before_login
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lists.server_lists import fetch_lists
from armory.upstreams.spec import UpstreamSpec

log = Logger(__name__)

_LISTING = "\0listing"
"""Key of sessions that are opened for lists alone, beside those of callers."""
_GROUPS_S = 30.0


class ListFetcher:
    """Fetches the lists of one upstream.

    Args:
        spec: the upstream.
        connector: opens sessions for lists alone.
        links: the sessions of callers.
        clock: for their idle times.
    """

    def __init__(
        self, spec: UpstreamSpec, connector: Connector, links: LinkPool, clock: Clock
    ) -> None:
        self._spec = spec
        self._connector = connector
        self._links = links
        self._clock = clock

    async def seen_by(self, owner: Owner, capabilities: Mapping[str, Any]) -> ServerLists:
        """Fetch all lists over the session of `owner`; their changes are announced from then on.

        Raises:
            UpstreamUnavailable: they cannot be fetched.
        """
        try:
            slot, link = await self._links.opened(owner, capabilities)
        except LoginNeeded:
            return lists_before_login(self._spec.key, self._spec.auth)
        slot.in_flight += 1
        try:
            if slot.watched is not link and await link.subscriptions.watch_lists():
                slot.watched = link
            return await self.over(link)
        except LoginNeeded:
            return lists_before_login(self._spec.key, self._spec.auth)
        finally:
            slot.in_flight -= 1
            slot.last_used = self._clock.now()

    async def over(self, link: BaseLink, before: ServerLists | None = None) -> ServerLists:
        """Fetch all lists over one link.

        Raises:
            LoginNeeded: whoever it belongs to must log in first.
            UpstreamUnavailable: they cannot be fetched.
        """
        declared = OWN_CAPABILITIES if link.owned_by_gateway else None
        lists = await self._fetched(link, before, declared)
        if not (self._spec.groups and declares_groups(link.capabilities)):
            return lists
        return replace(lists, groups=await self._groups(link, before))

    async def _fetched(
        self,
        link: BaseLink,
        before: ServerLists | None,
        declared: Mapping[str, Any] | None,
        *,
        quiet: bool = False,
    ) -> ServerLists:
        return await fetch_lists(
            link,
            before=before,
            max_entries=self._spec.list_entries,
            max_bytes=self._spec.list_bytes,
            declared=declared,
            quiet=quiet,
        )

    async def _groups(self, link: BaseLink, before: ServerLists | None) -> Sequence[OwnGroup]:
        """The upstream's own groups, else those of the last fetch.

        A handshake declares groups for its whole session, so such upstreams are asked over another
        session of the gateway.
        """
        beside = link.era == "legacy"
        if beside and not link.owned_by_gateway:
            return ()
        try:
            async with asyncio.timeout(_GROUPS_S):
                if not beside:
                    return await fetch_groups(link)
                extensions = OWN_CAPABILITIES["extensions"] | GROUPS_DECLARED["extensions"]
                declared = {**OWN_CAPABILITIES, "extensions": extensions}
                asked = await self._connector.connect(
                    OWNER, declared, SessionObservers(), key=_LISTING
                )
                try:
                    return await fetch_groups(asked)
                finally:
                    self._links.end(asked)
        except (UpstreamUnavailable, TimeoutError) as error:
            message = str(error) or f"not within {_GROUPS_S:g} s"
            log.warning("upstream_groups_not_fetched", upstream=self._spec.key, error=message)
            return before.groups if before is not None else ()

    async def seen_with(
        self, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        """As `Pool.fetch_lists_for`."""
        connector = self._connector
        connect = connector.connect_legacy if handshake else connector.connect
        try:
            link = await connect(OWNER, capabilities, SessionObservers(), key=_LISTING)
        except NoHandshake:
            why = f"upstream {self._spec.key!r} takes no handshake"
            raise UpstreamUnavailable(why, upstream=self._spec.key) from None
        try:
            return await self._fetched(link, None, capabilities, quiet=True)
        finally:
            self._links.end(link)
