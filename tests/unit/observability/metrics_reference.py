"""`docs/metrics.md` out of what the code registers: `python -m` this module writes it.

Owns: the table of every metric with its kind, labels and meaning.
"""

from __future__ import annotations

from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from armory.domain.principal import ANONYMOUS
from armory.domain.results import CallOutcome
from armory.observability.metrics import Metrics
from armory.observability.scraped import STORES, AuditFigures, EdgeFigures, UpstreamFigures

FILE = Path(__file__).parents[3] / "docs" / "metrics.md"
_HEAD = """\
# Metrics

`/metrics` in Prometheus' text form (`observability.metrics`; `server.metrics` for a port or a
token of its own). Counters end with `_total`, histograms have `_bucket`, `_sum` and `_count`; both
may have a `_created`, the time since when they count. What the process itself takes (`process_*`)
is there where the system has `/proc`, `armory_audit_*` where `observability.audit` is on, and
`armory_database_up`, `armory_shared_store_up` and `armory_vector_store_up` where the gateway has
such a store. Series of an upstream end when a reload removes it.

| Metric | Kind | Labels | |
|---|---|---|---|
"""


def reference() -> str:
    """The whole page."""
    figures = {"notes": UpstreamFigures(True, 3, 1, 0, 0, "closed")}
    edge = EdgeFigures(1, 1, 1, {"host": 1}, {"header": 1})
    metrics = Metrics(lambda: figures, lambda: edge, lambda: dict.fromkeys(STORES, True))
    metrics.watch_audit(lambda: AuditFigures(1, 0, 0, failing=False))
    metrics.called(ANONYMOUS, CallOutcome("notes__add", ok=True, latency_ms=1.0))
    rows: list[tuple[str, str, str, str]] = []
    for collector in metrics.registry._collector_to_names:  # pyright: ignore[reportPrivateUsage]
        for family in collector.collect():
            if not family.name.startswith("armory_"):
                continue
            if isinstance(collector, MetricWrapperBase):
                labels = [*collector._labelnames]  # pyright: ignore[reportPrivateUsage]
            else:
                labels = sorted({n for s in family.samples for n in s.labels} - {"le"})
            name = f"{family.name}_total" if family.type == "counter" else family.name
            shown = ", ".join(f"`{label}`" for label in labels)
            rows.append((f"`{name}`", family.type, shown, family.documentation))
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in sorted(rows))


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
