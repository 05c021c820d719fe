"""A client that disconnects, or ends its session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from armory.protocol.link import CancelReason

if TYPE_CHECKING:
    from tests.protocol.conftest import Front, Hanging
pytestmark = pytest.mark.anyio


async def test_modern_disconnect_cancels(front: Front, hanging: Hanging) -> None:
    call = asyncio.ensure_future(front.modern("tools/call", {"name": "old__now", "arguments": {}}))
    await asyncio.wait_for(hanging.begun.wait(), 10)
    call.cancel()
    await asyncio.wait_for(hanging.ended.wait(), 10)


async def test_legacy_disconnect_does_not_cancel_but_a_notification_does(
    front: Front, hanging: Hanging
) -> None:
    client = await front.start_legacy()
    request = client.request("tools/call", {"name": "old__now", "arguments": {}})
    call = asyncio.ensure_future(request)
    await asyncio.wait_for(hanging.begun.wait(), 10)
    call.cancel()
    await client.request("ping")
    assert not hanging.ended.is_set()
    why = {"requestId": 1, "reason": "enough"}
    await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": why})
    await asyncio.wait_for(hanging.ended.wait(), 10)
    assert hanging.why == (CancelReason("enough"),)


async def test_delete_ends_the_session(front: Front) -> None:
    client = await front.start_legacy()
    async with front.http.delete(client.url, headers=client.headers) as response:
        assert response.status == 204
    assert front.pool.released == [client.session]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with front.http.post(client.url, json=ping, headers=client.headers) as response:
        assert response.status == 404
        assert '"code":-32001' in await response.text()  # some clients look for this text
    assert len(front.gateway.changes) == 0
