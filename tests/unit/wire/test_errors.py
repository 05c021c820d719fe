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
from armory.wire.errors import error_object


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
