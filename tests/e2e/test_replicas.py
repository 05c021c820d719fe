"""Two replicas on one Redis: a session is served by either, until its owner dies."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from armory.testing.servers import RedisServer, redis_binary

pytestmark = [pytest.mark.redis, pytest.mark.timeout(180)]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
CALL = {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}}


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    if redis_binary() is None:
        pytest.skip("redis-server is not installed")
    server = RedisServer()
    yield server
    server.kill()


def post(
    url: str, method: str, params: dict[str, Any], session: str | None = None, id: int | None = 1
) -> tuple[int, str | None, Any]:
    """(status, session id, answer) of one legacy POST."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if id is not None:
        message["id"] = id
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if session is not None:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            body = response.read()
            return response.status, response.headers.get("Mcp-Session-Id"), body and answer(body)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None, error.read()


def answer(body: bytes) -> Any:
    if body.lstrip().startswith(b"{"):
        return json.loads(body)
    data = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    return next(m for m in map(json.loads, filter(bytes.strip, data)) if "id" in m)


def test_a_session_is_served_by_either_replica_until_its_owner_dies(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], redis: RedisServer
) -> None:
    config = {
        "upstreams": {"time": demo_upstreams["time"]},
        "storage": {"redis": redis.url},
    }
    owner = serve(config).ready()
    other = serve(config).ready()
    status, session, _ = post(owner.url, "initialize", HELLO)
    assert (status, session is not None) == (200, True)
    assert post(other.url, "notifications/initialized", {}, session, None)[0] == 202
    for served in (owner, other):
        status, _, reply = post(served.url, "tools/call", CALL, session)
        assert status == 200
        assert reply["result"].get("isError") is not True, reply
    assert post(other.url, "tools/list", {}, "no-such-session")[0] == 404

    owner.kill()
    assert post(other.url, "tools/list", {}, session)[0] == 404
    status, anew, _ = post(other.url, "initialize", HELLO)
    assert status == 200
    assert post(other.url, "tools/list", {}, anew)[0] == 200
