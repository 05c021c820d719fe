"""From exception to JSON-RPC error, and from JSON-RPC error to HTTP status.

Owns: the two tables. Never imports a transport.
"""

from __future__ import annotations

from typing import Any

import msgspec
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
from armory.gateway.exchange import RpcError
from armory.upstreams.link import Refused
from armory.wire import jsonrpc
from armory.wire.jsonrpc import Malformed

_CODES: tuple[tuple[type[ArmoryError], int], ...] = (
    (UnknownTool, jsonrpc.INVALID_PARAMS),
    (InvalidRequest, jsonrpc.INVALID_PARAMS),
    (AccessDenied, jsonrpc.INVALID_PARAMS),
    (RateLimited, jsonrpc.LIMITED),
    (UpstreamTimeout, jsonrpc.TIMED_OUT),
    (UpstreamUnavailable, jsonrpc.UNAVAILABLE),
    (BackendError, jsonrpc.BACKEND),
)
_STATUS = {
    jsonrpc.PARSE_ERROR: 400,
    jsonrpc.INVALID_REQUEST: 400,
    jsonrpc.INVALID_PARAMS: 400,
    jsonrpc.HEADER_MISMATCH: 400,
    jsonrpc.MISSING_CAPABILITY: 400,
    jsonrpc.UNSUPPORTED_VERSION: 400,
    jsonrpc.METHOD_NOT_FOUND: 404,
}
ANSWERED = (RpcError, ArmoryError, Malformed, Refused)
"""The exceptions that answer a request; anything else is a defect."""


class _Code(msgspec.Struct):
    code: int = jsonrpc.INTERNAL_ERROR


_code = msgspec.json.Decoder(_Code)


def error_object(failure: BaseException) -> Raw:
    """The JSON-RPC error that stands for an exception."""
    if isinstance(failure, RpcError | Malformed):
        return jsonrpc.error(failure.code, failure.message, getattr(failure, "data", None))
    if isinstance(failure, Refused):
        return failure.error
    if isinstance(failure, ArmoryError):
        for kind, code in _CODES:
            if isinstance(failure, kind):
                return jsonrpc.error(code, failure.message, _data(failure))
        return jsonrpc.error(jsonrpc.INTERNAL_ERROR, failure.message, _data(failure))
    return jsonrpc.error(
        jsonrpc.INTERNAL_ERROR, "internal error; the gateway's log has the details"
    )


def _data(failure: ArmoryError) -> dict[str, Any] | None:
    if isinstance(failure, InvalidRequest):
        return {"parameter": failure.parameter} if failure.parameter else None
    if isinstance(failure, UnknownTool | AccessDenied):
        return None
    data: dict[str, Any] = {"code": failure.code}
    upstream = getattr(failure, "upstream", "")
    if upstream:
        data["upstream"] = upstream
    if failure.retry_after_s is not None:
        data["retry_after_s"] = failure.retry_after_s
    return data


def code_of(error: Raw) -> int:
    """The code in an error object."""
    try:
        return _code.decode(error).code
    except (msgspec.DecodeError, RecursionError):
        return jsonrpc.INTERNAL_ERROR


def status_of(error: Raw) -> int:
    """The HTTP status that goes with an error toward a modern client."""
    return _STATUS.get(code_of(error), 200)
