"""What of a client's `_meta` passes."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from armory.protocol import meta as meta_keys
from armory.testing.front import raws
from armory.wire.eras.client_meta import with_passed_meta

INFO = {"name": "armory", "version": "1"}
VERSION = "2026-07-28"


def test_only_vendor_and_trace_keys_pass() -> None:
    meta = raws(
        {
            meta_keys.PROTOCOL_VERSION: VERSION,
            meta_keys.CLIENT_INFO: {},
            "progressToken": 1,
            "traceparent": "00",
            "com.example/x": 2,
            "dev.armory/query": "q",
            "io.modelcontextprotocol/related-task": {"taskId": "t"},
        }
    )
    params = {"name": Raw(b'"x"'), "_meta": Raw(b"{}")}
    passed = with_passed_meta(dict(params), meta, transparent=False)
    assert set(msgspec.json.decode(passed["_meta"])) == {
        "traceparent",
        "com.example/x",
        "io.modelcontextprotocol/related-task",
    }
    kept = with_passed_meta(dict(params), meta, transparent=True)
    assert "dev.armory/query" in msgspec.json.decode(kept["_meta"])
    alone = with_passed_meta(dict(params), raws({"progressToken": 1}), transparent=False)
    assert "_meta" not in alone
    assert with_passed_meta({}, meta, transparent=True) == {}
