"""What a session tells that one client, or one principal, has to itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingClient
from tests.contract.links import BOUND_S, Rig

pytestmark = pytest.mark.anyio


async def test_one_more_subscriber_is_announced(legacy: Rig) -> None:
    uris = frozenset({"mem://one"})
    await legacy.pool.set_subscriptions("up", legacy.owner, uris)
    link = await legacy.pool.link("up", legacy.owner)
    sent: list[str] = []
    request = link.request

    async def noting(call: Any) -> Any:
        sent.append(call.method)
        return await request(call)

    link.request = noting
    await legacy.pool.set_subscriptions("up", legacy.owner, uris, "mem://one")
    assert sent == ["resources/subscribe"]
    await legacy.pool.set_subscriptions("up", legacy.owner, uris)
    assert sent == ["resources/subscribe"]


async def test_a_session_that_is_open_announces_its_lists(legacy: Rig) -> None:
    owner = Owner(ANONYMOUS, "one", RecordingClient({"roots": {}}))
    await legacy.pool.upstream("up").own_link()
    assert not legacy.pool.announces("up", owner)
    async with asyncio.timeout(BOUND_S):
        await legacy.pool.link("up", owner)
    assert legacy.pool.announces("up", owner)
    assert not legacy.pool.announces("up", legacy.owner)
