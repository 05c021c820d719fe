"""Every error that answers a request names its kind, and a hidden name is an unknown one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from armory.errors import (
    AccessDenied,
    ArmoryError,
    BackendError,
    InvalidRequest,
    RateLimited,
    UnknownTool,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.protocol import jsonrpc
from armory.protocol.errors import RpcError
from armory.wire.errors import error_object
from armory.wire.messages import refused


@pytest.mark.parametrize(
    ("failure", "code", "data"),
    [
        (UnknownTool("no"), -32602, {"code": "unknown"}),
        (AccessDenied("no"), -32602, {"code": "unknown"}),
        (InvalidRequest("no"), -32602, {"code": "invalid_request"}),
        (
            InvalidRequest("no", parameter="cursor"),
            -32602,
            {"code": "invalid_request", "parameter": "cursor"},
        ),
        (
            RateLimited("no", retry_after_s=2.5),
            None,
            {"code": "rate_limited", "retry_after_s": 2.5},
        ),
        (
            UpstreamTimeout("no", upstream="a"),
            None,
            {"code": "upstream_timeout", "upstream": "a"},
        ),
        (UpstreamUnavailable("no"), None, {"code": "upstream_unavailable"}),
        (UpstreamOverloaded("no"), None, {"code": "upstream_overloaded"}),
        (BackendError("no"), None, {"code": "backend"}),
        (ArmoryError("no"), -32603, {"code": "internal"}),
    ],
)
def test_the_kind_stands_in_data(
    failure: ArmoryError, code: int | None, data: dict[str, Any]
) -> None:
    error = msgspec.json.decode(error_object(failure))
    assert error["message"] == "no"
    assert error["data"] == data
    assert code is None or error["code"] == code


@pytest.mark.parametrize(
    ("code", "given", "data"),
    [
        (1001, None, {"code": "upstream_unavailable"}),
        (1002, None, {"code": "upstream_timeout"}),
        (1003, None, {"code": "rate_limited"}),
        (1003, {"code": "quota_exceeded"}, {"code": "quota_exceeded"}),
        (1004, None, {"code": "backend"}),
        (-32602, {"parameter": "top_k"}, {"code": "invalid_request", "parameter": "top_k"}),
        (-32602, {"uri": "x:y"}, {"uri": "x:y"}),
        (-32601, None, None),
    ],
)
def test_errors_that_no_exception_made_name_it_as_well(
    code: int, given: dict[str, Any] | None, data: dict[str, Any] | None
) -> None:
    made = msgspec.json.decode(jsonrpc.error(code, "no", given))
    assert made.get("data") == data
    if given is not None:
        raised = msgspec.json.decode(error_object(RpcError(code, "no", given)))
        assert raised == made
    answer = msgspec.json.decode(refused(b"1", code, "no"))
    assert ("data" in answer["error"]) is (code > 0)
