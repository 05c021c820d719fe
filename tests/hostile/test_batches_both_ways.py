"""Batches over a connection that carries messages both ways, as HTTP+SSE.

Bounded like those that are posted, and together with them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from armory.testing.waiting import until
from tests.hostile.callers import HELLO, LARGE, LIMITS, TOKENS, House, calls
from tests.hostile.callers import house as house  # the fixture

pytestmark = pytest.mark.anyio
Post = Callable[[Any], Awaitable[None]]


@asynccontextmanager
async def both_ways(house: House) -> AsyncGenerator[tuple[aiohttp.StreamReader, Post]]:
    """An HTTP+SSE session of 2025-03-26: its stream, and what posts a message to it."""
    greedy = {"Authorization": f"Bearer {TOKENS['greedy']}"}
    async with asyncio.timeout(30), house.http.get(f"{house.url}/sse", headers=greedy) as stream:
        await stream.content.readuntil(b"data: ")
        place = (await stream.content.readline()).decode().strip()

        async def post(body: Any) -> None:
            async with house.http.post(house.url + place, json=body, headers=greedy) as said:
                assert said.status == 202

        await post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        await stream.content.readuntil(b"\n\n")
        yield stream.content, post


async def answered(stream: aiohttp.StreamReader) -> Any:
    """The next message of an event stream."""
    await stream.readuntil(b"data: ")
    return json.loads(await stream.readuntil(b"\n\n"))


async def test_batches_over_both_ways_are_bounded_alike(house: House) -> None:
    held = house.edge._legacy._batches  # pyright: ignore[reportPrivateUsage]
    async with both_ways(house) as (stream, post):
        await post(calls(7))
        assert "server.limits.batch_items" in (await answered(stream))["error"]["message"]
        messages = calls(27)
        for message in messages[2::3]:
            message["params"] = {"name": "up__wait", "arguments": {}}
        for at in range(0, 27, 3):
            await post(messages[at : at + 3])
        await until(lambda: house.waiting == 9 and held.held > 8 * len(LARGE))
        assert held.held <= 4 * LIMITS["batch_answer_bytes"]
        house.go.set()
        batches = [await answered(stream) for _ in range(9)]
        refused = [one["error"]["message"] for said in batches for one in said if "error" in one]
        assert len(refused) == 10, "eight answers of 9,000 characters fit, as over POST"
        assert all("batches under way" in message for message in refused)
        assert held.held == 0
        await post(calls(6))
        said = await answered(stream)
        assert [item["id"] for item in said] == list(range(6))
        assert sum("error" in item for item in said) == 4
        assert held.held == 0


async def test_a_batch_over_both_ways_begins_one_call_in_a_turn(house: House) -> None:
    async with both_ways(house) as (stream, post):
        house.began.clear()
        posted = asyncio.gather(*(post(calls(6)) for _ in range(5)))
        while house.began.total() < 30:
            house.turn += 1
            await asyncio.sleep(0)
        await posted
        assert max(house.began.values()) <= 2
        assert [len(await answered(stream)) for _ in range(5)] == [6] * 5


async def test_what_a_batch_holds_is_given_back_where_its_connection_ends(house: House) -> None:
    held = house.edge._legacy._batches  # pyright: ignore[reportPrivateUsage]
    messages = calls(3)
    messages[2]["params"] = {"name": "up__wait", "arguments": {}}
    async with both_ways(house) as (_, post):
        await post(messages)
        await until(lambda: house.waiting == 1 and held.held > 2 * len(LARGE))
    await until(lambda: held.held == 0)
