"""A trace from a Python client through the gateway to both kinds of upstream, as a collector sees
it.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import mcp.shared._otel
import pytest
import structlog
import yaml
from mcp import Client
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from armory.config import load_text
from armory.observability.logging import configure_logging
from armory.observability.settings import LogSettings
from armory.runtime import open_runtime
from armory.telemetry import conventions as c
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.collector import CollectedSpan, Collector
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.tools import TOOLS
from armory.testing.waiting import until
from tests.e2e.owed_attributes import REST_ATTRIBUTES, owed

pytestmark = pytest.mark.anyio
MODES = ["2026-07-28", "legacy"]
REAL = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
from armory.demo.__main__ import main
main()
"""
"""A server on the SDK of Python, which makes spans of its own."""


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    async with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield collector


@asynccontextmanager
async def client_spans(monkeypatch: pytest.MonkeyPatch, url: str) -> AsyncGenerator[None]:
    """The SDK's client sends its spans to the collector, as a program would set it up."""
    provider = TracerProvider(
        resource=Resource.create({"service.name": "client"}), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    monkeypatch.setattr(mcp.shared._otel, "_tracer", provider.get_tracer("client"))  # pyright: ignore[reportPrivateUsage]
    yield
    await asyncio.to_thread(provider.shutdown)


NOTES: dict[str, Any] = {
    "command": sys.executable,
    "args": ["-c", REAL],
    "env": {"OTEL_SERVICE_NAME": "notes"},
    "inherit_env": ["OTEL_*", "PYTHONPATH"],
}


def config(**blocks: Any) -> str:
    return yaml.safe_dump(blocks)


@asynccontextmanager
async def gateway(text: str, home: Path) -> AsyncGenerator[str]:
    loaded = load_text(text, environ={"ARMORY_HOME": str(home)})
    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await runtime.searchable()
        assert runtime.listening is not None
        yield runtime.listening.url + "/mcp"


def one(spans: list[CollectedSpan], kind: str, service: str, name: str) -> CollectedSpan:
    found = [s for s in spans if (s.kind, s.service, s.name) == (kind, service, name)]
    assert len(found) == 1, (kind, service, name, [(s.kind, s.service, s.name) for s in spans])
    return found[0]


async def test_a_trace_joins_client_gateway_and_upstreams(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with HttpUpstream() as upstream:
        async with (
            client_spans(monkeypatch, collector.url),
            gateway(
                config(
                    upstreams={"web": {"url": upstream.url}, "notes": NOTES},
                    tool_rag={"enabled": False},
                ),
                tmp_path,
            ) as url,
        ):
            for mode in MODES:
                async with Client(url, mode=mode) as client:
                    assert not (await client.call_tool("web__who", {})).is_error
                    assert not (await client.call_tool("notes__list_notes", {})).is_error
                    failed = await client.call_tool("web__fail", {})
                    assert failed.is_error
        asked = [m for _, m in upstream.requests if m.get("method") == "tools/call"]
    sent = [m["params"]["_meta"]["traceparent"] for m in asked if m["params"]["name"] == "who"]
    assert len(sent) == 2
    for name, tool in (("web__who", "who"), ("notes__list_notes", "list_notes")):
        roots = [
            s
            for s in collector.spans
            if s.service == "client"
            and s.attributes.get("mcp.method.name") == "tools/call"
            and name in s.name
        ]
        assert len(roots) == len(MODES)
        for root, mode in zip(roots, MODES, strict=True):
            spans = collector.trace(root.trace)
            front = one(spans, "server", "armory", f"tools/call {name}")
            back = one(spans, "client", "armory", f"tools/call {tool}")
            assert (front.parent, back.parent) == (root.id, front.id)
            legacy = {"session"} if mode == "legacy" else set[str]()
            always = {"always", "tool", "id"}
            assert owed(front, always | legacy | {"http", "address"}) == set()
            if name == "web__who":
                assert f"00-{root.trace}-{back.id}-01" in sent
                assert owed(back, always | {"http", "address"}) == set()
                assert back.attributes[c.TRANSPORT] == "tcp"
            else:
                below = [s for s in spans if s.service == "notes" and s.parent == back.id]
                assert [s.kind for s in below] == ["server"]
                assert owed(back, always) == set()
                assert back.attributes[c.TRANSPORT] == "pipe"
    for span in collector.spans:
        if span.service == "armory" and "fail" in span.name:
            assert span.failed
            assert owed(span, {"always", "tool", "id", "error"}) == set()
            assert span.attributes[c.ERROR] == c.TOOL_ERROR
    for side in ("server", "client"):
        points = collector.metrics[c.DURATION[side]]
        assert {"tools/call"} <= {point[c.METHOD] for point in points}
        assert collector.bounds[c.DURATION[side]] == c.BOUNDARIES_S
    sessions = collector.metrics[c.SESSION_DURATION["server"]]
    assert [point[c.TRANSPORT] for point in sessions] == ["tcp"]


async def test_context_from_headers_links_searches_and_errors(
    collector: Collector, tmp_path: Path
) -> None:
    trace, parent, other = "ab" * 16, "cd" * 8, "ef" * 8
    header = f"00-{trace}-{parent}-01"
    async with (
        HttpUpstream(eras="legacy") as upstream,
        gateway(
            config(
                upstreams={"web": {"url": upstream.url}},
                observability={"otel": {"queries": True}},
            ),
            tmp_path,
        ) as url,
        aiohttp.ClientSession() as http,
    ):

        async def ask(
            method: str,
            params: dict[str, Any],
            meta: dict[str, Any] | None = None,
            **headers: str,
        ) -> None:
            body = modern_body(1, method, params, meta)
            async with http.post(url, json=body, headers={**modern_headers(body), **headers}) as r:
                await r.read()

        call: dict[str, Any] = {"name": "web__echo", "arguments": {}}
        await ask("tools/call", call, traceparent=header, tracestate="v=1", baggage="k=1")
        within = {"traceparent": f"00-{trace}-{other}-01"}
        await ask("tools/call", call, within, traceparent=header)
        await ask("tools/call", {"name": "nobody__knows", "arguments": {}}, traceparent=header)
        await ask("resources/read", {"uri": "web+mem://one"}, traceparent=header)
        await ask("tools/list", {"query": "say what it hears"}, traceparent=header)
        await ask("prompts/get", {"name": "web__greet"}, traceparent=header)
        metas = [m["params"]["_meta"] for _, m in upstream.requests if "tools/call" in m.values()]
    assert metas[0]["tracestate"] == "v=1"
    assert metas[0]["baggage"] == "k=1"
    assert all(meta["traceparent"].startswith(f"00-{trace}-") for meta in metas)
    await until(lambda: len(collector.trace(trace)) >= 10)
    spans = [s for s in collector.trace(trace) if s.kind == "server"]
    by_name = {(s.name, s.parent): s for s in spans}
    first = by_name["tools/call web__echo", parent]
    assert first.links == ()
    assert by_name["tools/call web__echo", other].links == (parent,)
    unknown = by_name["tools/call nobody__knows", parent]
    assert not unknown.failed  # the caller's mistake
    assert c.ERROR not in unknown.attributes
    assert owed(unknown, {"always", "tool", "id", "code"}) == set()
    assert unknown.attributes[c.STATUS_CODE] == "-32602"
    assert owed(by_name["resources/read", parent], {"always", "resource", "id"}) == set()
    assert owed(by_name["prompts/get web__greet", parent], {"always", "prompt", "id"}) == set()
    client = next(s for s in collector.trace(trace) if s.kind == "client" and s.parent == first.id)
    assert owed(client, {"always", "tool", "id", "session", "http", "address"}) == set()
    search = one(collector.trace(trace), "internal", "armory", c.RETRIEVAL)
    assert search.parent == by_name["tools/list", parent].id
    assert search.attributes[c.QUERY] == ["say what it hears"]
    assert search.attributes[c.CANDIDATES] > search.attributes[c.RETURNED]
    assert {c.THRESHOLD, c.TOP_SCORE, c.CATALOG_VERSION} <= search.attributes.keys()


async def test_what_is_done_over_rest_has_a_trace(collector: Collector, tmp_path: Path) -> None:
    trace, parent = "ab" * 16, "cd" * 8
    traced = {"traceparent": f"00-{trace}-{parent}-01", "baggage": "k=1"}
    async with (
        HttpUpstream() as upstream,
        gateway(
            config(
                upstreams={"web": {"url": upstream.url}},
                security={"pinning": "off"},
                observability={"audit": {"to": str(tmp_path / "audit.jsonl")}},
            ),
            tmp_path,
        ) as url,
        aiohttp.ClientSession(url.removesuffix("mcp"), headers=traced) as http,
    ):

        async def ask(path: str, body: dict[str, Any] | None = None) -> int:
            method = "GET" if body is None else "POST"
            async with http.request(method, path, json=body) as answer:
                await answer.read()
                return answer.status

        assert await ask("v1/tools/web__who/call", {"arguments": {}}) == 200
        assert await ask("v1/tools/web__fail/call", {"arguments": {}}) == 200
        assert await ask("v1/tools/web__nothing/call", {"arguments": {}}) == 404
        upstream.fail_with = 500
        assert await ask("v1/tools/web__who/call", {"arguments": {}}) == 503
        upstream.fail_with = None
        assert await ask("v1/search", {"queries": ["say what it hears"]}) == 200
        assert await ask("v1/retrieve_tools?query=say") == 200
        assert await ask("v1/tools") == 200  # only looks: no span
        metas = [m["params"]["_meta"] for _, m in upstream.requests if "tools/call" in m.values()]
        await until(lambda: len(collector.trace(trace)) >= 11)
    spans = collector.trace(trace)
    front = [s for s in spans if s.kind == "server"]
    call, search = "POST /v1/tools/{name}/call", "POST /v1/search"
    assert [s.name for s in front] == [*[call] * 4, search, "GET /v1/retrieve_tools"]
    assert {s.parent for s in front} == {parent}
    always = {"always", "answered", "address"}
    for span in front:
        needed = always | ({"tool"} if span.name == call else set[str]())
        assert owed(span, needed, REST_ATTRIBUTES) == set()
        assert not any("say" in str(value) for value in span.attributes.values())
    assert [s.attributes.get(c.ERROR) for s in front] == [
        None,
        c.TOOL_ERROR,
        None,
        "upstream_unavailable",
        None,
        None,
    ]
    assert [s.attributes[c.HTTP_STATUS] for s in front] == [200, 200, 404, 503, 200, 200]
    first = one([s for s in spans if s.parent == front[0].id], "client", "armory", "tools/call who")
    assert metas[0]["traceparent"] == f"00-{trace}-{first.id}-01"
    assert metas[0]["baggage"] == "k=1"
    searches = [s for s in spans if s.name == c.RETRIEVAL]
    assert [s.parent for s in searches] == [front[4].id, front[5].id]
    for span in searches:
        assert span.attributes[c.CANDIDATES] == len(TOOLS)
        assert {c.RETURNED, c.TOP_SCORE, c.CATALOG_VERSION} <= span.attributes.keys()
        assert c.QUERY not in span.attributes
    assert searches[1].attributes[c.RETURNED] > 0
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    told = [r["trace_id"] for r in records if r["method"] in (call, search)]
    assert told == [trace] * 5


async def test_a_session_that_a_request_opened_says_nothing_of_its_trace_later(
    collector: Collector, tmp_path: Path
) -> None:
    traces, log = ("ab" * 16, "cd" * 16), io.StringIO()
    stdio = {"command": sys.executable, "args": ["-m", "armory.testing.upstreams.stdio"]}
    async with (
        gateway(config(upstreams={"std": stdio}, tool_rag={"enabled": False}), tmp_path) as url,
        aiohttp.ClientSession() as http,
    ):
        configure_logging(LogSettings("debug", "json"), stream=log)
        try:
            for trace, tool in zip(traces, ("who", "crash"), strict=True):
                params = {"name": f"std__{tool}", "arguments": {}}
                meta = {"traceparent": f"00-{trace}-{'ef' * 8}-01"}
                body = modern_body(1, "tools/call", params, meta)
                async with http.post(url, json=body, headers=modern_headers(body)) as answer:
                    await answer.read()
            await until(lambda: "upstream_session_lost" in log.getvalue())
        finally:
            structlog.reset_defaults()
            logging.getLogger().handlers.clear()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = {line["event"]: line.get("trace_id") for line in lines}
    assert told["upstream_connected"] == traces[0]
    assert told["upstream_session_lost"] != traces[0]
