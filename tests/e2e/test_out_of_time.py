"""Calls that are under way when a gateway ends: they have their time, then they are answered."""

from __future__ import annotations

import http.client
import json
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.servers import RedisServer
from armory.testing.waiting import wait_until
from tests.e2e.test_ending import metrics
from tests.e2e.test_replicas import HELLO, post

pytestmark = pytest.mark.timeout(180)
WITHIN_S = 30.0
BOTH = "application/json, text/event-stream"
UPSTREAM = {
    "command": sys.executable,
    "args": ["-m", "armory.testing.upstreams.stdio", "--era", "legacy"],
    "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
}


def begun(
    gateway: Any, body: Any, headers: dict[str, str], path: str = "/mcp"
) -> http.client.HTTPConnection:
    """A connection on which a call is under way."""
    connection = http.client.HTTPConnection(urlsplit(gateway.base).netloc, timeout=WITHIN_S)
    sent = {"Content-Type": "application/json", "Accept": BOTH, **headers}
    connection.request("POST", path, json.dumps(body), sent)
    return connection


def under_way(gateway: Any) -> bool:
    return 'armory_upstream_calls_in_flight{server="up"} 1.0' in metrics(gateway.base)


def configured(**more: Any) -> dict[str, Any]:
    return {
        "server": {"drain_timeout_s": 1},
        "tool_rag": {"enabled": False},
        "upstreams": {"up": UPSTREAM},
        **more,
    }


def in_session(url: str, tool: str, **capabilities: Any) -> tuple[Any, dict[str, str]]:
    """A call in a session that begins at `url`: its body and headers."""
    _, session, _ = post(url, "initialize", {**HELLO, "capabilities": capabilities})
    assert session is not None
    params = {"name": f"up__{tool}", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    return body, {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.parametrize("how", ["modern", "legacy", "legacy, on a stream"])
def test_a_call_that_takes_longer_than_there_is_time_is_answered(
    serve: Callable[..., Any], how: str
) -> None:
    """A connection that is cut ends more than the call in many a client."""
    gateway = serve(configured()).ready()
    if how == "modern":
        body: Any = modern_body(7, "tools/call", {"name": "up__hang", "arguments": {}})
        headers = modern_headers(body)
    elif how == "legacy":
        body, headers = in_session(gateway.url, "hang")
    else:  # which begins with a question that nobody answers
        body, headers = in_session(gateway.url, "elicit", elicitation={})
    connection = begun(gateway, body, headers)
    wait_until(lambda: under_way(gateway), gateway.log, WITHIN_S)
    gateway.process.send_signal(signal.SIGTERM)
    told = answer_of(connection)
    assert told["id"] == 7
    assert told["error"]["code"] == 1004
    assert "server.drain_timeout_s" in told["error"]["message"]
    assert gateway.stop() == 0


def test_commands_are_told_of_a_gateway_that_still_ends(
    serve: Callable[..., Any], armory: Callable[..., Any]
) -> None:
    gateway = serve(configured(server={"drain_timeout_s": 600})).ready()
    body = modern_body(7, "tools/call", {"name": "up__hang", "arguments": {}})
    connection = begun(gateway, body, modern_headers(body))
    wait_until(lambda: under_way(gateway), gateway.log, WITHIN_S)
    gateway.process.send_signal(signal.SIGTERM)
    told = f"the gateway here is ending (pid {gateway.process.pid})"
    wait_until(lambda: told in armory("status").stderr, gateway.log, WITHIN_S)
    connection.close()
    gateway.process.wait(WITHIN_S)
    assert "no gateway runs here" in armory("status").stderr


BATCHES = "2025-03-26"


def test_so_is_each_call_of_a_batch(serve: Callable[..., Any]) -> None:
    """Also those that had no turn yet, beside what was answered and what nobody can answer."""
    gateway = serve(configured()).ready()
    _, session, _ = post(gateway.url, "initialize", {**HELLO, "protocolVersion": BATCHES})
    hang = {"method": "tools/call", "params": {"name": "up__hang", "arguments": {}}}
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        *({"jsonrpc": "2.0", "id": id, **hang} for id in range(2, 32)),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 32},
    ]
    connection = begun(gateway, batch, {"Mcp-Session-Id": session or ""})
    wait_until(lambda: "in_flight" in under_way_of(gateway, 16), gateway.log, WITHIN_S)
    gateway.process.send_signal(signal.SIGTERM)
    told = answer_of(connection)
    assert [answer["id"] for answer in told] == [*range(1, 33)]
    codes = [answer.get("error", {}).get("code") for answer in told]
    assert codes == [None, *[1004] * 30, -32600]
    assert gateway.stop() == 0


def under_way_of(gateway: Any, count: int) -> str:
    """The line of metrics that says that so many calls are under way; empty: they are not."""
    line = f'armory_upstream_calls_in_flight{{server="up"}} {count}.0'
    return line if line in metrics(gateway.base) else ""


def test_so_is_one_over_rest(serve: Callable[..., Any]) -> None:
    audited = {"observability": {"audit": {"to": "database"}}}
    gateway = serve(configured(**audited)).ready()
    connection = begun(gateway, {"arguments": {}}, {}, "/v1/tools/up__hang/call")
    wait_until(lambda: under_way(gateway), gateway.log, WITHIN_S)
    gateway.process.send_signal(signal.SIGTERM)
    with closing(connection):
        answer = connection.getresponse()
        told = json.load(answer)
    assert (answer.status, told["code"], answer.headers["Retry-After"]) == (503, "backend", "1")
    assert "server.drain_timeout_s" in told["detail"]
    assert gateway.stop() == 0
    file = gateway.home / "armory.db"
    with closing(sqlite3.connect(file)) as database:
        records = [json.loads(row[0]) for row in database.execute("SELECT record FROM audit")]
    assert [r["outcome"] for r in records if r.get("tool") == "up__hang"] == ["error"]


def answer_of(connection: http.client.HTTPConnection) -> Any:
    """The last message of the answer."""
    with closing(connection):
        read = connection.getresponse().read()
    if read.lstrip()[:1] in (b"{", b"["):
        return json.loads(read)
    data = [line[5:] for line in read.splitlines() if line.startswith(b"data:")]
    return [json.loads(line) for line in data if line.strip()][-1]


@pytest.mark.redis
def test_so_is_one_that_was_passed_on(serve: Callable[..., Any], redis: RedisServer) -> None:
    config = configured(storage={"redis": redis.url})
    owner, ending = serve(config).ready(), serve(config).ready()
    connection = begun(ending, *in_session(owner.url, "hang"))
    wait_until(lambda: under_way(owner), owner.log, WITHIN_S)
    ending.process.send_signal(signal.SIGTERM)
    told = answer_of(connection)
    assert told["error"]["code"] == 1004
    assert "server.drain_timeout_s" in told["error"]["message"]
    assert ending.stop() == 0


SLOW = """
import time
from mcp.server.mcpserver import MCPServer
server = MCPServer("slow", version="1")
@server.tool()
def wait(seconds: float) -> str:
    "Waits."
    time.sleep(seconds)
    return "waited"
server.run("stdio")
"""


def test_a_call_of_a_client_with_http_and_sse_has_its_time(serve: Callable[..., Any]) -> None:
    """Its answer comes on the stream, which is open for as long."""
    slow = {"command": sys.executable, "args": ["-c", SLOW]}
    config = configured(upstreams={"up": slow}, server={"drain_timeout_s": 20})
    gateway = serve(config).ready()
    params = {"name": "up__wait", "arguments": {"seconds": 3}}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    said = told_on_a_stream(gateway, call)
    assert [message["result"]["content"][0]["text"] for message in said] == ["waited"]
    assert gateway.stop() == 0


@pytest.mark.parametrize("batch", [False, True])
def test_a_call_of_such_a_client_that_takes_longer_is_answered(
    serve: Callable[..., Any], batch: bool
) -> None:
    gateway = serve(configured()).ready()
    params = {"name": "up__hang", "arguments": {}}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    said = told_on_a_stream(gateway, [call] if batch else call)
    [told] = said[0] if batch else said
    assert (told["id"], told["error"]["code"]) == (7, 1004)
    assert gateway.stop() == 0


def told_on_a_stream(gateway: Any, call: Any) -> list[Any]:
    """What a client with HTTP and SSE is told from its call to its stream's end: the gateway is
    told to end once the call is under way.
    """
    connection = http.client.HTTPConnection(urlsplit(gateway.base).netloc, timeout=WITHIN_S)
    hello = {**HELLO, "protocolVersion": BATCHES}
    with closing(connection):
        connection.request("GET", "/sse", headers={"Accept": "text/event-stream"})
        stream = connection.getresponse()
        place = next(line for line in stream if line.startswith(b"data: "))[6:].decode().strip()
        for body in (
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            call,
        ):
            posted = begun(gateway, body, {}, place)
            with closing(posted):
                assert posted.getresponse().status == 202
        wait_until(lambda: under_way(gateway), gateway.log, WITHIN_S)
        gateway.process.send_signal(signal.SIGTERM)
        said = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
    return said[1:]
