"""Two gateways on one Redis and one PostgreSQL: what one changes, the other knows."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from armory.testing.servers import PostgresServer, RedisServer

ROOT = "the-root-token-of-this-test"
QUERY: Any = {"dev.armory/query": "what time is it in Tokyo?"}


def ask(method: str, url: str, token: str, body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, method=method)
    request.add_header("Authorization", f"Bearer {token}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


SOON_S = 4.0
"""A replica hears of a change well within a second, on a machine with other work as well; caches
forget by themselves after more."""


def within(seconds: float, what: Callable[[], bool]) -> float:
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, "took too long"
        time.sleep(0.02)
    return time.monotonic() - started


def settings(upstreams: dict[str, Any], storage: dict[str, Any]) -> dict[str, Any]:
    return {
        "upstreams": upstreams,
        "accounts": {"enabled": True},
        "storage": storage,
        "security": {
            "api_keys": True,
            "allow_anonymous": False,
            "tokens": {"root": {"token": ROOT, "scopes": ["admin"]}},
        },
    }


def retrieved(base: str, key: str) -> set[str]:
    status, body = ask("GET", f"{base}/v2/retrieve_tools?query=time", key)
    assert status == 200, body
    return {entry["name"] for entry in body["tools"]}


def status_of(base: str, key: str) -> int:
    return ask("GET", f"{base}/v1/catalog", key)[0]


@pytest.mark.redis
@pytest.mark.postgres
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_replicas_agree_also_without_redis(
    serve: Callable[..., Any],
    demo_upstreams: dict[str, Any],
    postgres_server: PostgresServer,
    redis: RedisServer,
) -> None:
    storage = {"url": postgres_server.create_database(), "redis": redis.url}
    one = serve(settings(demo_upstreams, storage)).searchable()
    two = serve(settings(demo_upstreams, storage)).searchable()
    keys = f"{one.base}/v1/keys"
    made = ask("POST", f"{one.base}/v1/users", ROOT, {"id": "ann"})
    assert made[0] == 201, made
    status, key = ask("POST", keys, ROOT, {"name": "a", "user": "ann"})
    assert status == 201
    text = key["key"]
    assert retrieved(two.base, text) == set()
    pack = {"title": "Clock", "id": "clock", "shared": True, "servers": ["time"]}
    assert ask("POST", f"{two.base}/v1/packs", ROOT, pack)[0] == 201
    assert ask("POST", f"{one.base}/v2/track_installation", text, {"pack_id": "clock"})[0] == 200
    time_tools = {"time__get_current_time", "time__convert_time"}
    within(SOON_S, lambda: retrieved(two.base, text) == time_tools)

    # every surface agrees, on both
    for served in (one, two):
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {text}"})
        transport = streamable_http_client(served.url, http_client=http)
        async with http, Client(transport) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed - {"search_tools", "call_tool"} == time_tools
            wanted = {tool.name for tool in (await client.list_tools(meta=QUERY)).tools}
            assert "time__get_current_time" in wanted
            assert not {name for name in wanted if name.startswith("notes__")}
            found = await client.call_tool("search_tools", {"query": "list my notes"})
            assert found.structured_content is not None
            names = {entry["name"] for entry in found.structured_content["tools"]}
            assert names <= time_tools
            answer = await client.call_tool("time__get_current_time", {"timezone": "Asia/Tokyo"})
            assert not answer.is_error
            with pytest.raises(Exception, match="unknown tool"):
                await client.call_tool("notes__list_notes", {})

    # a pack disabled on one disappears from the other
    off = f"{one.base}/v1/installations/pack/clock"
    assert ask("PUT", off, text, {"is_active": False})[0] == 200
    within(SOON_S, lambda: retrieved(two.base, text) == set())
    assert ask("PUT", off, text, {"is_active": True})[0] == 200
    within(SOON_S, lambda: retrieved(two.base, text) == time_tools)

    # statistics add up
    def uses() -> int:
        rows = ask("GET", f"{two.base}/v1/usage", text)[1]["tools"]
        return sum(row["uses"] for row in rows)

    within(30.0, lambda: uses() == 2)

    # a key revoked on one is refused by the other
    assert status_of(two.base, text) == 200
    assert ask("DELETE", f"{keys}/{key['id']}", ROOT)[0] == 204
    within(SOON_S, lambda: status_of(two.base, text) == 401)

    # Redis away: slower, never wrong
    _, second = ask("POST", keys, ROOT, {"name": "b", "user": "ann"})
    assert status_of(two.base, second["key"]) == 200
    redis.kill()
    assert status_of(two.base, second["key"]) == 200
    assert ask("DELETE", f"{keys}/{second['id']}", ROOT)[0] == 204
    within(SOON_S, lambda: status_of(two.base, second["key"]) == 401)
    redis.start()
    assert status_of(two.base, second["key"]) == 401

    # PostgreSQL restarted: an error while it is away, and everything is there again
    _, third = ask("POST", keys, ROOT, {"name": "c", "user": "ann"})
    postgres_server.stop()
    assert status_of(two.base, "acx_" + "x" * 43) in {401, 503}
    postgres_server.start()
    within(10.0, lambda: status_of(two.base, third["key"]) == 200)
    assert one.stop() == 0
    assert two.stop() == 0


@pytest.mark.anyio
@pytest.mark.timeout(120)
async def test_a_user_from_the_environment_is_scoped_on_stdio(
    demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    import os
    import subprocess
    import sys

    import yaml
    from mcp import StdioServerParameters

    config = tmp_path / "armory.yaml"
    config.write_text(yaml.safe_dump({"upstreams": demo_upstreams, "accounts": {"enabled": True}}))
    environ = {**os.environ, "ARMORY_HOME": str(tmp_path / "home"), "ARMORY_CONFIG": str(config)}
    armory = [sys.executable, "-m", "armory.cli.main"]
    install = [*armory, "packs", "install", "time", "--kind", "server", "--user", "ann"]
    subprocess.run(install, env=environ, check=True, capture_output=True)  # noqa: ASYNC221
    for extra, scoped in (({"AGENT_COREX_USER_ID": "ann"}, True), ({}, False)):
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "armory.cli.main", "serve", "--stdio"],
            env={**environ, **extra},
        )
        async with Client(server) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert "time__get_current_time" in listed
            assert any(name.startswith("notes__") for name in listed) is not scoped


@pytest.mark.anyio
@pytest.mark.timeout(120)
async def test_a_plan_that_is_used_up_refuses_queries_over_mcp_and_lets_calls_through(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    config = settings(demo_upstreams, {"url": f"sqlite:///{tmp_path / 'armory.db'}"})
    config["accounts"]["plans"] = {"free": {"queries_limit": 2}}
    served = serve(config).searchable()
    ask("POST", f"{served.base}/v1/users", ROOT, {"id": "ann"})
    _, key = ask("POST", f"{served.base}/v1/keys", ROOT, {"name": "a", "user": "ann"})
    install = f"{served.base}/v2/track_installation"
    assert ask("POST", install, key["key"], {"server": "time"})[0] == 200
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key['key']}"})
    transport = streamable_http_client(served.url, http_client=http)
    async with http, Client(transport) as client:
        assert (await client.list_tools(meta=QUERY)).tools
        found = await client.call_tool("search_tools", {"query": "time"})
        assert not found.is_error
        refused = await client.call_tool("search_tools", {"query": "time"})
        assert refused.is_error
        assert refused.meta is not None
        assert refused.meta["dev.armory/error"]["code"] == "rate_limited"
        with pytest.raises(MCPError) as limited:
            await client.list_tools(meta=QUERY)
        assert limited.value.error.code == 1003
        answer = await client.call_tool("time__get_current_time", {"timezone": "Asia/Tokyo"})
        assert not answer.is_error
    assert ask("GET", f"{served.base}/retrieve_tools?query=x", key["key"])[0] == 429


@pytest.mark.timeout(120)
def test_an_open_stream_ends_with_its_key(serve: Callable[..., Any], tmp_path: Path) -> None:
    served = serve(settings({}, {"url": f"sqlite:///{tmp_path / 'armory.db'}"})).ready()
    keys = f"{served.base}/v1/keys"
    _, key = ask("POST", keys, ROOT, {"name": "a"})

    def request(method: str, session: str | None = None, body: Any = None) -> Any:
        made = urllib.request.Request(served.url, method=method)
        made.add_header("Authorization", f"Bearer {key['key']}")
        made.add_header("Accept", "application/json, text/event-stream")
        if session is not None:
            made.add_header("Mcp-Session-Id", session)
            made.add_header("MCP-Protocol-Version", "2025-06-18")
        if body is not None:
            made.data = json.dumps(body).encode()
            made.add_header("Content-Type", "application/json")
        return urllib.request.urlopen(made, timeout=20)

    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with request("POST", body=hello) as answer:
        session = answer.headers["Mcp-Session-Id"]
        answer.read()
    with request("GET", session) as stream:
        assert stream.status == 200
        assert ask("DELETE", f"{keys}/{key['id']}", ROOT)[0] == 204
        started = time.monotonic()
        stream.read()  # to its end
        assert time.monotonic() - started < 12  # before its next sign of life
