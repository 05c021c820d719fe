"""W3C trace context in and out of `_meta`."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw
from opentelemetry.trace import Span

from armory.telemetry.propagation import from_headers, from_meta, injected, parsed, traceparent

TRACE, SPAN = "ab" * 16, "cd" * 8
VALID = f"00-{TRACE}-{SPAN}-01"


def found(parent: str, state: str | None = None) -> Span:
    span = parsed(parent, state)
    assert span is not None
    return span


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "x",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"{VALID}-more",
        f"00-{TRACE}-{SPAN}",
        VALID + "-" + "x" * 1_000,
    ],
)
def test_what_is_no_traceparent_names_no_span(bad: str) -> None:
    assert parsed(bad, None) is None
    assert from_headers({"traceparent": bad}) is None
    assert from_meta({"traceparent": Raw(json.dumps(bad).encode())}) is None


def test_a_later_version_may_have_more() -> None:
    assert found(f"01-{TRACE}-{SPAN}-01-more").get_span_context().trace_id == int(TRACE, 16)


def test_meta_that_is_no_text_names_no_span() -> None:
    assert from_meta({"traceparent": Raw(b"[1]")}) is None
    assert from_meta({}) is None


def test_what_comes_in_goes_out() -> None:
    context = found(VALID, "vendor=1,other=2").get_span_context()
    assert traceparent(context) == VALID
    assert traceparent(found(f"00-{TRACE}-{SPAN}-00").get_span_context()).endswith("-00")
    params = {"name": Raw(b'"x"'), "_meta": Raw(b'{"vendor/a":[1.50],"traceparent":"old"}')}
    sent = injected(params, context, "k=v")
    assert sent["name"] == Raw(b'"x"')
    assert b'"vendor/a":[1.50]' in bytes(sent["_meta"])
    assert json.loads(bytes(sent["_meta"])) == {
        "vendor/a": [1.5],
        "traceparent": VALID,
        "tracestate": "vendor=1,other=2",
        "baggage": "k=v",
    }
    assert bytes(params["_meta"]) == b'{"vendor/a":[1.50],"traceparent":"old"}'


def test_the_clients_own_baggage_stays_and_its_old_tracestate_goes() -> None:
    params = {"_meta": Raw(b'{"baggage":"own=1","tracestate":"stale=1"}')}
    sent = json.loads(bytes(injected(params, found(VALID).get_span_context(), "k=v")["_meta"]))
    assert sent == {"baggage": "own=1", "traceparent": VALID}
    bare = json.loads(bytes(injected({}, found(VALID).get_span_context())["_meta"]))
    assert bare == {"traceparent": VALID}
