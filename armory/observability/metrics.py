"""Prometheus metrics of one gateway.

Owns: the metric names and how calls and listings count. Never imports a room above `domain`;
what is asked for at scrape time arrives as plain functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from armory.domain.limits import Exceeded
from armory.domain.principal import Principal
from armory.domain.results import BYTES_PER_TOKEN, CallOutcome, Listing
from armory.observability.tallies import CallTallies
from armory.tasks import give_way

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_LIST_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_TOOLS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80, 160, 320, 640, 1_280, 5_000, 20_000)
STORES = {
    "database": "Whether the database (`storage.url`) answers and takes writes.",
    "shared_store": "Whether the store that replicas share (`storage.redis`) takes writes.",
    "vector_store": "Whether the vector store answers.",
}
_TURN_S = 0.001
_SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class UpstreamFigures:
    """One upstream at the moment of a scrape.

    Attributes:
        up: whether its session is there, or each caller has one with a login of its own.
        tools: tools of its last good list.
        sessions, in_flight, queued: see the pool.
        breaker: `closed`, `open` or `half_open`.
    """

    up: bool
    tools: int
    sessions: int
    in_flight: int
    queued: int
    breaker: str


@dataclass(frozen=True, slots=True)
class EdgeFigures:
    """The front at the moment of a scrape.

    Attributes:
        sessions, streams, parked: how many are open.
        refused: how many requests were refused so far, by reason.
        cut: how many connections were cut so far, by reason.
    """

    sessions: int
    streams: int
    parked: int
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    cut: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class AuditFigures:
    """The audit at the moment of a scrape: records written, dropped, waiting; whether it fails."""

    written: int
    dropped: int
    waiting: int
    failing: bool


class Metrics:
    """The registry, and the sink of `gateway.ports.ToolEvents` that feeds it.

    Args:
        upstreams: asked at scrape time; figures by server key.
        edge: likewise, None while nothing listens.
        stores: likewise, whether each store outside this process is there (`STORES`).
    """

    def __init__(
        self,
        upstreams: Callable[[], Mapping[str, UpstreamFigures]],
        edge: Callable[[], EdgeFigures | None],
        stores: Callable[[], Mapping[str, bool]] = dict[str, bool],
    ) -> None:
        self.registry = CollectorRegistry()
        self._calls = CallTallies(_CALL_S)
        self.registry.register(self._calls)
        self._lists = self._answers()
        self._list_seconds = self._histogram(
            "listing_seconds", "Duration of answers to queries, but the agent's.", _LIST_S
        )
        self._visible = self._histogram(
            "listing_visible_tools", "Tools that the caller may see.", _TOOLS
        )
        self._returned = self._histogram(
            "listing_returned_tools", "Tools that were returned.", _TOOLS
        )
        self._top_score = self._histogram("listing_top_score", "Best score of a query.", _SCORES)
        self._saved = self._counter(
            "listing_tokens_saved",
            "Tokens of tool definitions that answers to queries and cut listings left out (four "
            "bytes each).",
        )
        self._sent = self._counter(
            "listing_tokens_sent",
            "Tokens of tool definitions that answers to queries and cut listings had.",
        )
        self._toon = self._counter(
            "toon_tokens_saved",
            "Tokens that results lost by becoming TOON (estimated).",
            "origin",
        )
        self._rate_limited = self._counter("rate_limited", "Requests over security.rate_limit.")
        self._over_quota = self._counter(
            "quota_refused", "Requests over security.quotas, by what is used up.", "limit"
        )
        self._dropped = self._counter(
            "upstream_notifications_dropped",
            "What upstreams said that is meant for nobody in particular.",
            "server",
        )
        self._rest = self._counter(
            "rest_requests",
            "Requests to the REST API; 499: cancelled.",
            "method",
            "route",
            "status",
        )
        self._rest_seconds = self._histogram(
            "rest_request_seconds", "Duration of requests to the REST API.", _CALL_S, "route"
        )
        self.registry.register(_Live(upstreams, edge, stores))
        ProcessCollector(registry=self.registry)  # memory, descriptors and CPU, where /proc is

    def _answers(self) -> Counter:
        """How many queries were answered; from 0 on: a rate is of a difference."""
        found = self._counter(
            "listings",
            "Answers to queries over MCP, whole or degraded, and listings that were cut without "
            "one.",
            "state",
        )
        for state in ("full", "degraded", "without_query"):
            found.labels(state)
        return found

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"armory_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"armory_{name}", text, labels, buckets=buckets, registry=self.registry)

    def called(self, principal: Principal, call: CallOutcome) -> None:
        """One `tools/call` was answered."""
        self._calls.count(call.tool, call.latency_ms, ok=call.ok)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """One query was answered, as a listing or by a meta-tool, or a listing was cut without
        one.
        """
        if listing.query is None:
            self._lists.labels("without_query").inc()
        else:
            self._lists.labels("degraded" if listing.degraded else "full").inc()
            if listing.query.source != "agent":  # its model takes the time
                self._list_seconds.observe(listing.latency_ms / 1_000)
            self._top_score.observe(listing.top_score)
        self._visible.observe(listing.visible)
        self._returned.observe(len(listing.selected))
        self._sent.inc(listing.returned_bytes / BYTES_PER_TOKEN)
        saved = max(0, listing.visible_bytes - listing.returned_bytes)
        self._saved.inc(saved / BYTES_PER_TOKEN)

    def compacted(self, origin: str, before: int, after: int) -> None:
        """A result of this server or meta-tool became TOON."""
        self._toon.labels(origin).inc(before - after)

    def notification_dropped(self, server: str) -> None:
        """A server said something that is meant for nobody in particular."""
        self._dropped.labels(server).inc()

    def forget(self, servers: Iterable[str]) -> None:
        """Drop the metrics of removed upstreams, so that they do not pile up in a long-lived
        process.
        """
        for server in servers:
            self._calls.forget(server)
            for counter in (self._dropped, self._toon):
                with suppress(KeyError):
                    counter.remove(server)

    def limited(self, exceeded: Exceeded) -> None:
        """A request was one too many for a limit of its caller."""
        if exceeded == "rate":
            self._rate_limited.inc()
        else:
            self._over_quota.labels(exceeded).inc()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request to the REST API was answered; `route` is the path with its placeholders."""
        self._rest.labels(method, route, str(status)).inc()
        self._rest_seconds.labels(route).observe(seconds)

    def watch_audit(self, figures: Callable[[], AuditFigures]) -> None:
        """Show the audit's figures, asked for at scrape time."""
        self.registry.register(_Audit(figures))

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)

    async def text_in_turns(self) -> bytes:
        """The same, a few families at a time, with the event loop free in between: with twenty
        upstreams it takes 10 ms.
        """
        parts: list[bytes] = []
        begun = perf_counter()
        for family in self.registry.collect():
            parts.append(generate_latest(_Family(family)))
            if (took := perf_counter() - begun) > _TURN_S:
                await give_way(took)
                begun = perf_counter()
        return b"".join(parts)


class _Family(Collector):
    """Collects one family of metrics that is made already."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


class _Audit(Collector):
    """The audit, read at the moment of a scrape."""

    def __init__(self, figures: Callable[[], AuditFigures]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        found = self._figures()
        for name, text, value in (
            ("records", "Records of the audit that are written.", found.written),
            ("dropped", "Records that were dropped because too many waited.", found.dropped),
        ):
            yield CounterMetricFamily(f"armory_audit_{name}", text, value=value)
        for name, text, value in (
            ("waiting", "Records of the audit that wait to be written.", found.waiting),
            ("failing", "Whether the audit cannot be written now.", float(found.failing)),
        ):
            yield GaugeMetricFamily(f"armory_audit_{name}", text, value=value)


class _Live(Collector):
    """What is read at the moment of a scrape."""

    def __init__(
        self,
        upstreams: Callable[[], Mapping[str, UpstreamFigures]],
        edge: Callable[[], EdgeFigures | None],
        stores: Callable[[], Mapping[str, bool]],
    ) -> None:
        self._upstreams = upstreams
        self._edge = edge
        self._stores = stores

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()

    def collect(self) -> Iterable[Metric]:
        upstreams = self._upstreams()
        for name, figure, text in (
            ("up", "up", "Whether the upstream's session is there, where the gateway has one."),
            ("tools", "tools", "Tools of its last good list."),
            ("sessions", "sessions", "Open sessions or processes."),
            ("calls_in_flight", "in_flight", "Calls under way."),
            ("calls_queued", "queued", "Calls that wait for their turn."),
        ):
            family = GaugeMetricFamily(f"armory_upstream_{name}", text, labels=["server"])
            for server, figures in upstreams.items():
                family.add_metric([server], float(getattr(figures, figure)))
            yield family
        breaker = GaugeMetricFamily(
            "armory_upstream_breaker", "1 for the state that holds.", labels=["server", "state"]
        )
        for server, figures in upstreams.items():
            for state in ("closed", "open", "half_open"):
                breaker.add_metric([server, state], float(figures.breaker == state))
        yield breaker
        edge = self._edge()
        for name, text in (
            ("sessions", "Client sessions."),
            ("streams", "Open event streams."),
            ("parked", "Calls that wait for a client's answer."),
        ):
            yield GaugeMetricFamily(
                f"armory_client_{name}", text, value=getattr(edge, name) if edge else 0
            )
        if edge is not None:
            yield _by_reason(
                "requests_refused",
                "Requests that were not let in, or over a limit of server.limits, over MCP; "
                "`connections`: over REST, too.",
                edge.refused,
            )
            yield _by_reason(
                "connections_cut",
                "Connections that were cut because a client is slow or there were too many.",
                edge.cut,
            )
        for name, there in self._stores().items():
            yield GaugeMetricFamily(f"armory_{name}_up", STORES[name], value=float(there))
        yield GaugeMetricFamily("armory_tasks", "Tasks of the event loop.", value=_tasks())


def _by_reason(name: str, text: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"armory_{name}", text, labels=["reason"])
    for reason, count in counts.items():
        family.add_metric([reason], count)
    return family


def _tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # scraped outside the loop
        return 0
