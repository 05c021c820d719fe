"""Which traces are kept is what the SDK's samplers say, and what goes upstream says it, too."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    Decision,
    ParentBasedTraceIdRatio,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from structlog.testing import capture_logs

from armory.observability.operation import CURRENT, Operation
from armory.protocol.rawjson import pack
from armory.telemetry.propagation import KEPT, parsed
from armory.telemetry.sampling import Sampling
from armory.telemetry.spans import Span
from armory.telemetry.tracing import Tracing

TRACE, SPAN = "ab" * 16, "cd" * 8
SAMPLERS: dict[str, Sampler] = {
    "always_on": ALWAYS_ON,
    "always_off": ALWAYS_OFF,
    "traceidratio": TraceIdRatioBased(0.3),
    "parentbased_always_on": DEFAULT_ON,
    "parentbased_always_off": DEFAULT_OFF,
    "parentbased_traceidratio": ParentBasedTraceIdRatio(0.3),
}


@given(
    name=st.sampled_from(sorted(SAMPLERS)),
    trace_id=st.integers(1, 2**128 - 1),
    parent=st.sampled_from([None, True, False]),
)
def test_the_decision_is_the_sdks(name: str, trace_id: int, parent: bool | None) -> None:
    context = Context()
    if parent is not None:
        above = SpanContext(trace_id, 1, True, TraceFlags(parent))
        context = set_span_in_context(NonRecordingSpan(above), context)
    wanted = SAMPLERS[name].should_sample(context, trace_id, "x").decision
    sampling = Sampling({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": "0.3"})
    assert sampling.keeps(trace_id, parent) == (wanted is Decision.RECORD_AND_SAMPLE)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OTEL_TRACES_SAMPLER": "often"}, "trace_sampler_unknown"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, "trace_sampler_rate_unknown"),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"},
            "trace_sampler_rate_unknown",
        ),
    ],
)
def test_what_cannot_be_understood_keeps_everything_and_is_told(
    environ: dict[str, str], said: str
) -> None:
    with capture_logs() as logs:
        assert Sampling(environ).drawn().endswith(KEPT)
    assert [log["event"] for log in logs] == [said]
    assert Sampling({}).keeps(1, None)


def test_what_is_drawn_says_what_was_decided() -> None:
    sampling = Sampling({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"})
    drawn = [sampling.drawn() for _ in range(500)]
    found = [parsed(traceparent, None) for traceparent in drawn]
    assert len({parent.span for parent in found if parent}) == 500
    assert len({parent.trace for parent in found if parent}) == 500
    for parent, traceparent in zip(found, drawn, strict=True):
        assert parent
        kept = sampling.keeps(int(parent.trace, 16), None)
        assert parent.sampled == traceparent.endswith(KEPT) == kept
    assert {parent.sampled for parent in found if parent} == {True, False}


class Kept:
    """A `Tracing` and what it exported."""

    def __init__(self, rate: float) -> None:
        environ = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(rate)}
        self.spans: list[Span] = []
        self.sampling = Sampling(environ)
        self.tracing = Tracing(self.spans.append, None, self.sampling, queries=False)

    def asked(
        self, meta: dict[str, Raw] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[Operation, dict[str, str]]:
        """(the operation, `_meta` of what goes upstream) of one request."""
        operation = Operation()
        tracing = self.tracing
        tracing.server(operation, "tools/call", pack("a"), meta or {}, headers or {})
        span = tracing.client("tools/call", "a", operation)
        params: dict[str, Raw] = {}
        if meta:
            params["_meta"] = pack(meta)
        sent = tracing.passed_on(params, span, operation)
        for ended in (span, operation.span):
            if ended is not None:
                tracing.finish(ended, {}, None)
        return operation, json.loads(bytes(sent["_meta"])) if sent else {}


def _no_facts(found: str) -> dict[str, object]:
    raise AssertionError(f"nothing is told of {found}")


def test_a_trace_that_is_not_kept_goes_on_with_its_flag_down() -> None:
    kept = Kept(0.0)
    meta = {"traceparent": Raw(f'"00-{TRACE}-{SPAN}-01"'.encode()), "tracestate": Raw(b'"v=1"')}
    operation, sent = kept.asked(meta | {"baggage": Raw(b'"k=1"')})
    assert sent == {"traceparent": f"00-{TRACE}-{SPAN}-00", "tracestate": "v=1", "baggage": "k=1"}
    assert operation.trace_id == TRACE
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-00", "tracestate": "v=1", "baggage": "k=1"}
    assert kept.asked(headers=headers)[1] == sent
    token = CURRENT.set(operation)
    try:
        assert (
            asyncio.run(kept.tracing.searched(asyncio.sleep(0, "found"), (), _no_facts)) == "found"
        )
    finally:
        CURRENT.reset(token)
    assert kept.spans == []


def test_a_new_trace_that_is_not_kept_has_an_id_that_says_so_upstream() -> None:
    operation, sent = Kept(0.0).asked()
    assert sent["traceparent"] == f"00-{operation.trace_id}-{operation.span_id}-00"
    assert len(sent["traceparent"]) == 55
    assert operation.span is None


def test_a_new_trace_that_is_kept_has_the_id_that_was_decided_upon() -> None:
    kept = Kept(0.5)
    told = [kept.asked() for _ in range(64)]
    ids = {operation.trace_id for operation, _ in told if operation.span is not None}
    assert 0 < len(ids) < 64
    assert all(kept.sampling.keeps(int(id, 16), None) for id in ids)
    assert len(kept.spans) == 2 * len(ids)
    assert {span.trace for span in kept.spans} == ids
    assert len({span.id for span in kept.spans}) == 2 * len(ids)
    for operation, sent in told:
        flag = "00" if operation.span is None else "01"
        assert sent["traceparent"].startswith(f"00-{operation.trace_id}-")
        assert sent["traceparent"].endswith(flag)
