"""The error tables: from exceptions to JSON-RPC errors, and from these to HTTP statuses.

Owns: the two tables. Never imports a transport.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from armory.errors import (
    AccessDenied,
    ArmoryError,
    BackendError,
    InvalidRequest,
    RateLimited,
    UnknownTool,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.protocol import codes, jsonrpc
from armory.protocol.errors import Malformed, RpcError
from armory.protocol.link import Refused

_CODES: tuple[tuple[type[ArmoryError], int], ...] = (
    (UnknownTool, codes.INVALID_PARAMS),
    (InvalidRequest, codes.INVALID_PARAMS),
    (AccessDenied, codes.INVALID_PARAMS),
    (RateLimited, codes.LIMITED),
    (UpstreamTimeout, codes.TIMED_OUT),
    (UpstreamUnavailable, codes.UNAVAILABLE),
    (BackendError, codes.BACKEND),
)
_STATUS = {
    codes.PARSE_ERROR: 400,
    codes.INVALID_REQUEST: 400,
    codes.INVALID_PARAMS: 400,
    codes.HEADER_MISMATCH: 400,
    codes.MISSING_CAPABILITY: 400,
    codes.UNSUPPORTED_VERSION: 400,
    codes.METHOD_NOT_FOUND: 404,
}
ANSWERED = (RpcError, ArmoryError, Malformed, Refused)
"""The exceptions that answer a request; anything else is a defect."""


def error_object(failure: BaseException) -> Raw:
    """The JSON-RPC error for an exception."""
    if isinstance(failure, RpcError | Malformed):
        return jsonrpc.error(failure.code, failure.message, getattr(failure, "data", None))
    if isinstance(failure, Refused):
        return failure.error
    if isinstance(failure, ArmoryError):
        for kind, code in _CODES:
            if isinstance(failure, kind):
                return jsonrpc.error(code, failure.told, _data(failure))
        return jsonrpc.error(codes.INTERNAL_ERROR, failure.told, _data(failure))
    return jsonrpc.error(codes.INTERNAL_ERROR, "internal error; the gateway's log has the details")


def _data(failure: ArmoryError) -> dict[str, Any]:
    if isinstance(failure, AccessDenied):  # what a caller may not see is unknown to it
        return {"code": UnknownTool.code}
    data: dict[str, Any] = {"code": failure.code}
    if isinstance(failure, InvalidRequest) and failure.parameter:
        data["parameter"] = failure.parameter
    if isinstance(failure, UnknownTool) and failure.nearest:
        data["nearest"] = list(failure.nearest)
    upstream = getattr(failure, "upstream", "")
    if upstream:
        data["upstream"] = upstream
    if failure.retry_after_s is not None:
        data["retry_after_s"] = failure.retry_after_s
    return data


def status_of(error: Raw) -> int:
    """The HTTP status of an error for a modern client."""
    return _STATUS.get(jsonrpc.code_of(error), 200)
