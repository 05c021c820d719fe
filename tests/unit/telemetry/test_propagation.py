"""W3C trace context in and out of `_meta`."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw
from multidict import CIMultiDict

from armory.telemetry.propagation import (
    Parent,
    combined,
    from_headers,
    from_meta,
    injected,
    parsed,
)

TRACE, SPAN = "ab" * 16, "cd" * 8
VALID = f"00-{TRACE}-{SPAN}-01"


def found(parent: str, state: str | None = None) -> Parent:
    remote = parsed(parent, state)
    assert remote is not None
    return remote


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


def test_several_lines_of_a_header_are_one_list() -> None:
    lines = [("traceparent", VALID), ("TraceState", "a=1"), ("tracestate", "b=2")]
    headers = CIMultiDict([*lines, ("baggage", "k=1"), ("Baggage", "l=2")])
    assert from_headers(headers) == Parent(TRACE, SPAN, True, "a=1,b=2")
    assert combined(headers, "baggage") == "k=1,l=2"
    assert combined({"baggage": "k=1"}, "baggage") == "k=1"
    assert combined(headers, "x") is None


def test_a_later_version_may_have_more() -> None:
    assert found(f"01-{TRACE}-{SPAN}-01-more") == Parent(TRACE, SPAN, True)


def test_meta_that_is_no_text_names_no_span() -> None:
    assert from_meta({"traceparent": Raw(b"[1]")}) is None
    assert from_meta({}) is None


def test_what_comes_in_goes_out() -> None:
    remote = found(VALID, "vendor=1,other=2")
    assert remote.traceparent == VALID
    assert found(f"00-{TRACE}-{SPAN}-00").traceparent.endswith("-00")
    params = {"name": Raw(b'"x"'), "_meta": Raw(b'{"vendor/a":[1.50],"traceparent":"old"}')}
    sent = injected(params, remote.traceparent, remote.state, "k=v")
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
    sent = json.loads(bytes(injected(params, VALID, None, "k=v")["_meta"]))
    assert sent == {"baggage": "own=1", "traceparent": VALID}
    bare = json.loads(bytes(injected({}, VALID, None)["_meta"]))
    assert bare == {"traceparent": VALID}
    with_state = json.loads(bytes(injected({}, VALID, "a=1")["_meta"]))
    assert with_state == {"traceparent": VALID, "tracestate": "a=1"}
