"""Prometheus metrics that are read at scrape time, because they are states and not counts.

Owns: the figures of upstreams, edge, audit and stores, and the metrics made of them. The figures
come from plain functions: never imports the rooms that they describe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

STORES = {
    "database": "Whether the database (`storage.url`) answers and takes writes.",
    "shared_store": "Whether the store that replicas share (`storage.redis`) takes writes.",
    "vector_store": "Whether the vector store answers.",
}


@dataclass(frozen=True, slots=True)
class UpstreamFigures:
    """One upstream at scrape time.

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
    """The HTTP front at scrape time.

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
    """The audit at scrape time: records written, dropped and queued; whether writing fails."""

    written: int
    dropped: int
    waiting: int
    failing: bool


class AuditReadings(Collector):
    """Collector for the audit."""

    def __init__(self, figures: Callable[[], AuditFigures]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: what there is depends on the moment."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """The metrics as they stand."""
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


class LiveReadings(Collector):
    """Collector for upstreams, the edge, stores, the configuration and tasks; arguments as of
    `Metrics`.
    """

    def __init__(
        self,
        upstreams: Callable[[], Mapping[str, UpstreamFigures]],
        edge: Callable[[], EdgeFigures | None],
        stores: Callable[[], Mapping[str, bool]],
        refused: Callable[[], bool],
    ) -> None:
        self._upstreams = upstreams
        self._edge = edge
        self._stores = stores
        self._refused = refused

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: what there is depends on the moment."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """The metrics as they stand."""
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
        yield GaugeMetricFamily(
            "armory_configuration_refused",
            "Whether the configuration file is refused as it is now, and an earlier one in force.",
            value=float(self._refused()),
        )
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
