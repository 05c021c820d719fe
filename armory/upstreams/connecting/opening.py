"""Opening the link of one slot: with or without a handshake, and in its start turn.

Owns: `Opener`. Never keeps a session.
"""

from __future__ import annotations

import asyncio

from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.placing import OWN
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.link_slot import LinkSlot
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec

_WATCH_S = 1.0


class Opener:
    """Opens links for slots of one upstream.

    Args:
        spec: the upstream.
        connector: opens the links.
        turns: in which the gateway's own processes start, of all upstreams; a caller's needs none.
    """

    def __init__(self, spec: UpstreamSpec, connector: Connector, turns: StartTurns) -> None:
        self._spec = spec
        self._connector = connector
        self._turns = turns

    async def open(self, slot: LinkSlot) -> BaseLink:
        """A new link for a slot.

        Raises:
            NoHandshake: it must have a handshake, and the upstream takes none.
            UpstreamUnavailable: it could not be opened.
        """
        if not self._spec.is_stdio:
            return await self._connected(slot)
        if slot.owner != OWN:
            link = await self._connected(slot)
            await _watch_lists(slot, link)
            return link
        async with self._turns.turn(self._connector):
            return await self._connected(slot)

    async def _connected(self, slot: LinkSlot) -> BaseLink:
        connector, key = self._connector, slot.owner
        if slot.legacy:
            return await connector.connect_legacy(slot.whose, slot.capabilities, slot, key=key)
        return await connector.connect(
            slot.whose, slot.capabilities, slot, key=key, fresh=key == OWN
        )


async def _watch_lists(slot: LinkSlot, link: BaseLink) -> None:
    """Subscribe to the lists of a caller's own process: without a handshake it reports to those who
    listen alone. Calls wait for that, but not for long.
    """
    if link.era != "modern":
        return

    async def watch() -> None:
        if await link.subscriptions.watch_lists():
            slot.watched = link

    watching = link.spawn(watch(), "announcements")
    await asyncio.wait((watching,), timeout=_WATCH_S)
