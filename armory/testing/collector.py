"""An OpenTelemetry collector on a real port that keeps what it receives, for tests.

Owns: `Collector`. Needs the extra `otel`. Never used by the gateway itself.
"""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_KINDS = {1: "internal", 2: "server", 3: "client"}


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """One span as it arrived; ids are hexadecimal, `parent` is empty where there is none."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    failed: bool
    attributes: dict[str, Any]


class Collector:
    """OTLP over HTTP; `async with Collector() as collector: collector.url`.

    Args:
        tls: makes it HTTPS.

    Attributes:
        url: for `OTEL_EXPORTER_OTLP_ENDPOINT`.
        spans: in the order of their arrival.
        metrics: attributes of every data point by the metric's name; the newest export counts.
        bounds: boundaries of histograms by the metric's name; exponential ones have none.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.url = ""
        self._tls = tls
        self.spans: list[CollectedSpan] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.bounds: dict[str, tuple[float, ...]] = {}
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_post("/v1/metrics", self._metrics)
        self._runner = web.AppRunner(app)

    async def __aenter__(self) -> Collector:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http{'' if self._tls is None else 's'}://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    def trace(self, id: str) -> list[CollectedSpan]:
        """The spans of one trace."""
        return [span for span in self.spans if span.trace == id]

    async def _traces(self, request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await _body(request))
        for resource in sent.resource_spans:
            service = _attributes(resource.resource.attributes).get("service.name", "")
            for scope in resource.scope_spans:
                self.spans += [_span(service, span) for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")

    async def _metrics(self, request: web.Request) -> web.Response:
        sent = ExportMetricsServiceRequest.FromString(await _body(request))
        for resource in sent.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    plain = metric.histogram.data_points
                    points = plain or metric.exponential_histogram.data_points
                    self.metrics[metric.name] = [_attributes(p.attributes) for p in points]
                    if plain:
                        self.bounds[metric.name] = tuple(plain[0].explicit_bounds)
        return web.Response(content_type="application/x-protobuf")


async def _body(request: web.Request) -> bytes:
    data = await request.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _span(service: str, span: Any) -> CollectedSpan:
    return CollectedSpan(
        service=service,
        name=span.name,
        kind=_KINDS.get(span.kind, str(span.kind)),
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        links=tuple(link.span_id.hex() for link in span.links),
        failed=span.status.code == 2,
        attributes=_attributes(span.attributes),
    )


def _attributes(found: Iterable[Any]) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in found}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)
