"""What a command makes of a gateway's error: the kind is the one that `data.code` names."""

from __future__ import annotations

from typing import Any

import pytest

from armory.cli.answers import JsonRpcError, error_of_response, error_of_result
from armory.cli.main import error_json
from armory.errors import (
    ArmoryError,
    InvalidRequest,
    QuotaExceeded,
    RateLimited,
    UnknownTool,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.protocol import codes
from armory.protocol.jsonrpc import ErrorObject
from armory.protocol.meta import ERROR


@pytest.mark.parametrize(
    ("code", "message", "data", "kind"),
    [
        (codes.INVALID_PARAMS, "no such thing", {"code": "unknown"}, UnknownTool),
        (codes.INVALID_PARAMS, "unknown tool: a", None, JsonRpcError),
        (codes.INVALID_PARAMS, "unknown tool: a", {"code": "invalid_request"}, InvalidRequest),
        (codes.INVALID_PARAMS, "top_k is 999", {"parameter": "top_k"}, InvalidRequest),
        (codes.LIMITED, "too often", {"code": "rate_limited"}, RateLimited),
        (codes.LIMITED, "used up", {"code": "quota_exceeded"}, QuotaExceeded),
        (codes.UNAVAILABLE, "away", None, UpstreamUnavailable),
        (codes.TIMED_OUT, "late", ["no object"], UpstreamTimeout),
        (codes.INTERNAL_ERROR, "", {"code": "of another program"}, JsonRpcError),
        (codes.INTERNAL_ERROR, "broken", {"code": "internal"}, ArmoryError),
    ],
)
def test_by_its_code(code: int, message: str, data: Any, kind: type[ArmoryError]) -> None:
    failure = error_of_response(ErrorObject(code, message, data))
    assert type(failure) is kind
    assert failure.message == (message or "refused")


def test_an_upstreams_own_error_is_told_as_it_came() -> None:
    own = error_of_response(ErrorObject(-32050, "own error", {"detail": [1]}))
    assert error_json(own) == {
        "code": "jsonrpc_error",
        "message": "own error",
        "exit_code": 1,
        "rpc_code": -32050,
        "data": {"detail": [1]},
    }


def test_what_else_a_gateway_tells_is_passed_on() -> None:
    data = {"parameter": "_meta[dev.armory/query]"}
    wrong = error_of_response(ErrorObject(codes.INVALID_PARAMS, "too long", data))
    assert isinstance(wrong, InvalidRequest)
    assert wrong.parameter == "_meta[dev.armory/query]"
    details = {"code": "rate_limited", "upstream": None, "retry_after_s": 2.5}
    content = [{"type": "text", "text": "too often"}]
    limited = error_of_result(
        {"content": content, "isError": True, "_meta": {ERROR: details}}, "failed"
    )
    assert isinstance(limited, RateLimited)
    assert (limited.message, limited.retry_after_s) == ("too often", 2.5)
    assert error_of_result({"content": []}, "it offers none").message == "it offers none"
