"""Questions of real servers of either era, put to clients of the other, over real processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import mcp_types as types
import pytest
from mcp import Client

from armory.testing.clients.raw import LegacyClient
from armory.testing.clients.talker import CAPABILITIES, Talker
from armory.testing.processes import GatewayProcess, Program
from tests.protocol.figures import figure, until

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(120)]
ROUNDS = int(os.environ.get("ARMORY_TEST_ROOTS_ROUNDS", "1"))
"""How often two clients with different roots come and go."""
FIXTURE = Path(__file__).parents[1] / "conformance" / "fixture_server.py"


@pytest.fixture(scope="module")
def modern_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway in front of a server that asks in the stateless way only."""
    with Program([sys.executable, str(FIXTURE)]) as server:
        config = {
            "upstreams": {"asker": {"url": server.line(), "protocol": "2026-07-28"}},
            "tool_rag": {"enabled": False},
        }
        with GatewayProcess(config, tmp_path_factory.mktemp("asker")) as running:
            assert isinstance(running, GatewayProcess)
            yield running


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})


async def sampled(
    context: Any, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="Paris, of course")
    return types.CreateMessageResult(role="assistant", content=said, model="scripted")


async def rooted(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///work/of-ada", name="work")])  # pyright: ignore[reportArgumentType]


def text_of(result: types.CallToolResult) -> str:
    return " ".join(getattr(block, "text", "") for block in result.content)


def asking(gateway: GatewayProcess, mode: str) -> Client:
    return Client(
        f"{gateway.url}/mcp",
        mode=mode,
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=rooted,
    )


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_legacy_server_asks(gateway: GatewayProcess, mode: str) -> None:
    async with asking(gateway, mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "everything__trigger-elicitation-request" in names
        asked = await client.call_tool("everything__trigger-elicitation-request", {})
        assert "Ada" in text_of(asked)
        prompted = await client.call_tool(
            "everything__trigger-sampling-request", {"prompt": "capital?", "maxTokens": 20}
        )
        assert "Paris, of course" in text_of(prompted)


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_modern_server_asks(modern_upstream: GatewayProcess, mode: str) -> None:
    async with asking(modern_upstream, mode) as client:
        hello = await client.call_tool("asker__test_input_required_result_elicitation", {})
        assert text_of(hello) == "Hello, Ada!"
        capital = await client.call_tool("asker__test_input_required_result_sampling", {})
        assert "Paris, of course" in text_of(capital)
        roots = await client.call_tool("asker__test_input_required_result_list_roots", {})
        assert "file:///work/of-ada" in text_of(roots)
        rounds = await client.call_tool("asker__test_input_required_result_multi_round", {})
        assert "Ada" in text_of(rounds)


async def first_question(client: LegacyClient, tool: str, http: aiohttp.ClientSession) -> None:
    """Call a tool, hear its question, and hang up without an answer."""
    params = {"name": tool, "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    async with http.post(client.url, json=body, headers=client.headers) as response:
        async for line in response.content:
            if b"elicitation/create" in line:
                return
    raise AssertionError("it never asked")


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
async def test_a_legacy_client_that_vanishes_leaves_nothing(
    gateway: GatewayProcess,
    modern_upstream: GatewayProcess,
    http: aiohttp.ClientSession,
    upstream: str,
) -> None:
    front, tool = (
        (gateway, "everything__trigger-elicitation-request")
        if upstream == "legacy"
        else (modern_upstream, "asker__test_input_required_result_elicitation")
    )
    before = figure(front.url, "armory_client_sessions")
    client = LegacyClient(f"{front.url}/mcp", http, "2025-11-25")
    await client.initialize(CAPABILITIES)
    await first_question(client, tool, http)
    async with http.delete(client.url, headers=client.headers) as response:
        assert response.status in (200, 202, 204)
    await until(lambda: figure(front.url, "armory_client_sessions") <= before)
    await until(lambda: figure(front.url, "armory_upstream_calls_in_flight") == 0)
    assert figure(front.url, "armory_client_parked") == 0


async def test_a_modern_client_that_is_refused_leaves_nothing(
    gateway: GatewayProcess, http: aiohttp.ClientSession
) -> None:
    talker = Talker(http, f"{gateway.url}/mcp", "modern")
    call = {"name": "everything__trigger-elicitation-request", "arguments": {}}
    done = await talker.tell("tools/call", call)
    assert [method for method, _ in done.asked] == ["elicitation/create"], done
    assert figure(gateway.url, "armory_client_parked") == 0
    await until(lambda: figure(gateway.url, "armory_upstream_calls_in_flight") == 0)


@pytest.mark.timeout(120 + 60 * ROUNDS)
async def test_each_client_sees_its_own_folders(gateway: GatewayProcess, tmp_path: Path) -> None:
    """Two windows of one user: the file server asks each for its roots, in a session of its own."""

    def opened(folder: Path) -> Client:
        folder.mkdir(exist_ok=True)

        async def roots(context: Any) -> types.ListRootsResult:
            return types.ListRootsResult(roots=[types.Root(uri=folder.as_uri())])  # pyright: ignore[reportArgumentType]

        return Client(f"{gateway.url}/mcp", mode="legacy", list_roots_callback=roots)

    async def seen(client: Client) -> str:
        return text_of(await client.call_tool("files__list_allowed_directories", {}))

    async def opens(client: Client, own: Path, other: Path) -> None:
        """Until the server has asked it may name what it was started with, nobody else's ever."""
        async with asyncio.timeout(20):
            while str(own) not in (told := await seen(client)):
                assert str(other) not in told
            assert str(other) not in told

    async def together(one: Path, two: Path) -> None:
        async with opened(one) as first, opened(two) as second:
            await asyncio.gather(opens(first, one, two), opens(second, two, one))
            assert str(two) not in await seen(first)
            assert str(one) not in await seen(second)

    async def one_after_the_other(one: Path, two: Path) -> None:
        async with opened(one) as first:
            await opens(first, one, two)
            async with opened(two) as second:
                await opens(second, two, one)
                assert str(two) not in await seen(first)

    async def last_comes_first(one: Path, two: Path) -> None:
        async with opened(one) as first, opened(two) as second:
            await opens(second, two, one)
            await opens(first, one, two)
            assert str(one) not in await seen(second)

    orders = (one_after_the_other, together, last_comes_first)
    for number in range(ROUNDS):
        one, two = tmp_path / f"one{number}-", tmp_path / f"two{number}-"
        await orders[number % len(orders)](one, two)
        async with opened(two) as third:  # both have left
            await opens(third, two, one)
