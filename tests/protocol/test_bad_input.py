"""What clients get wrong, and what they hear: codes and statuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.gateway.gateway import Gateway
from armory.protocol import jsonrpc
from armory.protocol.link import Call, Owner, Reply
from armory.security.authentication import Authenticator, StaticToken
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import raws, serving
from armory.wire.caller import Caller
from armory.wire.settings import HttpSettings

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
CALL: dict[str, Any] = {"name": "new__now", "arguments": {}}


@pytest.mark.parametrize(
    ("headers", "drop", "code"),
    [
        ({"Mcp-Method": "tools/list"}, (), -32020),
        ({}, ("Mcp-Method",), -32020),
        ({}, ("Mcp-Name",), -32020),
        ({"Mcp-Name": "other"}, (), -32020),
        ({"Mcp-Name": "=?base64?bmV3X19ub3c=?="}, (), None),
        ({"Mcp-Name": "=?base64?bm?="}, (), -32020),
        ({}, ("MCP-Protocol-Version",), -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, (), -32020),
    ],
)
async def test_headers_must_say_what_the_body_says(
    front: Front, headers: dict[str, str], drop: tuple[str, ...], code: int | None
) -> None:
    status, message = await front.modern("tools/call", CALL, headers=headers, drop=drop)
    if code is None:
        assert status == 200
        assert "result" in message
    else:
        assert (status, message["error"]["code"]) == (400, code)
        assert message["id"] == front.count


async def test_duplicated_headers_are_refused(front: Front) -> None:
    body = modern_body(1, "tools/call", CALL)
    headers = [*modern_headers(body).items(), ("Mcp-Name", "new__now")]
    async with front.http.post(front.url + "/mcp", json=body, headers=headers) as response:
        assert response.status == 400
        assert (await messages(response))[0]["error"]["code"] == -32020


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"io.modelcontextprotocol/protocolVersion": "2030-01-01"}, -32022),
        ({"io.modelcontextprotocol/clientCapabilities": None}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": []}, -32602),
        ({"io.modelcontextprotocol/logLevel": "loud"}, -32602),
        ({"io.modelcontextprotocol/logLevel": 3}, -32602),
    ],
)
async def test_the_envelope_is_checked(front: Front, meta: dict[str, Any], code: int) -> None:
    version = meta.get("io.modelcontextprotocol/protocolVersion", "2026-07-28")
    status, message = await front.modern(
        "tools/list", meta=meta, headers={"MCP-Protocol-Version": version}
    )
    assert (status, message["error"]["code"]) == (400, code)
    if code == -32022:
        assert message["error"]["data"] == {"supported": ["2026-07-28"], "requested": version}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "nope/nope"])
async def test_removed_and_unknown_methods(front: Front, method: str) -> None:
    status, message = await front.modern(method)
    assert (status, message["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"a":' * 100_000, 400, -32600),
        (b"3", 400, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":3}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32602),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
        (b"[" * 100_000, 400, -32600),
    ],
)
async def test_bodies_that_are_no_message(
    front: Front, body: bytes, status: int, code: int
) -> None:
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28"}
    async with front.http.post(front.url + "/mcp", data=body, headers=headers) as response:
        assert response.status == status
        assert (await messages(response))[0]["error"]["code"] == code
    assert (await front.modern("tools/list"))[0] == 200


@pytest.mark.parametrize(
    ("method", "params", "parameter"),
    [
        ("tools/call", {}, "params.name"),
        ("prompts/get", {}, "params.name"),
        ("resources/read", {}, "params.uri"),
        ("completion/complete", {}, "params.ref"),
        ("completion/complete", {"ref": {"type": "ref/prompt"}}, "params.ref.name"),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": 5}}, "params.ref.uri"),
        ("completion/complete", {"ref": {"type": "ref/tool"}}, "params.ref.type"),
        ("subscriptions/listen", {}, "params.notifications"),
        (
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": [5]}},
            "params.notifications.resourceSubscriptions",
        ),
    ],
)
async def test_a_bad_parameter_is_named(
    front: Front, method: str, params: dict[str, Any], parameter: str
) -> None:
    status, message = await front.modern(method, params)
    error = message["error"]
    assert (status, error["code"]) == (400, -32602)
    assert error["message"].startswith(f"{parameter} is ")
    assert error["data"] == {"code": "invalid_request", "parameter": parameter}


async def test_arguments_that_are_no_object(front: Front) -> None:
    status, message = await front.modern("tools/call", {"name": "new__now", "arguments": [1]})
    assert (status, message["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({"dev.armory/query": ""}, "query"),
        ({"dev.armory/query": 3}, "query"),
        ({"dev.armory/query": "x" * 8001}, "query"),
        ({"dev.armory/query": "x", "dev.armory/threshold": 2}, "threshold"),
        ({"dev.armory/query": "x", "dev.armory/top_k": 0}, "top_k"),
        ({"dev.armory/query": "x", "dev.armory/top_k": True}, "top_k"),
        ({"dev.armory/query": "x", "dev.armory/ranker": "best"}, "ranker"),
        ({"dev.armory/query": "x", "dev.armory/servers": [1]}, "servers"),
    ],
)
async def test_bad_carriers_are_named(front: Front, meta: dict[str, Any], named: str) -> None:
    status, message = await front.modern("tools/list", meta=meta)
    assert (status, message["error"]["code"]) == (400, -32602)
    assert named in message["error"]["message"]


async def test_transport_level_refusals(front: Front) -> None:
    url = front.url + "/mcp"
    good = modern_headers(modern_body(1, "tools/list"))
    async with front.http.post(url, data=b"x", headers={"Content-Type": "text/plain"}) as response:
        assert response.status == 415
    async with front.http.post(url, json={}, headers={"Accept": "image/png"}) as response:
        assert response.status == 406
    for method in ("GET", "DELETE", "PUT"):
        async with front.http.request(method, url, headers=good) as response:
            assert response.status == 405
    async with front.http.get(url) as response:
        assert response.status == 400
    async with front.http.post(front.url + "/mcp/nope", json={}) as response:
        assert response.status == 404
    async with front.http.post(url, json={}, headers={"Host": "evil.example"}) as response:
        assert response.status == 403
    async with front.http.post(url, json={}, headers={"Origin": "https://evil"}) as response:
        assert response.status == 403


async def test_cors_for_loopback_pages(front: Front) -> None:
    origin = {"Origin": "http://localhost:3000"}
    asked = {**origin, "Access-Control-Request-Headers": "mcp-method"}
    async with front.http.options(front.url + "/mcp", headers=asked) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        assert response.headers["Access-Control-Allow-Headers"] == "mcp-method"
    body = modern_body(1, "tools/list")
    headers = {**modern_headers(body), **origin}
    async with front.http.post(front.url + "/mcp", json=body, headers=headers) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        assert "Mcp-Session-Id" in response.headers["Access-Control-Expose-Headers"]


async def test_a_body_over_the_limit(front: Front) -> None:
    async with (
        serving(front.gateway, settings=HttpSettings(body_bytes=1_000)) as (url, _),
        front.http.post(url + "/mcp", json={"x": "y" * 2_000}) as response,
    ):
        assert response.status == 413
        assert (await messages(response))[0]["error"]["code"] == -32600


async def test_caps_for_sessions_and_streams(front: Front) -> None:
    settings = HttpSettings(sessions=1, streams=0)
    async with serving(front.gateway, settings=settings) as (url, _):
        front.url = url
        client = await front.start_legacy()
        async with front.http.get(client.url, headers=client.headers) as response:
            assert response.status == 503
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
        async with front.http.post(url + "/mcp", json={**hello, "params": params}) as response:
            assert response.status == 503


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamUnavailable("upstream 'old' is down", upstream="old", retry_after_s=3), 1001),
        (UpstreamTimeout("upstream 'old' took too long", upstream="old"), 1002),
    ],
)
async def test_upstream_trouble(front: Front, error: UpstreamUnavailable, code: int) -> None:
    async def broken(call: Call, owner: Owner) -> Reply:
        raise error

    front.pool.upstreams["old"].answer = broken
    status, message = await front.modern("tools/call", {"name": "old__now", "arguments": {}})
    told = message["result"]
    assert status == 200
    assert told["isError"] is True
    assert told["_meta"]["dev.armory/error"] == {
        "code": error.code,
        "upstream": "old",
        "retry_after_s": error.retry_after_s,
    }
    assert "old" in told["content"][0]["text"]
    _, message = await front.modern("prompts/get", {"name": "old__greet"})
    assert message["error"]["code"] == code
    assert (await front.modern("tools/call", CALL))[0] == 200


async def test_a_defect_is_an_answer_too(front: Front) -> None:
    async def broken(call: Call, owner: Owner) -> Reply:
        raise ZeroDivisionError

    front.pool.upstreams["old"].answer = broken
    _, message = await front.modern("tools/call", {"name": "old__now", "arguments": {}})
    assert message["error"]["code"] == -32603
    client = await front.start_legacy()
    answer = await client.request("tools/call", {"name": "old__now", "arguments": {}})
    assert answer["error"]["code"] == -32603


async def test_tokens_and_policies(front: Front) -> None:
    rules = [
        Rule(who=("reader",), allow=("new__*", "new+*")),
        Rule(who=("ops",), allow=("*",), deny=("*__fail",)),
    ]
    gateway = Gateway(front.pool, front.retriever, Policy(rules))
    gateway.publish(front.pool.catalog())
    tokens = [
        StaticToken("alice", "alice-secret", frozenset(("reader",))),
        StaticToken("bob", "bob-secret", frozenset(("ops",))),
    ]
    authenticator = Authenticator(tokens, allow_anonymous=False)
    async with serving(gateway, authenticator) as (url, edge):
        front.url = url
        async with front.http.post(url + "/mcp", json={}) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
        seen: dict[str, list[str]] = {}
        for who in ("alice", "bob"):
            auth = {"Authorization": f"Bearer {who}-secret"}
            _, message = await front.modern("tools/list", headers=auth)
            seen[who] = [tool["name"] for tool in message["result"]["tools"]]
            assert message["result"]["cacheScope"] == "private"
        assert seen == {
            "alice": ["new__now", "new__echo", "new__fail"],
            "bob": ["new__now", "new__echo", "old__now", "old__echo"],
        }
        alice = {"Authorization": "Bearer alice-secret"}
        answers = [
            await front.modern("tools/call", {"name": name, "arguments": {}}, headers=alice)
            for name in ("old__now", "none__now")
        ]
        told = [(status, message["error"]["code"]) for status, message in answers]
        assert told == [(400, -32602), (400, -32602)]
        _, found = await front.modern(
            "tools/call",
            {"name": "search_tools", "arguments": {"query": "time"}},
            headers=alice,
        )
        names = [tool["name"] for tool in found["result"]["structuredContent"]["tools"]]
        assert names == ["new__now"]
        async with front.http.post(url + "/mcp/old", json={}, headers=alice) as response:
            assert response.status == 404
        bob = await authenticator.authenticate({"Authorization": "Bearer bob-secret"})
        hello = {"protocolVersion": "2025-11-25"}
        message = jsonrpc.decode(jsonrpc.request(1, "initialize", raws(hello)))
        session = await edge.sessions.open(Caller(bob), message, raws(hello))
        headers = {**alice, "Mcp-Session-Id": session.id}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with front.http.post(url + "/mcp", json=ping, headers=headers) as response:
            assert response.status == 404


async def test_discovery_document(front: Front) -> None:
    async with front.http.get(front.url + "/.well-known/mcp.json") as response:
        document = await response.json()
    assert document["servers"] == {"new": "/mcp/new", "old": "/mcp/old"}
    assert document["sets"] == {"clocks": "/mcp/set/clocks"}
    assert "2026-07-28" in document["protocolVersions"]


async def test_pages_of_allowed_origins_read_the_discovery_document(front: Front) -> None:
    place, shared = front.url + "/.well-known/mcp.json", "Access-Control-Allow-Origin"
    for origin, told in (
        ("http://localhost:3000", "http://localhost:3000"),
        ("https://evil", None),
    ):
        for method in ("GET", "OPTIONS"):
            asked = front.http.request(method, place, headers={"Origin": origin})
            async with asked as response:
                assert response.status == {"GET": 200, "OPTIONS": 204}[method]
                assert response.headers.get(shared) == told
    asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Headers": "authorization"}
    async with front.http.options(place, headers=asked) as response:
        assert response.headers["Access-Control-Allow-Headers"] == "authorization"


async def test_base_path(front: Front) -> None:
    async with serving(front.gateway, settings=HttpSettings(base_path="/tools")) as (url, _):
        front.url = url
        status, _ = await front.modern("tools/list", path="/tools/mcp")
    assert status == 200


async def test_many_clients_at_once(front: Front) -> None:
    connector = aiohttp.TCPConnector(limit=50)
    async with aiohttp.ClientSession(connector=connector) as http:
        front.http = http
        calls = [
            front.modern("tools/call", {"name": f"{s}__now", "arguments": {"text": str(i)}})
            for i in range(50)
            for s in ("new", "old")
        ]
        answers = await asyncio.gather(*calls)
    assert all(status == 200 for status, _ in answers)


async def test_a_session_is_told_which_revisions_there_are(front: Front) -> None:
    client = await front.start_legacy()
    headers = {
        "Mcp-Session-Id": client.session,
        "MCP-Protocol-Version": "2099-01-01",
        "Accept": "application/json, text/event-stream",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for method, json in (("POST", body), ("GET", None), ("DELETE", None)):
        sent = front.http.request(method, front.url + "/mcp", json=json, headers=headers)
        async with sent as response:
            told = await response.json()
            assert response.status == 400, method
        assert told["error"]["code"] == -32600
        assert "'2099-01-01'; sessions have one of 2024-11-05" in told["error"]["message"]
    assert (await client.request("ping"))["result"] == {}
