from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest

from armory.domain.principal import ANONYMOUS
from armory.domain.query import Query
from armory.domain.results import CallOutcome, Listing
from armory.observability.metrics import Metrics
from armory.observability.scraped import EdgeFigures, UpstreamFigures


def test_calls_listings_and_the_state_of_upstreams_are_counted() -> None:
    figures = {"a": UpstreamFigures(True, 3, 2, 1, 0, "open")}
    metrics = Metrics(
        lambda: figures, lambda: EdgeFigures(4, 5, 6), lambda: {"vector_store": False}
    )
    metrics.called(ANONYMOUS, CallOutcome("a__b", ok=True, latency_ms=20))
    metrics.called(ANONYMOUS, CallOutcome("a__b", ok=False, latency_ms=20))
    metrics.called(ANONYMOUS, CallOutcome("a__b", ok=None, latency_ms=20))
    listing = Listing(
        Query(("q",)),
        visible=100,
        visible_bytes=40_000,
        returned_bytes=4_000,
        top_score=0.8,
        latency_ms=3,
        selected=("a__b",) * 5,
        degraded="lexical only",
    )
    metrics.listed(ANONYMOUS, listing)
    metrics.listed(ANONYMOUS, replace(listing, query=None, selected=(), returned_bytes=400))
    by_agent = Listing(Query(("q",), source="agent"), 0, 0, 0, top_score=0.1, latency_ms=9_000)
    metrics.listed(ANONYMOUS, by_agent)
    lines = metrics.text().decode().splitlines()
    for line in (
        'armory_tool_calls_total{outcome="ok",server="a"} 1.0',
        'armory_tool_calls_total{outcome="error",server="a"} 1.0',
        'armory_tool_calls_total{outcome="cancelled",server="a"} 1.0',
        'armory_tool_call_seconds_count{server="a"} 3.0',
        'armory_quota_refused_total{limit="concurrency"} 0.0',  # a rate is of a difference
        "armory_listing_tokens_saved_total 18900.0",
        "armory_listing_tokens_sent_total 1100.0",
        'armory_listings_total{state="degraded"} 1.0',
        'armory_listings_total{state="without_query"} 1.0',
        "armory_listing_seconds_count 1.0",
        "armory_listing_top_score_count 2.0",
        'armory_listings_total{state="full"} 1.0',
        "armory_listing_visible_tools_sum 200.0",
        "armory_listing_returned_tools_sum 5.0",
        'armory_upstream_up{server="a"} 1.0',
        'armory_upstream_tools{server="a"} 3.0',
        'armory_upstream_breaker{server="a",state="open"} 1.0',
        'armory_upstream_breaker{server="a",state="closed"} 0.0',
        "armory_client_sessions 4.0",
        "armory_client_streams 5.0",
        "armory_client_parked 6.0",
        "armory_vector_store_up 0.0",
    ):
        assert line in lines, line


def test_what_has_not_happened_yet_is_counted_as_nought() -> None:
    """A rate is that of a difference: the first failures of all would be in none."""
    metrics = Metrics(dict, lambda: None)
    metrics.called(ANONYMOUS, CallOutcome("a__b", ok=True, latency_ms=20))
    lines = metrics.text().decode().splitlines()
    for line in (
        'armory_tool_calls_total{outcome="ok",server="a"} 1.0',
        'armory_tool_calls_total{outcome="error",server="a"} 0.0',
        'armory_tool_calls_total{outcome="cancelled",server="a"} 0.0',
        'armory_listings_total{state="full"} 0.0',
        'armory_listings_total{state="degraded"} 0.0',
        'armory_listings_total{state="without_query"} 0.0',
    ):
        assert line in lines, line


def test_two_gateways_in_one_process_count_apart() -> None:
    first, second = (Metrics(dict, lambda: None) for _ in range(2))
    first.called(ANONYMOUS, CallOutcome("a__b", ok=True, latency_ms=1))
    assert 'server="a"' in first.text().decode()
    assert "armory_vector_store_up" not in second.text().decode(), "it has none elsewhere"
    assert 'server="a"' not in second.text().decode()


@pytest.mark.anyio
async def test_a_scrape_tells_what_of_the_process_could_leak() -> None:
    metrics = Metrics(dict, lambda: None)

    def value(name: str) -> float:
        lines = metrics.text().decode().splitlines()
        return next(float(x.split()[1]) for x in lines if x.startswith(f"{name} "))

    before = value("armory_tasks")
    waiting = [asyncio.create_task(asyncio.Event().wait()) for _ in range(3)]
    assert value("armory_tasks") == before + 3
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert value("armory_tasks") == before
    if sys.platform == "linux":
        assert value("process_open_fds") > 0
        assert value("process_resident_memory_bytes") > 1 << 20


@pytest.mark.anyio
async def test_what_is_told_in_turns_is_the_same_and_leaves_the_loop_to_others() -> None:
    figures = {f"server-{i}": UpstreamFigures(True, 3, 2, 1, 0, "open") for i in range(200)}
    metrics = Metrics(lambda: figures, lambda: EdgeFigures(4, 5, 6))
    for name in figures:
        metrics.called(ANONYMOUS, CallOutcome(f"{name}__b", ok=True, latency_ms=20))
    telling = asyncio.ensure_future(metrics.text_in_turns())
    turns = 0
    async with asyncio.timeout(20):
        while not telling.done():
            turns += 1
            await asyncio.sleep(0)
    assert turns >= 5

    def own(text: bytes) -> list[str]:
        lines = text.decode().splitlines()
        return [line for line in lines if "armory_" in line and "armory_tasks" not in line]

    assert own(telling.result()) == own(metrics.text())


def test_nothing_is_told_of_an_upstream_that_was_removed() -> None:
    metrics = Metrics(dict, lambda: None)
    for server in ("gone", "here"):
        metrics.called(ANONYMOUS, CallOutcome(f"{server}__b", ok=True, latency_ms=20))
        metrics.notification_dropped(server)
        metrics.compacted(server, 10, 5)
    metrics.forget(["gone", "unheard-of"])
    text = metrics.text().decode()
    assert 'server="here"' in text
    assert "gone" not in text
    metrics.called(ANONYMOUS, CallOutcome("gone__b", ok=True, latency_ms=20))
    assert 'armory_tool_calls_total{outcome="ok",server="gone"} 1.0' in metrics.text().decode()


def test_what_ends_after_its_upstream_was_removed_leaves_no_series() -> None:
    here = {"here"}
    metrics = Metrics(dict, lambda: None, serves=here.__contains__)
    for reload in range(50):
        server = f"gone{reload}"
        here.add(server)
        metrics.called(ANONYMOUS, CallOutcome(f"{server}__b", ok=True, latency_ms=20))
        here.remove(server)
        metrics.forget([server])
        metrics.called(ANONYMOUS, CallOutcome(f"{server}__b", ok=True, latency_ms=20))
        metrics.called(ANONYMOUS, CallOutcome(f"{server}__b", ok=False, latency_ms=20))
        metrics.notification_dropped(server)
        metrics.compacted(server, 10, 5)
    assert "gone" not in metrics.text().decode()
    metrics.called(ANONYMOUS, CallOutcome("here__b", ok=True, latency_ms=20))
    here.add("gone1")  # configured again
    metrics.called(ANONYMOUS, CallOutcome("gone1__b", ok=True, latency_ms=20))
    text = metrics.text().decode()
    for server in ("here", "gone1"):
        assert f'armory_tool_calls_total{{outcome="ok",server="{server}"}} 1.0' in text
