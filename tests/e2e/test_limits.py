"""Every limit of `server.limits` at its boundary, over a gateway that runs: what is just allowed is
served, one more is refused with what to raise.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from armory.testing.waiting import wait_until

pytestmark = pytest.mark.timeout(400)
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LIMITS = {
    "body_bytes": 2_000,
    "header_bytes": 3_000,
    "json_depth": 12,
    "list_entries": 2,
    "sessions": 3,
    "streams": 1,
}
ONE_MORE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "tools/list":
        result = {"tools": [{"name": str(n), "inputSchema": {"type": "object"}} for n in range(N)]}
    elif message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class Wire:
    """HTTP by hand: no library may refuse a request before the gateway does."""

    def __init__(self, base: str) -> None:
        self.host = urllib.parse.urlsplit(base).netloc

    def ask(
        self, method: str, path: str, body: bytes | None = None, /, **headers: str
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        base = {"Content-Type": "application/json", "Connection": "close"}
        base["Accept"] = "application/json, text/event-stream"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**base, **named})
        answer = connection.getresponse()
        if answer.headers.get("Content-Type") == "text/event-stream":
            return answer.status, None, answer  # an open stream
        content = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(content), answer
        except ValueError:
            return answer.status, content.decode(), answer

    def post(self, message: Any, /, **headers: str) -> tuple[int, Any]:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.ask("POST", "/mcp", body, **headers)[:2]

    def open(self) -> str:
        status, said, answer = self.ask("POST", "/mcp", json.dumps(HELLO).encode())
        assert status == 200, said
        return answer.headers["Mcp-Session-Id"]


def ping(**params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params}


def nested(levels: int) -> bytes:
    inner = levels - 2  # the message and its params are two
    return json.dumps(ping()).encode().replace(b"{}", b'{"a":' + b"[" * inner + b"]" * inner + b"}")


def test_each_limit_at_its_boundary(serve: Callable[..., Any]) -> None:
    def upstream(count: int) -> dict[str, Any]:
        program = ONE_MORE.replace("N)", f"{count})")
        return {"command": sys.executable, "args": ["-c", program], "protocol": "2025-11-25"}

    config = {
        "server": {"limits": LIMITS},
        "upstreams": {"few": upstream(2), "many": upstream(3)},
        "tool_rag": {"enabled": False},
    }
    served = serve(config).ready()
    wire = Wire(served.base)

    # lists: the upstream with one tool too many is down, its neighbour is not
    _, metrics, _ = wire.ask("GET", "/metrics")
    assert 'armory_upstream_up{server="few"} 1.0' in metrics
    assert 'armory_upstream_up{server="many"} 0.0' in metrics
    down = next(line for line in served.log if "server.limits.list_entries" in line)
    assert "many" in down

    # sessions
    session, *_ = [wire.open() for _ in range(3)]
    status, said = wire.post(HELLO)
    assert status == 503
    assert "server.limits.sessions" in said["error"]["message"]

    mine = {"Mcp_Session_Id": session, "MCP_Protocol_Version": "2025-11-25"}
    # streams
    status, _, stream = wire.ask("GET", "/mcp", **mine)
    assert status == 200
    status, said, _ = wire.ask("GET", "/mcp", **mine)
    assert status == 503
    assert "streams" in said["error"]["message"]

    # nesting
    assert wire.post(nested(12), **mine)[0] == 200
    status, said = wire.post(nested(13), **mine)
    assert status == 400
    assert "server.limits.json_depth" in said["error"]["message"]

    # body
    room = 2_000 - len(json.dumps(ping(a="")))
    assert wire.post(ping(a="x" * room), **mine)[0] == 200
    status, said = wire.post(ping(a="x" * (room + 1)), **mine)
    assert status == 413
    assert "server.limits.body_bytes" in said["error"]["message"]

    # headers and the request line
    assert wire.post(ping(), **mine, X_Long="x" * 2_900)[0] == 200
    assert wire.post(ping(), **mine, X_Long="x" * 3_100)[0] == 400
    assert wire.ask("GET", f"/readyz?x={'y' * 2_900}")[0] == 200
    assert wire.ask("GET", f"/readyz?x={'y' * 3_100}")[0] == 400
    stream.close()


def test_an_idle_session_makes_room_for_the_next(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    config = {
        "server": {"limits": {"sessions": 1, "session_idle_s": 0.5}},
        "upstreams": {"notes": demo_upstreams["notes"]},
    }
    wire = Wire(serve(config).ready().base)
    first = wire.open()
    wait_until(lambda: wire.post(HELLO)[0] != 503, "the idle session was not ended")
    assert wire.post(ping(), Mcp_Session_Id=first)[0] == 404


def test_a_query_of_8000_characters_fits_into_a_header_and_a_url(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any]
) -> None:
    wire = Wire(serve({"upstreams": {"notes": demo_upstreams["notes"]}}).ready().base)
    listing = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": {
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            }
        },
    }
    query = urllib.parse.quote("メモ" * 4_000)
    modern = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/list"}
    status, said = wire.post(listing, **modern, X_Armory_Query=query)
    assert status == 200
    assert "dev.armory/selection" in said["result"]["_meta"]
    body = json.dumps(listing).encode()
    status, said, _ = wire.ask("POST", f"/mcp?query={query}", body, **modern)
    assert status == 200
    assert "dev.armory/selection" in said["result"]["_meta"]
