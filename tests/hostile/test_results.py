"""Results that no parser likes: nested without end, with halves of characters.

Bounded: nothing is waited for and nobody else is touched; each such result is one error, or a
result that every client can read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.processes import GatewayProcess
from tests.threaded import Answering, served

pytestmark = pytest.mark.anyio
BOUND_S = 40.0
"""Less than the minute after which a call that is not answered fails."""
LEVELS = (1_000_000,) if sys.version_info >= (3, 12) else (1_500, 1_000_000)
"""What no parser of this Python reads; later versions read more, and what can be read passes."""
OBJECTS = {levels: '{"x":' * levels + "1" + "}" * levels for levels in LEVELS}
ARRAYS = {levels: "[" * levels + "]" * levels for levels in LEVELS}
NESTED = ("objects", "arrays", "meta", "error")
RESULTS = {
    "good": '{"content":[{"type":"text","text":"fine"}]}',
    **{f"objects{n}": f'{{"content":[],"structuredContent":{OBJECTS[n]}}}' for n in LEVELS},
    **{f"arrays{n}": f'{{"content":[],"structuredContent":{{"a":{ARRAYS[n]}}}}}' for n in LEVELS},
    **{f"meta{n}": f'{{"content":[],"_meta":{{"a.b/c":{OBJECTS[n]}}}}}' for n in LEVELS},
    "escaped": r'{"content":[{"type":"text","text":"a\ud800b\udfffc"}],'
    r'"structuredContent":{"k\udc00":"\ud83d"}}',
    "lines": '{\n "content": [\r\n  {"type": "text",\n   "text": "fine"}\r ]\n}',
    "pair": r'{"content":[{"type":"text","text":"\ud83d\ude00"}]}',
}
SURROGATE_BYTES = b'{"content":[{"type":"text","text":"a\xed\xa0\x80b"}]}'
ERRORS = {
    **{f"error{n}": f'{{"code":-1,"message":"no","data":{OBJECTS[n]}}}' for n in LEVELS},
    "message": r'{"code":-1,"message":"n\ud800o"}',
}
NAMES = (*RESULTS, "bytes", *ERRORS)
SERVER = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from tests.hostile.test_results import answered
for line in sys.stdin.buffer:
    said = answered(line)
    if said is not None:
        sys.stdout.buffer.write(said + b"\\n")
        sys.stdout.buffer.flush()
"""


def answered(data: bytes) -> bytes | None:
    """What the upstream says to a message; None: nothing."""
    asked = json.loads(data)
    if "id" not in asked or "method" not in asked:
        return None
    method, name = asked["method"], asked.get("params", {}).get("name", "")
    begin = b'{"jsonrpc":"2.0","id":%s,' % json.dumps(asked["id"]).encode()
    if method == "tools/call" and name in ERRORS:
        return begin + b'"error":' + ERRORS[name].encode() + b"}"
    if method == "tools/call":
        found = SURROGATE_BYTES if name == "bytes" else RESULTS[name].encode()
    elif method == "initialize":
        found = (
            b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
            b'"serverInfo":{"name":"x","version":"1"}}'
        )
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
        found = json.dumps({"tools": tools}).encode()
    else:
        return begin + b'"error":{"code":-32601,"message":"no"}}'
    return begin + b'"result":' + found + b"}"


class Handler(Answering):
    """The upstream over HTTP: JSON at /json, events at /events."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        said = answered(self.rfile.read(int(self.headers["Content-Length"])))
        if said is None:
            self.say(status=202)
        elif self.path == "/json":
            self.say(said, "application/json")
        else:
            lines = b"\ndata: ".join(said.splitlines())
            self.say(b"data: " + lines + b"\n\n", "text/event-stream")

    def do_GET(self) -> None:
        self.say(status=405)

    do_DELETE = do_GET


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    paths = json.dumps([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    with served(Handler) as url:
        config = {
            "upstreams": {
                "stdio": {"command": sys.executable, "args": ["-c", SERVER, paths]},
                "json": {"url": f"{url}/json", "transport": "streamable-http"},
                "events": {"url": f"{url}/events", "transport": "streamable-http"},
            },
            "tool_rag": {"enabled": False},
        }
        with GatewayProcess(config, tmp_path_factory.mktemp("gateway")) as running:
            assert isinstance(running, GatewayProcess)
            yield running


async def called(gateway: GatewayProcess, era: str, tool: str) -> Any:
    """The answer to a call, which has to be JSON of whole characters."""
    params = {"name": tool, "arguments": {}}
    url = f"{gateway.url}/mcp"
    async with asyncio.timeout(BOUND_S), aiohttp.ClientSession() as http:
        if era == "legacy":
            client = LegacyClient(url, http, "2025-06-18")
            await client.initialize({})
            answer = await client.request("tools/call", params)
        else:
            body = modern_body(1, "tools/call", params)
            async with http.post(url, json=body, headers=modern_headers(body)) as response:
                answer = (await messages(response))[-1]
    json.dumps(answer, ensure_ascii=False).encode()  # fails where half a character is left
    return answer


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("server", ["stdio", "json", "events"])
async def test_results_that_are_nested_too_deep(
    gateway: GatewayProcess, server: str, era: str
) -> None:
    for levels, kind in itertools.product(LEVELS, NESTED):
        answer = await called(gateway, era, f"{server}__{kind}{levels}")
        assert "nested deeper than 512 levels" in answer["error"]["message"], (kind, levels)
    assert (await called(gateway, era, f"{server}__good"))["result"]["content"][0]["text"] == "fine"


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("server", ["stdio", "json", "events"])
async def test_halves_of_characters(gateway: GatewayProcess, server: str, era: str) -> None:
    texts = {}
    for name in ("escaped", "bytes", "pair"):
        answer = await called(gateway, era, f"{server}__{name}")
        texts[name] = answer["result"]["content"][0]["text"]
    assert texts["escaped"] == "a\ufffdb\ufffdc"
    assert texts["bytes"].replace("\ufffd", "") == "ab"
    assert texts["pair"] == "\N{GRINNING FACE}", "a whole one stays"
    error = (await called(gateway, era, f"{server}__message"))["error"]
    assert error["message"] == "n\ufffdo"


@pytest.mark.parametrize("server", ["json", "events"])
async def test_results_of_many_lines_end_no_event(gateway: GatewayProcess, server: str) -> None:
    body = modern_body(1, "tools/call", {"name": f"{server}__lines", "arguments": {}})
    headers = {**modern_headers(body), "Accept": "text/event-stream"}
    async with (
        asyncio.timeout(BOUND_S),
        aiohttp.ClientSession() as http,
        http.post(f"{gateway.url}/mcp", json=body, headers=headers) as response,
    ):
        answer = (await messages(response))[-1]
    assert answer["result"]["content"][0]["text"] == "fine"


async def test_the_log_is_quiet(gateway: GatewayProcess) -> None:
    assert "Traceback" not in gateway.errors()
