"""JSON-RPC error objects: encoding, and decoding as far as possible.

Owns: `ErrorObject`. Never imports a transport.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from armory.errors import (
    BackendError,
    InvalidRequest,
    RateLimited,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.protocol.codes import BACKEND, INTERNAL_ERROR, LIMITED, TIMED_OUT, UNAVAILABLE
from armory.protocol.rawjson import NULL, excerpt, pack, text_or_none, value

_DATA_BYTES = 64 * 1024
"""Largest data of an error that is decoded; what the gateway looks for in it is short."""
_MESSAGE_CHARS = 4_000
"""Characters of an error's message in logs and statuses; the error itself passes unchanged."""
_CODES = 1 << 53
"""Codes are smaller: larger ones are thousands of digits, perhaps."""
_KINDS = {
    UNAVAILABLE: UpstreamUnavailable.code,
    TIMED_OUT: UpstreamTimeout.code,
    LIMITED: RateLimited.code,
    BACKEND: BackendError.code,
}
"""What `data.code` says of an error of Armory's own, unless whoever makes it says more."""


class ErrorObject(msgspec.Struct, gc=False):
    """An error object as far as Armory reads it."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Any = None


class _Error(msgspec.Struct, gc=False):
    code: int = INTERNAL_ERROR
    message: str = ""
    data: Raw = NULL


class _Whole(msgspec.Struct, gc=False):
    code: int | float
    message: str


class _Message(msgspec.Struct, gc=False):
    message: str = ""


class _Code(msgspec.Struct, gc=False):
    code: int = INTERNAL_ERROR


_error = msgspec.json.Decoder(_Error)
_whole = msgspec.json.Decoder(_Whole)
_message = msgspec.json.Decoder(_Message)
_code = msgspec.json.Decoder(_Code)


def error(code: int, message: str, data: Any = None) -> Raw:
    """An error object; one of Armory's own, or one about a `parameter`, names its kind in
    `data.code`.
    """
    content: dict[str, Any] = {"code": code, "message": message}
    if data is None and code in _KINDS:
        data = {"code": _KINDS[code]}
    elif isinstance(data, dict) and "parameter" in data and "code" not in data:
        data = {"code": InvalidRequest.code, **data}
    if data is not None:
        content["data"] = data
    return pack(content)


def error_of(error: Raw) -> ErrorObject:
    """Code, message and data of an error object, as far as they can be decoded; long data is
    dropped, a long message cut.
    """
    try:
        found = _error.decode(error)
        data = value(found.data) if len(memoryview(found.data)) <= _DATA_BYTES else None
        said = found.message
        if len(said) > _MESSAGE_CHARS:
            said = f"{said[:_MESSAGE_CHARS]}..."
        return ErrorObject(_own(found.code), said, data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ErrorObject(message=excerpt(bytes(error)))


def well_formed(said: Raw) -> Raw:
    """A server's error, as it came if it is a valid error object, else wrapped into one as its
    `data`: SDKs drop an answer with `"error": "no such user"` and wait until the time-out.
    """
    if len(memoryview(said)) > _DATA_BYTES:
        return said
    try:
        _whole.decode(said)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return error(code_of(said), _message_of(said), said)
    return said


def _message_of(said: Raw) -> str:
    """The message of a server's error that is no valid error object."""
    try:
        message = text_or_none(said) or _message.decode(said).message
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        message = ""
    return message or excerpt(bytes(said))


def code_of(error: Raw) -> int:
    """The code in an error object; INTERNAL_ERROR where it has none."""
    try:
        return _own(_code.decode(error).code)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return INTERNAL_ERROR


def _own(code: int) -> int:
    return code if -_CODES < code < _CODES else INTERNAL_ERROR
