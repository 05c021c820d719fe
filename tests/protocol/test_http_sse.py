"""The transport HTTP+SSE of revision 2024-11-05."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from mcp import ClientSession
from mcp.client.sse import sse_client

from armory.testing.clients.raw import modern_body
from armory.testing.waiting import until

if TYPE_CHECKING:
    from tests.protocol.conftest import Front
pytestmark = pytest.mark.anyio


async def test_http_sse_with_the_sdk(front: Front) -> None:
    async with (
        sse_client(front.url + "/sse") as (read, write),
        ClientSession(read, write) as session,
    ):
        hello = await session.initialize()
        assert hello.server_info.name == "armory"
        assert len((await session.list_tools()).tools) == 6
        called = await session.call_tool("new__fail", {})
        assert called.is_error
    await until(lambda: not front.edge.streams and not len(front.edge.sessions))


async def test_a_message_over_http_sse_may_say_what_it_wants_itself(front: Front) -> None:
    opening = {"X-Armory-Query": "current%20time", "X-Armory-Top-K": "1"}
    async with front.http.get(front.url + "/sse", headers=opening) as stream:

        async def data() -> str:
            async with asyncio.timeout(10):
                while not (line := await stream.content.readline()).startswith(b"data: "):
                    assert line
            return line.removeprefix(b"data: ").decode().strip()

        place = front.url + await data()

        async def listed(**headers: str) -> list[str]:
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            async with front.http.post(
                place, json=modern_body(1, "tools/list"), headers=named
            ) as response:
                assert response.status == 202
            tools = msgspec.json.decode(await data())["result"]["tools"]
            return [tool["name"] for tool in tools if "__" in tool["name"]]

        assert await listed() == ["new__now"]
        assert await listed(x_armory_query="always%20fails") == ["new__fail"]
        assert await listed(X_Armory_Top_K="2") == ["new__now", "old__now"]
        assert await listed() == ["new__now"]


async def test_http_sse_refusals(front: Front) -> None:
    async with front.http.post(front.url + "/sse", json={}) as response:
        assert response.status == 405
    async with front.http.get(front.url + "/messages") as response:
        assert response.status == 405
    async with front.http.post(front.url + "/messages?session_id=x", json={}) as response:
        assert response.status == 404
