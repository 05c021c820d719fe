"""The JSON-RPC envelope: opened one level, values and ids stay the bytes that came.

Owns: encoding of every message, a large one in parts, error objects, and decoding of what clients
send. That decoding is strict, since whoever sends something wrong is told so under the id that they
gave; what upstreams send is read by `upstream_messages`, which saves what it can. Never imports a
transport.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from armory.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from armory.protocol.errors import Malformed
from armory.protocol.rawjson import NULL as NULL_VALUE
from armory.protocol.rawjson import (
    assembled,
    brief,
    encode,
    excerpt,
    members,
    opening,
    opening_named,
    pack,
    text_or_none,
    value,
)
from armory.protocol.scanning.taking_apart import MOST_MEMBERS, TooWide

NULL = b"null"

MAX_ID_BYTES = 4 * 1024
"""Longer ids are not read: every answer repeats the id, and so do logs and errors."""
_DATA_BYTES = 64 * 1024
"""Of an error; what the gateway looks for in it is short."""
_MESSAGE_CHARS = 4_000
"""Of an error that is told further, in logs and in a status; the error itself passes as it is."""
_CODES = 1 << 53
"""Codes are smaller: larger ones are thousands of digits, perhaps."""
_VALUES = ("params", "result", "error", "id")
_NO_MESSAGE = "the body is not a JSON-RPC message"
_PLACE = re.compile(r" \(byte \d+\)")
_VERSION = b'"2.0"'
_VERSION_BYTES = 20
"""Room for the version with every character escaped."""


class Message(msgspec.Struct, gc=False):
    """One message; members that did not come are UNSET."""

    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        """A method and an id."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_notification(self) -> bool:
        """A method without an id."""
        return self.method is not UNSET and self.id is UNSET

    @property
    def key(self) -> bytes:
        """The id as bytes: a string and a number that look alike stay different."""
        return b"" if self.id is UNSET else bytes(memoryview(self.id))


class ErrorObject(msgspec.Struct, gc=False):
    """An error object as far as Armory reads it."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Any = None


class _Error(msgspec.Struct, gc=False):
    code: int = INTERNAL_ERROR
    message: str = ""
    data: Raw = NULL_VALUE


class _Code(msgspec.Struct, gc=False):
    code: int = INTERNAL_ERROR


class _Request(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int | str
    method: str
    params: Mapping[str, Raw]


class _Notification(msgspec.Struct, gc=False, omit_defaults=True):
    jsonrpc: str
    method: str
    params: Mapping[str, Raw] | None = None


Part = bytes | memoryview
_PART_BYTES = 64 * 1024
BOM = b"\xef\xbb\xbf"
"""The byte order mark in UTF-8, which who reads JSON may ignore (RFC 8259, 8.1)."""
_message = msgspec.json.Decoder(Message)
_id = msgspec.json.Decoder(str | int)
_error = msgspec.json.Decoder(_Error)
_code = msgspec.json.Decoder(_Code)


def decode(body: bytes | Raw) -> Message:
    """One message; before the first one some programs write a byte order mark.

    Raises:
        Malformed: it is none.
    """
    try:
        message = _message.decode(body)
    except (msgspec.ValidationError, RecursionError):
        raise Malformed(INVALID_REQUEST, _NO_MESSAGE, _id_in(body)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        begins = bytes(memoryview(body)[:6])
        if begins.startswith(BOM) and not begins.endswith(BOM):
            return decode(bytes(memoryview(body)[3:]))
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {error}") from None
    return _checked(message)


def decoding(body: bytes | Raw) -> Generator[None, None, Message]:
    """As `decode`, of a large one, in steps.

    Raises:
        Malformed: it is none.
    """
    if bytes(memoryview(body)[: len(BOM)]) == BOM:
        body = bytes(memoryview(body)[len(BOM) :])
    try:
        found = yield from opening_named(body, Message.__struct_fields__)
    except msgspec.ValidationError:
        raise Malformed(INVALID_REQUEST, _NO_MESSAGE, NULL) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        why = _PLACE.sub("", str(error))  # within a piece
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {why}") from None
    try:
        return _checked(assembled(found, _message.decode, _VALUES))
    except UnicodeDecodeError as error:
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {error}") from None
    except (msgspec.ValidationError, RecursionError):
        id = found.get("id")
        raise Malformed(INVALID_REQUEST, _NO_MESSAGE, (id and _id_of(id)) or NULL) from None


def _checked(message: Message) -> Message:
    if not _is_version(message.jsonrpc):
        raise Malformed(
            INVALID_REQUEST,
            f'jsonrpc is {brief(_or_null(message.jsonrpc))}; expected "2.0"',
            _valid_id(message) or NULL,
        )
    if _answers_nothing(message):
        return message
    if message.id is not UNSET and _valid_id(message) is None:
        raise Malformed(
            INVALID_REQUEST,
            f"id is {brief(message.id)}; expected a string or an integer of at most "
            f"{MAX_ID_BYTES:,} bytes",
        )
    if message.method is UNSET:
        if message.id is UNSET or (message.result is UNSET) == (message.error is UNSET):
            raise Malformed(
                INVALID_REQUEST,
                "neither a request, a notification nor a response",
                _valid_id(message) or NULL,
            )
    elif message.result is not UNSET or message.error is not UNSET:
        raise Malformed(INVALID_REQUEST, "a request and a response at once", NULL)
    return message


BEGINNING_BYTES = 1_024
"""How much of a message `begun` needs in order to tell what it will be."""
_PARAMS = b'"params"'


def begun(head: bytes) -> Message | None:
    """The message that begins with these bytes, its params left out. None where the params do not
    begin within them, or its id is not valid.
    """
    before, found, _ = head[:BEGINNING_BYTES].partition(_PARAMS)
    if not found:
        return None
    try:  # JSON only where what was found is a member of the message itself
        message = _message.decode(before + _PARAMS + b":null}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return None if message.id is not UNSET and _valid_id(message) is None else message


def params_of(message: Message) -> dict[str, Raw]:
    """The members of `params`; none where there are none, or null stands for that.

    Raises:
        Malformed: `params` is no object.
    """
    if message.params is UNSET:
        return {}
    try:
        return members(message.params)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _no_params(message, message.params, error)


def opening_params(message: Message) -> Generator[None, None, dict[str, Raw]]:
    """As `params_of`, in steps."""
    if message.params is UNSET:
        return {}
    try:
        return (yield from opening(message.params))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _no_params(message, message.params, error)


def _no_params(message: Message, params: Raw, why: Exception) -> dict[str, Raw]:
    """None, where null stands for that; else it is said why they cannot be read."""
    id = message.key or NULL
    if isinstance(why, TooWide):
        said = f"params has more than {MOST_MEMBERS:,} members"
        raise Malformed(INVALID_PARAMS, said, id) from None
    if params == NULL_VALUE:
        return {}
    said = f"params is {brief(params)}; expected an object"
    raise Malformed(INVALID_PARAMS, said, id) from None


def _is_version(said: Raw | UnsetType) -> bool:
    if said is UNSET:
        return False
    if len(memoryview(said)) > _VERSION_BYTES:
        return False
    return bytes(memoryview(said)) == _VERSION or text_or_none(said) == "2.0"


def _answers_nothing(message: Message) -> bool:
    """Whether it is an error that names no request. Answering one with another would go on for ever
    between two peers that both do.
    """
    if message.method is not UNSET or message.result is not UNSET or message.error is UNSET:
        return False
    return message.id is UNSET or bytes(memoryview(message.id)) == NULL


def _or_null(said: Raw | UnsetType) -> Raw:
    return NULL_VALUE if said is UNSET else said


def _valid_id(message: Message) -> bytes | None:
    return None if message.id is UNSET else _id_of(message.id)


def _id_in(body: bytes | Raw) -> bytes:
    try:
        id = members(body).get("id")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return NULL
    return NULL if id is None else _id_of(id) or NULL


def _id_of(raw: Raw) -> bytes | None:
    """The id as bytes; None: it is too long, or none."""
    view = memoryview(raw)
    if len(view) > MAX_ID_BYTES:
        return None
    try:
        _id.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return bytes(view)


def response(id: bytes, result: bytes | Raw) -> bytes:
    """A result as it goes on the wire."""
    return b"".join(response_parts(id, (memoryview(result),)))


def response_parts(
    id: bytes, result: tuple[bytes | memoryview, ...]
) -> tuple[bytes | memoryview, ...]:
    """The same in parts: a join copies at memory speed, bytes formatting byte by byte."""
    return b'{"jsonrpc":"2.0","id":', id, b',"result":', *result, b"}"


def error_response(id: bytes, error: bytes | Raw) -> bytes:
    """An error object as it goes on the wire."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"error":', memoryview(error), b"}"))


def error(code: int, message: str, data: Any = None) -> Raw:
    """An error object."""
    content: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        content["data"] = data
    return pack(content)


def error_of(error: Raw) -> ErrorObject:
    """Code, message and data of an error object, as far as they can be read; of long data none, of
    a long message the beginning.
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


def code_of(error: Raw) -> int:
    """The code in an error object; INTERNAL_ERROR where it has none."""
    try:
        return _own(_code.decode(error).code)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return INTERNAL_ERROR


def _own(code: int) -> int:
    return code if -_CODES < code < _CODES else INTERNAL_ERROR


def notification(method: str, params: Mapping[str, Raw] | None) -> bytes:
    """A notification as it goes on the wire; None: it has no `params`."""
    return encode(_Notification("2.0", method, params))


def request(id: int | str, method: str, params: Mapping[str, Raw]) -> bytes:
    """A request as it goes on the wire."""
    return encode(_Request("2.0", id, method, params))


class Parted:
    """A large message in parts; its length is that of all of them, in bytes.

    Args:
        parts: in order; nobody changes them any more.
        size: of all of them, in bytes.
    """

    __slots__ = ("_size", "parts")

    def __init__(self, parts: tuple[Part, ...], size: int) -> None:
        self.parts = parts
        self._size = size

    def __len__(self) -> int:
        return self._size


def request_in_parts(id: int | str, method: str, params: Mapping[str, Raw]) -> Parted:
    """As `request`; large members of `params` are parts of their own, small ones share some."""
    parts: list[Part] = []
    short: list[Part] = [
        b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":{' % (encode(id), encode(method))
    ]
    size = 0
    separator = b""
    for name, raw in params.items():
        value = memoryview(raw)
        short.append(b"%b%b:" % (separator, encode(name)))
        separator = b","
        if len(value) >= _PART_BYTES:
            parts += (b"".join(short), value)
            short, size = [], 0
            continue
        short.append(value)
        size += len(value)
        if size >= _PART_BYTES:
            parts.append(b"".join(short))
            short, size = [], 0
    parts.append(b"".join((*short, b"}}")))
    return Parted(tuple(parts), sum(map(len, parts)))
