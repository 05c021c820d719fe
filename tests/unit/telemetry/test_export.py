"""When telemetry is sent, and what is said when it cannot be."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from armory.config import load_text
from armory.errors import ConfigError
from armory.runtime import open_runtime
from armory.runtime.blocks.extras import absent_extras
from armory.telemetry import conventions as c
from armory.telemetry import export
from armory.telemetry.durations import AGGREGATION, EXPONENTIAL
from armory.telemetry.export import MODULE, OnceAMinute, check, enabled_signals, opened_tracing
from armory.telemetry.settings import OtelSettings
from armory.testing.certificates import certificate
from armory.testing.collector import Collector

pytestmark = pytest.mark.anyio
ALL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        (OtelSettings(), {}, (False, False)),
        (OtelSettings(), ALL, (True, True)),
        (OtelSettings(), {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, (True, False)),
        (OtelSettings(), {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, (False, True)),
        (OtelSettings(), ALL | {"OTEL_METRICS_EXPORTER": "none"}, (True, False)),
        (OtelSettings(), ALL | {"OTEL_SDK_DISABLED": "true"}, (False, False)),
        (OtelSettings(enabled=False), ALL, (False, False)),
        (OtelSettings(enabled=True), {}, (True, True)),
    ],
)
def test_the_environment_says_what_is_sent(
    settings: OtelSettings, environ: dict[str, str], expected: tuple[bool, bool]
) -> None:
    assert enabled_signals(settings, environ) == expected


def test_a_protocol_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; expected http"):
        check(OtelSettings(), ALL | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    only = {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json", "OTEL_METRICS_EXPORTER": "none"}
    check(OtelSettings(), ALL | only)


@pytest.mark.parametrize(
    "name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"]
)
def test_an_endpoint_that_is_no_url_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} does not begin with http://") as refused:
        check(OtelSettings(), ALL | {name: "ann:secret@collector:4318"})
    assert "secret" not in str(refused.value)
    check(OtelSettings(), ALL | {name: "HTTPS://collector:4318"})


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "256", "less than or equal to max_queue_size"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "schedule_delay_millis must be positive"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "some", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT must be"),
        ("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "none", "'none' not found"),
    ],
)
async def test_what_the_sdk_refuses_is_a_mistake_of_the_configuration(
    variable: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=why) as refused:
        async with opened_tracing(OtelSettings(), "1"):
            pass
    assert refused.value.path == "observability.otel.enabled"


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_text("observability: {otel: {enabled: true}}\ntool_rag: {enabled: false}")
    assert absent_extras(loaded) == []
    monkeypatch.setitem(sys.modules, MODULE, None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ConfigError, match=r"armory-mcp-gateway\[otel\]") as refused:
        async with open_runtime(loaded):
            pass
    assert refused.value.path == "observability.otel.enabled"
    assert [error.path for error in absent_extras(loaded)] == ["observability.otel.enabled"]


@pytest.mark.parametrize(
    ("aggregation", "bounds"),
    [(EXPONENTIAL, None), ("explicit_bucket_histogram", c.BOUNDARIES_S), ("", c.BOUNDARIES_S)],
)
async def test_the_environment_says_how_durations_are_put_together(
    aggregation: str, bounds: tuple[float, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AGGREGATION, aggregation)
    series = c.Series("tools/call", "tool", "a", None, None, "2026-07-28", "pipe")
    async with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        async with opened_tracing(OtelSettings(), "1") as tracing:
            assert tracing is not None
            assert tracing.durations is not None
            tracing.durations.record(c.DURATION["client"], 0.2, series)
        (point,) = collector.metrics[c.DURATION["client"]]
        assert point[c.TOOL] == "a"
        assert collector.bounds.get(c.DURATION["client"]) == bounds


@pytest.mark.parametrize("signal", ["", "METRICS_"])
async def test_the_certificate_that_is_named_is_trusted_whatever_bundle_there_is(
    signal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, key = certificate(tmp_path)
    (tmp_path / "others").mkdir()
    other, _ = certificate(tmp_path / "others")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(trusted, key)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{signal}CERTIFICATE", str(trusted))
    series = c.Series("tools/call", "tool", "a", None, None, "2026-07-28", "pipe")
    async with Collector(context) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{collector.url}/v1/metrics")
        async with opened_tracing(OtelSettings(), "1") as tracing:
            assert tracing is not None
            assert tracing.durations is not None
            tracing.durations.record(c.DURATION["client"], 0.2, series)
        assert c.DURATION["client"] in collector.metrics


async def test_a_collector_that_does_not_answer_holds_the_end_up_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "_END_S", 0.2)
    series = c.Series("tools/call", "tool", "a", None, None, "2026-07-28", "pipe")
    with socket.create_server(("127.0.0.1", 0)) as deaf, capture_logs() as log:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        async with asyncio.timeout(30):
            async with opened_tracing(OtelSettings(), "1") as tracing:
                assert tracing is not None
                assert tracing.durations is not None
                tracing.durations.record(c.DURATION["client"], 0.2, series)
    assert [line["event"] for line in log] == ["telemetry_not_sent"]


def test_of_a_collector_that_is_away_the_log_has_a_line_a_minute() -> None:
    moments = iter((0.0, 1.0, 3.0, 59.9, 60.0, 61.0, 500.0))
    seldom = OnceAMinute(lambda: next(moments))
    record = logging.LogRecord("x", logging.WARNING, "", 0, "retrying", None, None)
    told = [seldom.filter(record) for _ in range(7)]
    assert told == [True, False, False, False, True, False, True]


async def test_the_exporters_are_held_to_it_while_they_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def held() -> list[bool]:
        names = (f"{MODULE}.{kind}_exporter" for kind in ("trace", "metric"))
        return [
            any(isinstance(one, OnceAMinute) for one in logging.getLogger(name).filters)
            for name in names
        ]

    async with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        async with opened_tracing(OtelSettings(), "1"):
            assert held() == [True, True]
    assert held() == [False, False]
