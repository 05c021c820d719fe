from __future__ import annotations

import json

from msgspec import Raw

from armory.protocol.hop_meta import MetaStamp, legacy_meta

INFO = {"name": "armory", "version": "1"}
PREFIX = "io.modelcontextprotocol/"


def test_the_stamp_of_a_modern_request() -> None:
    stamp = MetaStamp("2026-07-28", INFO)
    own = {
        f"{PREFIX}protocolVersion": "2026-07-28",
        f"{PREFIX}clientInfo": INFO,
        f"{PREFIX}clientCapabilities": {},
    }
    assert json.loads(bytes(stamp.meta(None, None, None, None))) == own
    passed = Raw(b' { "com.example/a" : [1] } ')
    full = json.loads(bytes(stamp.meta(passed, {"sampling": {}}, "info", 9)))
    assert full == {
        **own,
        f"{PREFIX}clientCapabilities": {"sampling": {}},
        f"{PREFIX}logLevel": "info",
        "progressToken": 9,
        "com.example/a": [1],
    }
    assert json.loads(bytes(stamp.meta(Raw(b"{}"), {}, None, None))) == own


def test_the_stamp_of_a_legacy_request() -> None:
    assert legacy_meta(None, None) is None
    assert json.loads(bytes(legacy_meta(None, 4) or b"")) == {"progressToken": 4}
    assert json.loads(bytes(legacy_meta(Raw(b'{"a":1}'), 4) or b"")) == {
        "progressToken": 4,
        "a": 1,
    }
    assert legacy_meta(Raw(b'{"a":1}'), None) == Raw(b'{"a":1}')


def test_a_trace_is_named_beside_what_is_the_hops_own() -> None:
    stamp, trace = MetaStamp("2026-07-28", INFO), f"00-{'ab' * 16}-{'cd' * 8}-00"
    plain = json.loads(bytes(stamp.meta(None, None, None, None)))
    traced = {**plain, "traceparent": trace}
    assert json.loads(bytes(stamp.meta(None, {}, None, None, trace))) == traced
    full = json.loads(bytes(stamp.meta(None, {}, "info", 9, trace)))
    assert (full["traceparent"], full["progressToken"]) == (trace, 9)
    assert json.loads(bytes(legacy_meta(None, None, trace) or b"")) == {"traceparent": trace}
    both = {"progressToken": 4, "traceparent": trace}
    assert json.loads(bytes(legacy_meta(None, 4, trace) or b"")) == both
