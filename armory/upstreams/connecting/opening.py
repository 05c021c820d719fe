"""Opening the link of one slot: with or without a handshake, and in its start turn.

Owns: `Opener`. Never keeps a session.
"""

from __future__ import annotations

from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.placing import OWN
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.link_slot import LinkSlot
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec


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
        if slot.owner != OWN or not self._spec.is_stdio:
            return await self._connected(slot)
        async with self._turns.turn(self._connector):
            return await self._connected(slot)

    async def _connected(self, slot: LinkSlot) -> BaseLink:
        connector, key = self._connector, slot.owner
        if slot.legacy:
            return await connector.connect_legacy(slot.whose, slot.capabilities, slot, key=key)
        return await connector.connect(
            slot.whose, slot.capabilities, slot, key=key, fresh=key == OWN
        )
