"""One caller who takes all there is.

Bounded: sessions, streams and parked calls of each principal, the messages of a batch and the
bytes of what it is answered.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from armory.config import load_text
from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway.gateway import Gateway
from armory.protocol import jsonrpc
from armory.protocol.scanning import nesting
from armory.runtime.settings import http_settings
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    raws,
    serving,
    tool,
)
from armory.testing.waiting import until
from armory.wire.caller import Caller
from armory.wire.sessions import registry
from armory.wire.sessions.turns import MANY
from tests.hostile.callers import BUSY_S, LARGE, LIMITS, TOKENS, House, answer, calls
from tests.hostile.callers import house as house  # the fixture

pytestmark = pytest.mark.anyio


async def test_sessions_of_one_caller(house: House) -> None:
    opened = [await house.open(who) for who in ("greedy", "spare", "greedy")]
    assert [status for status, _, _ in opened] == [200, 200, 503]
    assert "server.limits.sessions_per_principal" in opened[2][1]["error"]["message"]
    assert (await house.open("other"))[0] == 200
    headers = {"Authorization": f"Bearer {TOKENS['greedy']}", "Mcp-Session-Id": opened[0][2]}
    async with house.http.delete(f"{house.url}/mcp", headers=headers) as ended:
        assert ended.status == 204
    assert (await house.open("spare"))[0] == 200


async def test_streams_of_one_caller(house: House) -> None:
    async with AsyncExitStack() as stack:
        seen: list[tuple[str, int]] = []
        for who in ("greedy", "spare", "other"):
            session = (await house.open(who))[2]
            headers = {
                "Authorization": f"Bearer {TOKENS[who]}",
                "Accept": "text/event-stream",
                "Mcp-Session-Id": session,
            }
            stream = house.http.get(f"{house.url}/mcp", headers=headers)
            said = await stack.enter_async_context(stream)
            seen.append((who, said.status))
            if said.status == 503:
                assert "server.limits.streams_per_principal" in await said.text()
        assert seen == [("greedy", 200), ("spare", 503), ("other", 200)]
        assert len(house.edge.streams) == 2


async def test_parked_calls_of_one_caller(house: House) -> None:
    for who in ("greedy", "spare"):
        assert (await house.park(who))["result"]["resultType"] == "input_required"
    refused = (await house.park("greedy"))["result"]
    assert "server.limits.parked_per_principal" in refused["content"][0]["text"]
    assert (await house.park("other"))["result"]["resultType"] == "input_required"
    assert house.edge.interactions.parked == 3


async def test_a_client_that_goes_before_its_stream_begins_writes_no_traceback(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    session = (await house.open("greedy"))[2]
    ended = asyncio.Event()
    handlers = house.edge.fixed_path_handlers()

    async def cut(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        try:
            return await handlers["/mcp"](request)
        finally:
            ended.set()

    app = web.Application()
    app.router.add_get("/mcp", cut)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    headers = {
        "Authorization": f"Bearer {TOKENS['greedy']}",
        "Accept": "text/event-stream",
        "Mcp-Session-Id": session,
    }
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    with pytest.raises(aiohttp.ClientConnectionError):
        await house.http.get(url, headers=headers)
    async with asyncio.timeout(20):
        await ended.wait()
    await runner.cleanup()
    assert len(house.edge.streams) == 0
    assert "Error handling request" not in caplog.text


async def test_messages_of_a_batch(house: House) -> None:
    session = (await house.open("greedy"))[2]
    status, said, _ = await house.post("greedy", calls(7), Mcp_Session_Id=session)
    assert status == 400
    assert "server.limits.batch_items" in said["error"]["message"]


async def test_what_batches_of_one_caller_begin_in_a_turn_of_the_loop(house: House) -> None:
    session = (await house.open("greedy"))[2]
    posts = [house.post("greedy", calls(6), Mcp_Session_Id=session) for _ in range(5)]
    batches = asyncio.gather(*posts)
    while not batches.done():
        house.turn += 1
        await asyncio.sleep(0)
    assert all(len(said) == 6 for _, said, _ in batches.result())
    assert house.began.total() == 30
    assert max(house.began.values()) <= 2


async def test_requests_of_a_caller_with_many_begin_one_in_a_turn_beside_others(
    house: House,
) -> None:
    def call(name: str) -> Any:
        return modern_body(1, "tools/call", {"name": f"up__{name}", "arguments": {}})

    async def ask(who: str, name: str) -> int:
        body = call(name)
        return (await house.post(who, body, **modern_headers(body)))[0]

    held = [asyncio.ensure_future(ask("greedy", "wait")) for _ in range(MANY)]
    held.append(asyncio.ensure_future(ask("other", "wait")))
    await until(lambda: house.waiting == MANY + 1)
    asked = asyncio.gather(*(ask("greedy", "say") for _ in range(30)))
    while not asked.done():
        house.turn += 1
        await asyncio.sleep(0)
    assert set(asked.result()) == {200}
    assert house.began.total() == 30
    assert max(house.began.values()) <= 2
    house.go.set()
    assert set(await asyncio.gather(*held)) == {200}


async def test_what_comes_over_both_ways_has_the_share_of_its_caller(house: House) -> None:
    shares: Any = house.edge._shares  # pyright: ignore[reportPrivateUsage]
    greedy = {"Authorization": f"Bearer {TOKENS['greedy']}"}
    async with asyncio.timeout(30), house.http.get(f"{house.url}/sse", headers=greedy) as stream:
        await stream.content.readuntil(b"data: ")
        place = (await stream.content.readline()).decode().strip()
        body = modern_body(1, "tools/call", {"name": "up__busy", "arguments": {}})
        async with house.http.post(house.url + place, json=body, headers=greedy) as said:
            assert said.status == 202
        await stream.content.readuntil(b"xxx")
    (account,) = shares._accounts.values()
    assert account.key == "user:eve"
    assert account.free_at > shares.clock() + BUSY_S, "a long step is paid off for long"


async def test_what_comes_over_both_ways_is_looked_through_in_turns(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: Counter[int] = Counter()
    deeper = nesting.DepthScan._deeper  # pyright: ignore[reportPrivateUsage]

    def seen(self: nesting.DepthScan, piece: bytes) -> bool:
        looked[house.turn] += 1
        return deeper(self, piece)

    monkeypatch.setattr(nesting.DepthScan, "_deeper", seen)
    greedy = {"Authorization": f"Bearer {TOKENS['greedy']}"}
    async with asyncio.timeout(60), house.http.get(f"{house.url}/sse", headers=greedy) as stream:
        await stream.content.readuntil(b"data: ")
        place = (await stream.content.readline()).decode().strip()
        pieces = 0
        for many in (200_000, 400_000):  # the latter is refused as it begins
            body = modern_body(7, "tools/list", {"x": [{}] * many})
            data = io.BytesIO(json.dumps(body, separators=(",", ":")).encode())
            asked = asyncio.ensure_future(
                house.http.post(house.url + place, data=data, headers=greedy)
            )
            while not asked.done():
                house.turn += 1
                await asyncio.sleep(0)
            assert asked.result().status == 202
            asked.result().release()
            pieces = pieces or looked.total()
            assert looked.total() == pieces >= 9
            await stream.content.readuntil(b'"id":7,')
            refused = (await stream.content.readuntil(b":")) == b'"error":'
            assert refused == (many == 400_000)
    assert max(looked.values()) == 1


async def test_bytes_of_what_a_batch_is_answered(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.wire.http.legacy._BATCH_AT_ONCE", 1)
    session = (await house.open("greedy"))[2]
    _, said, _ = await house.post("greedy", calls(6), Mcp_Session_Id=session)
    assert sorted(item["id"] for item in said) == list(range(6))
    refused = [item["error"]["message"] for item in said if "error" in item]
    assert len(refused) == 4, "two answers of 9,000 characters fit into 20,000 bytes"
    assert all("server.limits.batch_answer_bytes" in message for message in refused)


async def test_bytes_of_what_all_batches_are_answered(house: House) -> None:
    """However many batches are under way, no more than four full ones are held."""
    held = house.edge._legacy._batches  # pyright: ignore[reportPrivateUsage]
    session = (await house.open("greedy"))[2]
    messages = calls(27)
    for message in messages[2::3]:
        message["params"] = {"name": "up__wait", "arguments": {}}
    batches = [
        asyncio.ensure_future(house.post("greedy", messages[at : at + 3], Mcp_Session_Id=session))
        for at in range(0, 27, 3)
    ]
    await until(lambda: house.waiting == 9 and held.held > 8 * len(LARGE))
    most = held.held
    house.go.set()
    answered = [said for _, said, _ in await asyncio.gather(*batches)]
    assert most <= 4 * LIMITS["batch_answer_bytes"]
    assert [[item["id"] for item in said] for said in answered] == [
        [at, at + 1, at + 2] for at in range(0, 27, 3)
    ]
    refused = [item["error"]["message"] for said in answered for item in said if "error" in item]
    assert len(refused) == 10, "eight answers of 9,000 characters fit into four times 20,000 bytes"
    assert all("batches under way" in message for message in refused)
    assert held.held == 0
    _, said, _ = await house.post("greedy", calls(2), Mcp_Session_Id=session)
    assert all("result" in item for item in said), "there is room again"


def test_the_limits_have_keys() -> None:
    config = load_text(f"server: {{limits: {LIMITS}}}", environ={}).config
    settings = http_settings(config)
    assert {name: getattr(settings, name) for name in LIMITS} == LIMITS


async def test_sessions_that_expire_together_leave_others_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_TURN_S", 0.0)  # however fast the machine is
    pool = ScriptedPool({"up": ScriptedUpstream(ServerLists(tools=[tool("t", "t")]), answer)})
    gateway = Gateway(pool)
    gateway.publish(pool.catalog())
    hello = raws({"protocolVersion": "2025-11-25", "capabilities": {}})
    message = jsonrpc.decode(jsonrpc.request(1, "initialize", hello))
    count, turns = 200, 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving(gateway) as (_, edge):
        sessions = edge.sessions
        for _ in range(count):
            (await sessions.open(Caller(ANONYMOUS), message, hello)).used = float("-inf")
        kept = await sessions.open(Caller(ANONYMOUS), message, hello)
        beside = asyncio.ensure_future(others())
        with capture_logs() as log:
            await sessions.expire()
        beside.cancel()
        assert sessions.find(kept.id, Caller(ANONYMOUS)) is kept
        assert len(sessions) == 1
    assert turns > count
    (line,) = (line for line in log if line["event"] == "sessions_expired")
    assert (line["count"], len(line["first"])) == (count, 5)
