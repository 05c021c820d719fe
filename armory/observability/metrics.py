"""Prometheus metrics of one gateway: the counters.

Owns: the registry, counting calls and listings, and the page. Gauges that are read at scrape time
are in `observability.scraped`. Never imports a room that serves requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from armory.domain.limits import Exceeded
from armory.domain.principal import Principal
from armory.domain.results import BYTES_PER_TOKEN, CallOutcome, Listing
from armory.observability.scraped import (
    AuditFigures,
    AuditReadings,
    EdgeFigures,
    LiveReadings,
    UpstreamFigures,
)
from armory.observability.tallies import CallTallies
from armory.tasks import give_way

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_LIST_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_TOOLS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80, 160, 320, 640, 1_280, 5_000, 20_000)
_TURN_S = 0.001
_QUOTAS: tuple[Exceeded, ...] = ("calls", "searches", "concurrency")
_SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


class Metrics:
    """The registry; as a sink of `gateway.ports.ToolEvents` it counts calls and listings.

    Args:
        upstreams: asked at scrape time; figures by server key.
        edge: likewise, None while nothing listens.
        stores: likewise, whether each store outside this process is there (`scraped.STORES`).
        refused: likewise, whether the configuration file is refused as it is now.
        serves: whether a server or meta-tool is there still: a call may end after its upstream was
            removed and forgotten.
    """

    def __init__(
        self,
        upstreams: Callable[[], Mapping[str, UpstreamFigures]],
        edge: Callable[[], EdgeFigures | None],
        stores: Callable[[], Mapping[str, bool]] = dict[str, bool],
        refused: Callable[[], bool] = lambda: False,
        serves: Callable[[str], bool] = lambda _origin: True,
    ) -> None:
        self.registry = CollectorRegistry()
        self._serves = serves
        self._calls = CallTallies(_CALL_S, serves)
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
        for limit in _QUOTAS:  # from 0 on: a rate is of a difference
            self._over_quota.labels(limit)
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
        self.registry.register(LiveReadings(upstreams, edge, stores, refused))
        ProcessCollector(registry=self.registry)  # memory, descriptors and CPU, where /proc is

    def _answers(self) -> Counter:
        """Create the counter of answered queries, starting at 0, so that rates are right from the
        first query.
        """
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
        """Count one `tools/call`."""
        self._calls.count(call.tool, call.latency_ms, ok=call.ok)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """Count one query, as a listing or by a meta-tool, or a listing that was cut without a
        query.
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
        """Count a result of this server or meta-tool that was converted to TOON."""
        if self._serves(origin):
            self._toon.labels(origin).inc(before - after)

    def notification_dropped(self, server: str) -> None:
        """Count a notification of a server that has no recipient."""
        if self._serves(server):
            self._dropped.labels(server).inc()

    def forget(self, servers: Iterable[str]) -> None:
        """Remove the metrics of removed upstreams, so that they do not accumulate."""
        for server in servers:
            self._calls.forget(server)
            for counter in (self._dropped, self._toon):
                with suppress(KeyError):
                    counter.remove(server)

    def limited(self, exceeded: Exceeded) -> None:
        """Count a request that exceeded a limit of its caller."""
        if exceeded == "rate":
            self._rate_limited.inc()
        else:
            self._over_quota.labels(exceeded).inc()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request to the REST API; `route` is the path with its placeholders."""
        self._rest.labels(method, route, str(status)).inc()
        self._rest_seconds.labels(route).observe(seconds)

    def watch_audit(self, figures: Callable[[], AuditFigures]) -> None:
        """Add the audit's figures, which are read at scrape time."""
        self.registry.register(AuditReadings(figures))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    async def text_in_turns(self) -> bytes:
        """Like `text`, a few families at a time, giving way to the event loop in between: twenty
        upstreams take 10 ms.
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
    """A collector with one family that is already built."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
