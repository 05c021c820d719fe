"""What a client declares and asks to hear of, and what an upstream says of itself: much of it.

Bounded: the capabilities that a session keeps, the resources that a client watches, what one such
request takes of the event loop and writes to the log, what is kept of an upstream and told clients.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from msgspec import Raw
from structlog.testing import capture_logs
from yarl import URL

from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.errors import InvalidRequest
from armory.gateway.changes.resource_watches import MOST, ResourceWatches
from armory.gateway.endpoint import ALL
from armory.gateway.gateway import Gateway
from armory.gateway.metatools.definitions import purpose
from armory.gateway.subscription import Subscription
from armory.protocol import codes
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.scanning.nesting import PIECE_BYTES
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool
from armory.upstreams.session.handshake import (
    Incompatible,
    identity_of_discovery,
    identity_of_initialization,
)
from armory.wire.eras.handshakes import CAPABILITIES_BYTES
from armory.wire.http.edge import HttpEdge
from armory.wire.methods import OWN_BYTES
from tests.protocol.test_pipes import stdio

pytestmark = pytest.mark.anyio


async def answer(_call: Call, _owner: Owner) -> Reply:
    return result({}, "legacy")


class Served:
    def __init__(self, url: str, edge: HttpEdge, gateway: Gateway, http: Any) -> None:
        self.url, self.edge, self.gateway = url, edge, gateway
        self.http: aiohttp.ClientSession = http

    async def post(self, body: Any, **headers: str) -> tuple[int, bytes]:
        """Status, and the first piece of the answer."""
        accept = {"Accept": "application/json, text/event-stream"}
        sent = {"Content-Type": "application/json"} | accept | headers
        data = io.BytesIO(json.dumps(body).encode())  # aiohttp warns of large ones that are bytes
        async with self.http.post(f"{self.url}/mcp", data=data, headers=sent) as said:
            return said.status, await said.content.readany()

    async def asked(self, body: Any) -> tuple[int, bytes]:
        return await self.post(body, **modern_headers(body))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        pool = ScriptedPool(
            {"up": ScriptedUpstream(ServerLists(tools=[tool("t", "t")]), answer, "legacy")}
        )
        gateway = Gateway(pool)
        gateway.publish(pool.catalog())
        url, edge = await stack.enter_async_context(serving(gateway))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Served(url, edge, gateway, http)


def capabilities(size: int) -> dict[str, Any]:
    """Of so many bytes as JSON."""
    around = len(json.dumps({"experimental": {"x": {"y": ""}}}))
    return {"experimental": {"x": {"y": "z" * (size - around)}}}


def hello(size: int) -> dict[str, Any]:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities(size),
        "clientInfo": {"name": "t", "version": "0"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


async def test_capabilities_that_a_session_would_keep(served: Served) -> None:
    assert (await served.post(hello(CAPABILITIES_BYTES)))[0] == 200
    assert len(served.edge.sessions) == 1
    _, said = await served.post(hello(CAPABILITIES_BYTES + 1))
    error = json.loads(said)["error"]
    assert error["code"] == codes.INVALID_PARAMS
    assert "16,384 bytes at most" in error["message"]
    assert len(served.edge.sessions) == 1


async def test_capabilities_of_a_request(served: Served) -> None:
    for size, status in ((CAPABILITIES_BYTES, 200), (CAPABILITIES_BYTES + 1, 400)):
        body = modern_body(1, "tools/list", capabilities=capabilities(size))
        found, said = await served.asked(body)
        assert found == status
    assert "16,384 bytes at most" in json.loads(said)["error"]["message"]


async def test_resources_that_are_not_there_cost_one_line_and_no_pause(served: Served) -> None:
    wanted = {"notifications": {"resourceSubscriptions": [f"x:{n}" for n in range(20_000)]}}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with capture_logs() as log:
        counting = asyncio.ensure_future(count())
        status, said = await served.asked(modern_body(1, "subscriptions/listen", wanted))
        counting.cancel()
    assert status == 200
    assert b"notifications/subscriptions/acknowledged" in said
    (line,) = (line for line in log if line["event"] == "resource_subscriptions_not_honoured")
    assert line["count"] == MOST
    assert turns > MOST // 100, "others had the loop meanwhile"


@pytest.mark.parametrize("key", ["resourceSubscriptions", "taskIds"])
async def test_a_list_too_long_to_read(served: Served, key: str) -> None:
    wanted = {"notifications": {key: [f"x:{n}" for n in range(60_000)]}}
    status, said = await served.asked(modern_body(1, "subscriptions/listen", wanted))
    assert status == 400
    error = json.loads(said)["error"]
    assert error["code"] == codes.INVALID_PARAMS
    assert f"params.notifications.{key} has " in error["message"]
    assert error["message"].endswith("expected at most 524,288")


async def test_a_list_is_read_as_far_as_it_is_honoured(served: Served) -> None:
    listed: list[Any] = [f"x:{n}" for n in range(40_000)]
    wanted = {"notifications": {"resourceSubscriptions": [*listed, 1]}}
    status, _ = await served.asked(modern_body(1, "subscriptions/listen", wanted))
    assert status == 200, "each that is read becomes an object, in the way of everybody's calls"
    wanted = {"notifications": {"resourceSubscriptions": [*listed[: MOST - 1], 1]}}
    status, said = await served.asked(modern_body(1, "subscriptions/listen", wanted))
    assert status == 400
    assert "is not a list of strings" in json.loads(said)["error"]["message"]


@pytest.mark.parametrize("method", ["tools/list", "subscriptions/listen", "server/discover"])
async def test_parameters_too_large_for_what_is_answered_here(served: Served, method: str) -> None:
    body = modern_body(1, method, {"filler": "x" * OWN_BYTES})
    status, said = await served.asked(body)
    error = json.loads(said)["error"]
    assert (status, error["code"]) == (400, codes.INVALID_PARAMS)
    assert error["message"].startswith(f"params of {method} have 1,048,")
    assert error["message"].endswith("expected at most 1,048,576")


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_what_begins_too_large_is_refused_before_it_is_there(
    served: Served, method: str
) -> None:
    begins = b'{"jsonrpc":"2.0","id":7,"method":"%b","params":{"x":"' % method.encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % (2 * OWN_BYTES)
    reader, writer = await asyncio.open_connection("127.0.0.1", URL(served.url).port)
    writer.write(head + begins.ljust(2 * PIECE_BYTES, b"x"))  # and nothing more
    async with asyncio.timeout(30):
        said = await reader.readuntil(b"expected at most 1,048,576")
    writer.transport.abort()
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b'"id":7' in said
    assert b"params of %b have 2,097,152 bytes" % method.encode() in said


async def test_a_handshake_too_large_to_read(served: Served) -> None:
    status, said = await served.post(hello(OWN_BYTES))
    assert status == 400
    assert "params of initialize have" in json.loads(said)["error"]["message"]
    assert len(served.edge.sessions) == 0


async def test_what_an_upstream_answers_may_be_as_large_as_a_body(served: Served) -> None:
    call = {"name": "up__t", "arguments": {"text": "x" * 2 * OWN_BYTES}}
    status, said = await served.asked(modern_body(1, "tools/call", call))
    assert (status, "result" in json.loads(said)) == (200, True)


@pytest.mark.parametrize("opens", [True, False])
async def test_parameters_too_large_on_a_connection_of_both_ways(
    served: Served, opens: bool
) -> None:
    large = hello(OWN_BYTES) if opens else modern_body(1, "tools/list", {"x": "y" * OWN_BYTES})
    async with stdio(cast("Any", served), 4 << 20) as pipe:
        await asyncio.to_thread(pipe.send, large)
        error = (await pipe.next())["error"]
        assert (error["code"], "expected at most 1,048,576" in error["message"]) == (-32602, True)
        pipe.send(modern_body(2, "server/discover"))
        assert (await pipe.next())["id"] == 2


async def test_resources_that_one_client_watches(served: Served) -> None:
    pool = ScriptedPool({"up": ScriptedUpstream(ServerLists(), answer, "legacy")})
    watches = ResourceWatches(pool)
    client = Subscription(Principal("a"), ALL, lambda _method, _params: None)
    for number in range(MOST):
        await watches.add(client, "up", f"x:{number}")
    await watches.add(client, "up", "x:0")  # once more is no more
    with pytest.raises(InvalidRequest, match=r"1,000 resources are watched already"):
        await watches.add(client, "up", "x:more")
    await watches.remove(client, "up", "x:0")
    with pytest.raises(InvalidRequest, match=r"9,000 characters, of 8,192"):
        await watches.add(client, "up", "x" * 9_000)
    await watches.add(client, "up", "x:more")
    await watches.remove_all(client)
    assert len(watches) == 0


@pytest.mark.parametrize("read", [identity_of_initialization, identity_of_discovery])
def test_what_an_upstream_says_of_itself(read: Any) -> None:
    link: Any = SimpleNamespace(server="up")
    about = {
        "protocolVersion": "2025-11-25",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "instructions": "x" * 900_000,
    }
    assert read(link, Reply(result=Raw(json.dumps(about).encode()))).capabilities == {"tools": {}}
    about["capabilities"] = {f"x{n}": {} for n in range(20_000)}
    with pytest.raises(Incompatible, match=r"'up' says 1,\d+,\d+ bytes about itself"):
        read(link, Reply(result=Raw(json.dumps(about).encode())))


def test_one_phrase_of_a_server_is_looked_for_in_its_beginning() -> None:
    lists = ServerLists(instructions="Keeps notes. " + " " * 5_000_000 + "Never seen.")
    assert purpose("up", lists) == "Keeps notes"
    hidden = ServerLists(instructions=" " * 5_000 + "Never seen.", tools=[tool("a", "a")])
    assert purpose("up", hidden) == "a"
