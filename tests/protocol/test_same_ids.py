"""Two requests in flight with one id, which a client must not send: both are served and end with
the session, and a cancellation means both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import LegacyClient
from armory.testing.front import result
from armory.testing.waiting import until
from tests.protocol.test_pipes import HELLO, stdio

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
CALL = {"name": "old__now", "arguments": {}}
TWICE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


class Held:
    """Answers that come when they may."""

    def __init__(self, front: Front) -> None:
        self.begun = self.cancelled = 0
        self.may = asyncio.Event()
        front.pool.upstreams["old"].answer = self.answer

    async def answer(self, call: Call, owner: Owner) -> Reply:
        del call, owner
        self.begun += 1
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return result({"content": []})


async def under_way(client: LegacyClient, held: Held, accept: str) -> list[asyncio.Task[int]]:
    """Two calls that are answered once they may; their HTTP status."""
    headers = {**client.headers, "Accept": accept}

    async def call() -> int:
        async with client.http.post(client.url, json=TWICE, headers=headers) as response:
            await response.read()
            return response.status

    calls = [asyncio.create_task(call()) for _ in range(2)]
    await until(lambda: held.begun == 2)
    return calls


ACCEPTS = ["application/json, text/event-stream", "text/event-stream"]


@pytest.mark.parametrize("accept", ACCEPTS, ids=["in place", "in a task"])
async def test_both_are_cancelled(front: Front, accept: str) -> None:
    held, client = Held(front), await front.start_legacy()
    calls = await under_way(client, held, accept)
    await client.send(CANCEL)
    await asyncio.wait_for(asyncio.gather(*calls), 15)
    assert held.cancelled == 2


@pytest.mark.parametrize("accept", ACCEPTS, ids=["in place", "in a task"])
async def test_both_end_with_the_session(front: Front, accept: str) -> None:
    held, client = Held(front), await front.start_legacy()
    calls = await under_way(client, held, accept)
    async with client.http.delete(client.url, headers=client.headers) as response:
        assert response.status == 204
    await asyncio.wait_for(asyncio.gather(*calls), 15)
    assert held.cancelled == 2


async def test_both_are_answered(front: Front) -> None:
    held, client = Held(front), await front.start_legacy()
    calls = await under_way(client, held, ACCEPTS[0])
    held.may.set()
    assert await asyncio.wait_for(asyncio.gather(*calls), 15) == [200, 200]


async def test_both_are_cancelled_on_pipes(front: Front) -> None:
    held = Held(front)
    async with stdio(front) as pipe:
        pipe.send(HELLO)
        await pipe.next()
        pipe.send(TWICE)
        pipe.send(TWICE)
        await until(lambda: held.begun == 2)
        pipe.send(CANCEL)
        await until(lambda: held.cancelled == 2)
