"""Export of spans and metrics: OTLP over HTTP, configured by the standard environment variables.

Owns: reading those variables, the SDK's providers, the final flush, and how often an unreachable
collector is logged. Imports OpenTelemetry's SDK inside functions only: it is an extra.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from armory.ending import at_most
from armory.errors import ConfigError
from armory.logger import Logger
from armory.telemetry.settings import OtelSettings

if TYPE_CHECKING:
    from armory.telemetry.measuring import Durations
    from armory.telemetry.tracing import Tracing

_log = Logger(__name__)
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_{}_PROTOCOL")
_PATH = "observability.otel.enabled"
_END_S = 5.0
"""How long the end waits for a collector; the exporters themselves would wait ten seconds each."""
_LOG_EVERY_S = 60.0
MODULE = "opentelemetry.exporter.otlp.proto.http"


def enabled_signals(
    settings: OtelSettings, environ: Mapping[str, str] = os.environ
) -> tuple[bool, bool]:
    """(spans, metrics): which of them are to be sent.

    Args:
        settings: what the configuration says.
        environ: the environment variables.
    """
    if settings.enabled is False or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False, False
    return (
        _signal(settings, environ, TRACES_ENDPOINT, "OTEL_TRACES_EXPORTER"),
        _signal(settings, environ, METRICS_ENDPOINT, "OTEL_METRICS_EXPORTER"),
    )


def _signal(
    settings: OtelSettings, environ: Mapping[str, str], endpoint: str, exporter: str
) -> bool:
    if environ.get(exporter, "otlp").strip().lower() == "none":
        return False
    addressed = environ.get(ENDPOINT) or environ.get(endpoint)
    return settings.enabled is True or bool(addressed)


def check(settings: OtelSettings, environ: Mapping[str, str] = os.environ) -> None:
    """Check that telemetry can be sent as configured.

    Raises:
        ConfigError: the extra is missing, or the environment asks for what there is not.
    """
    spans, metrics = enabled_signals(settings, environ)
    if not (spans or metrics):
        return
    if not installed():
        raise ConfigError(
            "OpenTelemetry is asked for (by this key, or by OTEL_EXPORTER_OTLP_ENDPOINT) and needs "
            'an extra: pip install "armory-mcp-gateway[otel]"; or set this key to false',
            path=_PATH,
        )
    for signal, on in (("TRACES", spans), ("METRICS", metrics)):
        for variable in _PROTOCOLS:
            name = variable.format(signal)
            protocol = environ.get(name, "")
            if on and protocol not in ("", "http/protobuf"):
                raise ConfigError(
                    f"{name} is {protocol!r}; expected http/protobuf (port 4318 of a collector)",
                    path=_PATH,
                )
    _check_endpoints(environ, (TRACES_ENDPOINT, spans), (METRICS_ENDPOINT, metrics))


def _check_endpoints(environ: Mapping[str, str], *signals: tuple[str, bool]) -> None:
    for own, on in signals:
        name = own if environ.get(own) else ENDPOINT
        url = environ.get(name, "").lower()
        if on and url and not url.startswith(("http://", "https://")):  # may have a password in it
            raise ConfigError(
                f"{name} does not begin with http:// or https://; expected a URL such as "
                "http://collector:4318",
                path=_PATH,
            )


def installed() -> bool:
    """Whether the extra is installed."""
    try:
        return importlib.util.find_spec(MODULE) is not None
    except ModuleNotFoundError:
        return False


@asynccontextmanager
async def opened_tracing(settings: OtelSettings, version: str) -> AsyncGenerator[Tracing | None]:
    """An open `Tracing` for as long as the context lasts; the rest is sent at its end.

    Args:
        settings: what the configuration says.
        version: of Armory.

    Raises:
        ConfigError: as `check`.
    """
    check(settings)
    spans, metrics = enabled_signals(settings)
    if not (spans or metrics):
        yield None
        return
    import asyncio  # whoever only checks a configuration has no event loop

    from armory.telemetry.sampling import Sampling
    from armory.telemetry.tracing import Tracing
    from armory.threads import unattended

    try:
        resource = _resource(version)
        traces = _spans(resource, version) if spans else None
        durations, exporting = _metrics(resource, version) if metrics else (None, None)
    except (ValueError, RuntimeError) as error:
        # The SDK does without some values that it cannot use, and raises these at others.
        raise ConfigError(f"the variables OTEL_* do not work out: {error}", path=_PATH) from error
    ended = traces.on_end if traces else None
    tracing = Tracing(ended, durations, Sampling(), queries=settings.queries)
    with _seldom_logged():
        try:
            yield tracing
        finally:
            ends = [
                asyncio.wrap_future(unattended(partial(_ended, provider), "end telemetry"))
                for provider in (traces, exporting)
                if provider is not None
            ]
            within_s = at_most(_END_S)
            done, late = await asyncio.wait(ends, timeout=within_s)
            for end in late:
                end.cancel()
            failed = [repr(error) for end in done if (error := end.exception()) is not None]
            if late or failed:
                why = failed or f"the collector took more than {within_s:.3g} s"
                _log.warning("telemetry_not_sent", error=why)


class OnceAMinute(logging.Filter):
    """A log filter that passes one record a minute: exporters log each attempt, a few seconds
    apart, for as long as a collector is unreachable.

    Args:
        now: seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._next = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        now = self._now()
        if now < self._next:
            return False
        self._next = now + _LOG_EVERY_S
        return True


@contextmanager
def _seldom_logged() -> Generator[None]:
    """While the context lasts, limits how often exporters log that a collector is unreachable."""
    held = [
        (logging.getLogger(f"{MODULE}.{kind}_exporter"), OnceAMinute())
        for kind in ("trace", "metric")
    ]
    for logger, seldom in held:
        logger.addFilter(seldom)
    try:
        yield
    finally:
        for logger, seldom in held:
            logger.removeFilter(seldom)


def _ended(provider: Any) -> None:
    provider.force_flush(_END_S * 1_000)
    provider.shutdown()


def _resource(version: str) -> Any:
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource

    found = Resource.create({SERVICE_VERSION: version})
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: "armory"}))
    return found


def _spans(resource: Any, version: str) -> Any:
    """The processor of ended spans, which sends them in batches: `Sampling` has already decided."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from armory.telemetry.span_export import Spans
    from armory.telemetry.trusting import session_for

    scope = InstrumentationScope("armory", version)
    exporter = OTLPSpanExporter(session=session_for("TRACES"))
    return BatchSpanProcessor(Spans(exporter, resource, scope))


def _metrics(resource: Any, version: str) -> tuple[Durations, Any]:
    """(the sink for durations, the provider to flush and shut down)."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from armory.telemetry import durations as d
    from armory.telemetry.exporting import Exporting
    from armory.telemetry.trusting import session_for

    exporter = OTLPMetricExporter(session=session_for("METRICS"))
    if os.environ.get(d.AGGREGATION, "").strip().lower() == d.EXPONENTIAL:
        reader = PeriodicExportingMetricReader(exporter)
        provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        return d.Instruments(provider.get_meter("armory", version)), provider
    buckets = d.Buckets()
    scope = InstrumentationScope("armory", version)
    return buckets, Exporting(exporter, buckets, resource, scope)
