"""Messages that are wide: a hundred thousand members where a dozen are known.

Bounded: what is opened. Opened whole, a mebibyte of small members takes tens of times its size, and
everybody's time. What need not be opened passes as it came.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from armory.protocol.scanning.taking_apart import MOST_MEMBERS
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.processes import GatewayProcess
from tests.threaded import Answering, served

pytestmark = pytest.mark.anyio
BOUND_S = 40.0
TOKEN = "a" * 40
MANY = {f"k{number}": number for number in range(100 * MOST_MEMBERS)}
BLOCK = {"type": "text", "text": "fine"}
RESULTS: dict[str, Any] = {
    "good": {"content": [BLOCK]},
    "top": {**MANY, "content": [BLOCK]},
    "meta": {"content": [BLOCK], "_meta": MANY},
    "block": {"content": [{**MANY, **BLOCK}]},
    "many-blocks": {"content": [BLOCK] * 20_000},
}
PROGRESS = {"progressToken": [[]] * 200_000, "progress": 1}
LOGGED = {**MANY, "level": "error", "data": "x"}
LINKS = [{"type": "resource_link", "uri": f"a:{n}", "name": "a"} for n in range(10_000)]
EXACT = b'{ "number": 1.10, "large": 12345678901234567890123,\n "k": [0,0] }'
API = {
    "openapi": "3.1.0",
    "info": {"title": "a", "version": "1"},
    "paths": {
        "/exact": {"get": {"operationId": "exact"}},
        "/form": {
            "post": {
                "operationId": "form",
                "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {}}}},
            }
        },
        "/echo": {
            "post": {
                "operationId": "echo",
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
            }
        },
    },
}


def answered(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What the upstream says to a request: notifications, then the answer."""
    method, name = asked["method"], asked.get("params", {}).get("name", "")
    said: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    if method == "initialize":
        capabilities = {"tools": {}, "logging": {}}
        about = {"name": "x", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
        result["serverInfo"] = about
    elif method == "tools/list":
        names = (*RESULTS, "links", "notes")
        result["tools"] = [{"name": n, "inputSchema": {"type": "object"}} for n in names]
    elif name == "notes":
        said.append({"method": "notifications/progress", "params": PROGRESS})
        said.append({"method": "notifications/message", "params": LOGGED})
        result = RESULTS["good"]
    elif method == "tools/call":
        result = {"content": LINKS} if name == "links" else RESULTS[name]
    return [{"jsonrpc": "2.0", **each} for each in (*said, {"id": asked["id"], "result": result})]


class Handler(Answering):
    """The upstream, and an API."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/mcp":
            self.say(data, "application/json")
            return
        asked = json.loads(data)
        said = answered(asked) if "id" in asked else []
        events = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in said)
        self.say(events, "text/event-stream")

    def do_GET(self) -> None:
        if self.path == "/exact":
            self.say(EXACT, "application/json")
        else:
            self.say(status=405)

    do_DELETE = do_GET


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    api = folder / "api.json"
    with served(Handler) as url:
        api.write_text(json.dumps({**API, "servers": [{"url": url}]}), encoding="utf-8")
        config = {
            "upstreams": {
                "wide": {"url": f"{url}/mcp", "transport": "streamable-http"},
                "api": {"openapi": str(api)},
            },
            "security": {"tokens": {"someone": {"token": TOKEN}}},
            "tool_rag": {"enabled": False},
        }
        with GatewayProcess(config, folder) as running:
            assert isinstance(running, GatewayProcess)
            yield running


async def asked(
    gateway: GatewayProcess, era: str, method: str, params: dict[str, Any], **meta: Any
) -> list[dict[str, Any]]:
    """The messages that answer a request."""
    url = f"{gateway.url}/mcp"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with asyncio.timeout(BOUND_S), aiohttp.ClientSession(headers=headers) as http:
        if era == "legacy":
            client = LegacyClient(url, http, "2025-06-18")
            await client.initialize({})
            return [await client.request(method, {**params, **({"_meta": meta} if meta else {})})]
        body = modern_body(1, method, params)
        body["params"]["_meta"].update(meta)
        async with http.post(url, json=body, headers=modern_headers(body)) as response:
            return await messages(response)


async def called(
    gateway: GatewayProcess, era: str, tool: str, arguments: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The answer to a call."""
    params = {"name": tool, "arguments": arguments or {}}
    return (await asked(gateway, era, "tools/call", params))[-1]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_wide_requests_are_refused(gateway: GatewayProcess, era: str) -> None:
    params = {"name": "wide__good", "arguments": {}}
    (answer,) = await asked(gateway, era, "tools/call", {**params, **MANY})
    assert f"more than {MOST_MEMBERS:,} members" in answer["error"]["message"]
    (answer,) = await asked(gateway, era, "tools/call", params, **MANY)
    assert answer["error"]["code"] == -32602
    assert "result" in await called(gateway, era, "wide__good", MANY), "arguments are not opened"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_wide_results_pass_as_they_came(gateway: GatewayProcess, era: str) -> None:
    for name, sent in RESULTS.items():
        came = (await called(gateway, era, f"wide__{name}"))["result"]
        came.pop("resultType", None)
        meta = came.get("_meta", {})
        if meta.pop("io.modelcontextprotocol/serverInfo", None) and not meta:
            del came["_meta"]
        assert came == sent, name


async def test_ten_thousand_links_are_named_as_ever(gateway: GatewayProcess) -> None:
    came = (await called(gateway, "modern", "wide__links"))["result"]["content"]
    assert [block["uri"] for block in came] == [f"wide+a:{n}" for n in range(len(LINKS))]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_wide_notifications_are_dropped(gateway: GatewayProcess, era: str) -> None:
    meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}
    params = {"name": "wide__notes", "arguments": {}}
    *notes, answer = await asked(gateway, era, "tools/call", params, **meta)
    assert not notes
    assert answer["result"]["content"] == [BLOCK]


async def test_what_an_api_takes_and_says_is_not_opened(gateway: GatewayProcess) -> None:
    came = (await called(gateway, "legacy", "api__exact"))["result"]
    assert came["content"][0]["text"] == EXACT.decode()
    assert came["structuredContent"]["large"] == 12345678901234567890123
    body = {"a": [[]] * 50_000, **MANY}
    came = (await called(gateway, "modern", "api__echo", {"body": body}))["result"]
    assert json.loads(came["content"][0]["text"]) == body == came["structuredContent"]
    came = (await called(gateway, "modern", "api__echo", MANY))["result"]
    assert f"more than {MOST_MEMBERS:,} members" in came["content"][0]["text"]
    for form in ({"a": [1] * 100_000}, [[]] * 100_000):
        came = (await called(gateway, "modern", "api__form", {"body": form}))["result"]
        assert "too many values for a form" in came["content"][0]["text"]


async def test_wide_bodies_over_rest(gateway: GatewayProcess) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with asyncio.timeout(BOUND_S), aiohttp.ClientSession(headers=headers) as http:
        for body in (
            {"query": "a", **MANY},
            {"query": "a", "filter": MANY},
            {"query": [0] * 90_000},
        ):
            async with http.post(f"{gateway.url}/v1/retrieve_tools", json=body) as response:
                problem = await response.json()
            assert response.status == 422
            assert problem["detail"] == "the body has more than 10,000 values"
        tool = f"{gateway.url}/v1/tools/wide__good/call"
        async with http.post(tool, json={"arguments": MANY}) as response:
            assert (await response.json())["result"]["content"] == [BLOCK]
        for body, said in (
            ({"arguments": [1]}, "arguments: expected a JSON object; it is [1]"),
            ({"argument": {}}, "argument: is not known here; known: arguments"),
        ):
            async with http.post(tool, json=body) as response:
                assert (response.status, (await response.json())["detail"]) == (422, said)


async def test_the_log_is_quiet(gateway: GatewayProcess) -> None:
    assert "Traceback" not in gateway.errors()


async def test_a_wide_body_over_rest_is_refused_before_all_of_it_came(
    gateway: GatewayProcess,
) -> None:
    body = json.dumps({"query": "a", **MANY}).encode()
    said = (
        "POST /v1/retrieve_tools HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
    )  # fmt: skip
    async with asyncio.timeout(BOUND_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(gateway.url).port)
        writer.write("\r\n".join(said).encode() + body[: len(body) // 2])
        assert (await reader.readline()).split()[1] == b"422"
        writer.close()
