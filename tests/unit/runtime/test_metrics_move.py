"""Each figure of `/metrics` moves with what it counts, all the way from a client or an upstream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from armory.config import load_file
from armory.runtime import open_runtime
from armory.runtime.running import Runtime
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Json
from armory.testing.upstreams.tools import TOOLS, text
from armory.testing.waiting import eventually, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ROWS = [{"name": f"a row of many {n}", "size": n, "kind": "file"} for n in range(40)]
CONNECTIONS = 24


class Bench:
    """A gateway, its upstream, and what `/metrics` says."""

    def __init__(self, runtime: Runtime, upstream: HttpUpstream, http: aiohttp.ClientSession):
        assert runtime.listening is not None
        self.runtime, self.upstream, self.http = runtime, upstream, http
        self.base, self.port = runtime.listening.url, runtime.listening.port

    async def metric(self, name: str, **labels: str) -> float:
        """The value of a sample; 0 where there is none."""
        async with self.http.get(f"{self.base}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"armory_{name}" and labels.items() <= sample.labels.items()
        )

    async def until(self, name: str, right: Callable[[float], bool], **labels: str) -> None:
        """Wait for a sample to be right."""

        async def found() -> bool:
            return right(await self.metric(name, **labels))

        await eventually(found)

    async def call(self, tool: str, **more: Any) -> dict[str, Any]:
        """The answer to a call of a modern client, with capabilities or headers."""
        headers = more.pop("headers", {})
        body = modern_body(1, "tools/call", {"name": f"up__{tool}", "arguments": {}}, **more)
        asked = self.http.post(
            f"{self.base}/mcp", json=body, headers=modern_headers(body) | headers
        )
        async with asked as answer:
            return (await messages(answer))[-1]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    async def rows(_script: Any, _request: Any) -> Json:
        return text(json.dumps(ROWS))

    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(TOOLS, "echo", rows)
    file = tmp_path / "armory.yaml"
    async with HttpUpstream(eras="legacy") as upstream, aiohttp.ClientSession() as http:
        up = {"url": upstream.url, "max_concurrency": 1}
        config = {
            "server": {"limits": {"connections": CONNECTIONS}},
            "upstreams": {"up": up},
            "tool_rag": {"embedding_model": "none"},
            "observability": {"audit": {"to": str(tmp_path / "audit" / "audit.jsonl")}},
        }
        file.write_text(yaml.safe_dump(config))
        async with open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime:
            await runtime.ready()
            yield Bench(runtime, upstream, http)


async def test_calls_that_wait_and_sessions_with_upstreams(bench: Bench) -> None:
    assert await bench.metric("upstream_sessions", server="up") >= 1
    assert await bench.metric("upstream_calls_queued", server="up") == 0
    calls = [asyncio.ensure_future(bench.call("wait")) for _ in range(3)]
    await bench.until("upstream_calls_queued", lambda n: n == 2, server="up")
    assert await bench.metric("upstream_calls_in_flight", server="up") == 1
    bench.upstream.script.release.set()
    await asyncio.gather(*calls)
    assert await bench.metric("upstream_calls_queued", server="up") == 0


async def test_tokens_that_toon_saves(bench: Bench) -> None:
    await bench.call("echo")
    assert await bench.metric("toon_tokens_saved_total", origin="up") == 0
    await bench.call("echo", headers={"X-Prefer-Format": "toon"})
    saved = await bench.metric("toon_tokens_saved_total", origin="up")
    assert 0 < saved < len(json.dumps(ROWS)) / 4


async def test_records_of_the_audit(bench: Bench, tmp_path: Path) -> None:
    await bench.call("who")
    await bench.until("audit_records_total", lambda n: n >= 1)
    assert await bench.metric("audit_failing") == await bench.metric("audit_waiting") == 0
    folder = tmp_path / "audit"
    folder.rename(tmp_path / "moved")
    folder.write_text("in the way")
    written = await bench.metric("audit_records_total")
    await bench.call("who")
    await bench.until("audit_failing", lambda n: n == 1)
    assert await bench.metric("audit_waiting") >= 1
    folder.unlink()
    await bench.until("audit_records_total", lambda n: n > written)
    await bench.until("audit_waiting", lambda n: n == 0)
    assert await bench.metric("audit_failing") == 0


async def test_sessions_streams_and_parked_calls_of_clients(bench: Bench) -> None:
    client = LegacyClient(f"{bench.base}/mcp", bench.http, "2025-06-18")
    await client.initialize({})
    assert await bench.metric("client_sessions") == 1
    assert await bench.metric("client_streams") == 0
    headers = {**client.headers, "Accept": "text/event-stream"}
    async with bench.http.get(client.url, headers=headers) as stream:
        assert stream.status == 200
        assert await bench.metric("client_streams") == 1
    await bench.until("client_streams", lambda n: n == 0)
    asked = await bench.call("elicit", capabilities={"elicitation": {"form": {}}})
    assert asked["result"]["resultType"] == "input_required"
    assert await bench.metric("client_parked") == 1
    async with bench.http.delete(client.url, headers=client.headers) as ended:
        assert ended.status < 300
    assert await bench.metric("client_sessions") == 0


async def test_what_upstreams_say_to_nobody(bench: Bench) -> None:
    note = {"level": "info", "data": "for nobody"}
    assert await bench.metric("upstream_notifications_dropped_total", server="up") == 0
    await until(lambda: bool(bench.upstream.gets))
    await bench.upstream.announce("notifications/message", note)
    await bench.until("upstream_notifications_dropped_total", lambda n: n == 1, server="up")


async def test_connections_that_make_room(bench: Bench) -> None:
    assert await bench.metric("connections_cut_total") == 0
    async with AsyncExitStack() as held:
        for _ in range(CONNECTIONS + 4):
            _, writer = await asyncio.open_connection("127.0.0.1", bench.port)
            held.callback(writer.close)
        await bench.until("connections_cut_total", lambda n: n >= 1, reason="evicted")
