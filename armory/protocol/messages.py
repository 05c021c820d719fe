"""JSON-RPC messages toward upstreams: bytes out, envelopes in, values untouched in between.

Owns: encoding of requests, notifications and responses, decoding of envelopes, the `_meta` that a
modern request carries. Never imports a transport.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from armory.protocol.codes import INTERNAL_ERROR
from armory.protocol.link import Params
from armory.protocol.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION
from armory.protocol.nesting import cut, deeper_than
from armory.protocol.outline import LARGE_BYTES, condensed

EMPTY = Raw(b"")
EMPTY_OBJECT = Raw(b"{}")

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
DEEPEST = 512
"""Levels of what is kept of a message that is nested too deep to be opened."""

encode = msgspec.json.Encoder().encode
decode_any = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class Garbage(Exception):
    """What came is no JSON-RPC message."""


class Incoming(msgspec.Struct, gc=False):
    """A message from the upstream; absent members are None or empty."""

    id: int | str | float | None = None
    method: str | None = None
    params: Raw = EMPTY
    result: Raw = EMPTY
    error: Raw = EMPTY


class Large(Incoming, gc=False):
    """A large answer, read without going through its long strings.

    Attributes:
        outline: the result without them; see `protocol.outline`.
    """

    outline: bytes = b""


class Cut(Incoming, gc=False):
    """A message that was nested too deep: without what stood below `DEEPEST` levels."""


class _Request(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int | str | float
    method: str
    params: Params


class _Notification(msgspec.Struct, gc=False):
    jsonrpc: str
    method: str
    params: Params


class _Result(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int | str | float
    result: Raw


class _Error(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int | str | float
    error: Raw


class ErrorObject(msgspec.Struct, gc=False):
    """A JSON-RPC error as far as Armory reads it."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Any = None


_incoming = msgspec.json.Decoder(Incoming).decode
_cut = msgspec.json.Decoder(Cut).decode
_batch = msgspec.json.Decoder(list[Raw]).decode
_params = msgspec.json.Decoder(dict[str, Raw]).decode
_error = msgspec.json.Decoder(ErrorObject).decode


def request_bytes(request_id: int, method: str, params: Params) -> bytes:
    """One request, on one line."""
    return encode(_Request("2.0", request_id, method, params))


def notification_bytes(method: str, params: Params) -> bytes:
    """One notification, on one line."""
    return encode(_Notification("2.0", method, params))


def result_bytes(request_id: int | str | float, result: Raw) -> bytes:
    """The answer to a request of the upstream's."""
    return encode(_Result("2.0", request_id, result))


def error_bytes(request_id: int | str | float, error: Raw) -> bytes:
    """The refusal of a request of the upstream's."""
    return encode(_Error("2.0", request_id, error))


def error_raw(code: int, message: str) -> Raw:
    """A JSON-RPC error object."""
    return Raw(encode({"code": code, "message": message}))


def decode(data: bytes | bytearray) -> list[Incoming]:
    """The messages in one frame: one, or several of a 2025-03-26 batch.

    Raises:
        Garbage: it is not JSON or no JSON-RPC object.
    """
    if len(data) >= LARGE_BYTES and (large := _large(data)) is not None:
        return [large]
    if not data.isascii():
        data = _valid_text(data)
    try:
        return [_incoming(data)]
    except (msgspec.DecodeError, RecursionError) as error:
        text = _mended(bytes(data))
        opened = _incoming
        if deeper_than(text, DEEPEST):
            text, opened = cut(text, DEEPEST), _cut
        try:
            return [opened(item) for item in (_batch(text) if _is_batch(text) else (text,))]
        except (msgspec.DecodeError, RecursionError):
            pass
        raise Garbage(f"not a JSON-RPC message ({error}): {excerpt(data)}") from None


def _is_batch(text: bytes) -> bool:
    return text.lstrip()[:1] == b"["


def _large(data: bytes | bytearray) -> Large | None:
    """A successful answer by its short form; None where it must be read as it is."""
    short = condensed(data)
    if short is None:
        return None
    try:
        short.text.decode()
        message = _incoming(short.text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if message.method is not None or message.result is EMPTY or message.error is not EMPTY:
        return None
    outline = bytes(memoryview(message.result))
    result = short.whole(outline, data)
    return None if result is None else Large(message.id, result=result, outline=outline)


def _valid_text(data: bytes | bytearray) -> bytes | bytearray:
    """The same, what is no UTF-8 replaced: values pass as bytes, so this is where it is checked."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


def _mended(text: bytes) -> bytes:
    """The same with lone surrogates replaced: msgspec refuses what other JSON parsers let pass."""
    if b"\\u" not in text:
        return text
    return _ESCAPE.sub(lambda match: b"\\ufffd" if match[1] else match[0], text)


def excerpt(data: bytes | bytearray, limit: int = 120) -> str:
    """The beginning of some bytes, printable, for messages and logs."""
    text = data[:limit].decode("utf-8", "replace")
    return repr(text) + (" ..." if len(data) > limit else "")


def params_of(message: Incoming) -> Params:
    """The members of `params`; none when it is absent or not an object."""
    try:
        return {} if message.params is EMPTY else _params(message.params)
    except (msgspec.DecodeError, RecursionError):
        return {}


def error_of(raw: Raw) -> ErrorObject:
    """Code, message and data of an error object, as far as they can be read."""
    try:
        return _error(raw)
    except (msgspec.DecodeError, RecursionError):
        return ErrorObject(message=excerpt(bytes(raw)))


def object_of(raw: Raw | None) -> dict[str, Any]:
    """A raw JSON object as a dict; empty when it is none."""
    if raw is None:
        return {}
    try:
        value = decode_any(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def profile(capabilities: Mapping[str, Any]) -> str:
    """Canonical text of a client's capabilities: equal capabilities, equal text."""
    return _encode_sorted(dict(capabilities)).decode() if capabilities else "{}"


def meta_members(raw: Raw | None) -> bytes:
    """The inside of a `_meta` object's braces; empty when there is none."""
    if raw is None:
        return b""
    text = bytes(raw).strip()
    return text[1:-1].strip() if text[:1] == b"{" else b""


class MetaStamp:
    """Builds the `_meta` of modern requests: what passes through plus what is the hop's own."""

    def __init__(self, version: str, client_info: Mapping[str, Any]) -> None:
        own = {PROTOCOL_VERSION: version, CLIENT_INFO: client_info}
        head = encode(own)[:-1] + b',"' + CLIENT_CAPABILITIES.encode() + b'":'
        self._head = head
        self._plain = Raw(head + b"{}}")

    def meta(
        self,
        passed: Raw | None,
        capabilities: Mapping[str, Any] | None,
        log_level: str | None,
        progress_token: int | None,
    ) -> Raw:
        """The object for `params._meta`.

        Args:
            passed: the caller's `_meta`, reserved keys already taken out.
            capabilities: the client's own.
            log_level: what it wants logged for this request, or None.
            progress_token: this hop's token, or None.
        """
        if passed is None and not capabilities and log_level is None and progress_token is None:
            return self._plain
        parts = [self._head, encode(dict(capabilities or {}))]
        if log_level is not None:
            parts.append(b',"' + LOG_LEVEL.encode() + b'":' + encode(log_level))
        return _closed(parts, passed, progress_token)


def legacy_meta(passed: Raw | None, progress_token: int | None) -> Raw | None:
    """`params._meta` for an upstream of the legacy era, or None when there is nothing in it."""
    if progress_token is None:
        return passed
    members = meta_members(passed)
    return Raw(b'{"progressToken":%d%s}' % (progress_token, b"," + members if members else b""))


def _closed(parts: list[bytes], passed: Raw | None, progress_token: int | None) -> Raw:
    if progress_token is not None:
        parts.append(b',"progressToken":%d' % progress_token)
    members = meta_members(passed)
    if members:
        parts.append(b"," + members)
    parts.append(b"}")
    return Raw(b"".join(parts))
