"""What a command makes of a gateway's error: the kind is the one that `data.code` names."""

from __future__ import annotations

from typing import Any

import pytest

from armory.cli.answers import failure_of
from armory.errors import (
    ArmoryError,
    InvalidRequest,
    RateLimited,
    UnknownTool,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.protocol import codes
from armory.protocol.jsonrpc import ErrorObject


@pytest.mark.parametrize(
    ("code", "message", "data", "kind"),
    [
        (codes.INVALID_PARAMS, "no such thing", {"code": "unknown"}, UnknownTool),
        (codes.INVALID_PARAMS, "unknown tool: a", None, ArmoryError),
        (codes.INVALID_PARAMS, "unknown tool: a", {"code": "invalid_request"}, InvalidRequest),
        (codes.LIMITED, "too often", {"code": "rate_limited"}, RateLimited),
        (codes.UNAVAILABLE, "away", None, UpstreamUnavailable),
        (codes.TIMED_OUT, "late", ["no object"], UpstreamTimeout),
        (codes.INTERNAL_ERROR, "", {"code": "of another program"}, ArmoryError),
    ],
)
def test_by_its_code(code: int, message: str, data: Any, kind: type[ArmoryError]) -> None:
    failure = failure_of(ErrorObject(code, message, data))
    assert type(failure) is kind
    assert failure.message == (message or "refused")
