"""Decodes messages of clients one level deep; values and ids stay the original bytes.

Owns: the decoding of messages and of their params. It is strict: whoever sends something wrong is
told so under the id that they gave. Only lone surrogates, which are JSON, become U+FFFD: a text cut
inside an emoji has one. Never imports a transport.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import msgspec
from msgspec import UNSET, Raw, UnsetType

from armory.protocol.codes import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from armory.protocol.errors import Malformed
from armory.protocol.rawjson import NULL as NULL_VALUE
from armory.protocol.rawjson import (
    assembled,
    brief,
    members,
    opening,
    opening_named,
    says_nothing,
    text_or_none,
)
from armory.protocol.scanning.surrogates import mending
from armory.protocol.scanning.taking_apart import MOST_MEMBERS, TooWide
from armory.protocol.scanning.utf8 import checking
from armory.protocol.scanning.values import at_once

NULL = b"null"
MAX_ID_BYTES = 4 * 1024
"""Longer ids are not read: every answer repeats the id, and so do logs and errors."""
BOM = b"\xef\xbb\xbf"
"""The byte order mark in UTF-8, which who reads JSON may ignore (RFC 8259, 8.1)."""
BEGINNING_BYTES = 1_024
"""How much of a message `begun` needs in order to tell what it will be."""
_PARAMS = b'"params"'
_VALUES = ("params", "result", "error", "id")
_NO_MESSAGE = "the body is not a JSON-RPC message"
_PLACE = re.compile(r" \(byte \d+\)| in position \d+(?:-\d+)?")
_VERSION = Raw(b'"2.0"')
_VERSION_BYTES = 20
"""Room for the version with every character escaped."""


class Message(msgspec.Struct, gc=False):
    """One message; absent members are UNSET."""

    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        """Whether it has a method and an id."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_notification(self) -> bool:
        """Whether it has a method and no id."""
        return self.method is not UNSET and self.id is UNSET

    @property
    def key(self) -> bytes:
        """The id as bytes: a string and a number that look alike differ."""
        return b"" if self.id is UNSET else bytes(memoryview(self.id))


_message = msgspec.json.Decoder(Message)
_id = msgspec.json.Decoder(str | int)


def decode(body: bytes | Raw) -> Message:
    """Decode one message; a byte order mark, which some programs write first, is skipped.

    Raises:
        Malformed: the data is no message.
    """
    data = body if type(body) is bytes else bytes(memoryview(body))
    try:
        if not data.isascii():
            data.decode()  # values pass as bytes, and many servers end where those are no UTF-8
        message = _message.decode(body)
    except (msgspec.ValidationError, RecursionError):
        raise Malformed(INVALID_REQUEST, _NO_MESSAGE, _id_in(body)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        begins = data[:6]
        if begins.startswith(BOM) and not begins.endswith(BOM):
            return decode(data[3:])
        if (mended := at_once(mending(data))) != data:
            return decode(bytes(mended))
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {error}") from None
    return _checked(message)


def decoding(body: bytes | Raw) -> Generator[None, None, Message]:
    """As `decode`, for a large message, in steps.

    Raises:
        Malformed: the data is no message.
    """
    if bytes(memoryview(body)[: len(BOM)]) == BOM:
        body = bytes(memoryview(body)[len(BOM) :])
    try:
        return (yield from _decoding(body))
    except Malformed as bad:
        if bad.code != PARSE_ERROR:
            raise
        data = bytes(memoryview(body))
        mended = yield from mending(data)
        if mended == data:
            raise
    return (yield from _decoding(bytes(mended)))


def _decoding(body: bytes | Raw) -> Generator[None, None, Message]:
    try:
        yield from checking(memoryview(body))
        found = yield from opening_named(body, Message.__struct_fields__)
    except msgspec.ValidationError:
        raise Malformed(INVALID_REQUEST, _NO_MESSAGE, NULL) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        why = _PLACE.sub("", str(error))  # within a piece
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {why}") from None
    try:
        return _checked(assembled(found, _message.decode, _VALUES))
    except (msgspec.ValidationError, RecursionError):
        id = found.get("id")
        raise Malformed(INVALID_REQUEST, _NO_MESSAGE, (id and _id_of(id)) or NULL) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # the one up to msgspec 0.22
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {error}") from None


def _checked(message: Message) -> Message:
    usual = message.method is not UNSET and message.jsonrpc == _VERSION
    if usual and message.result is UNSET and message.error is UNSET:
        id = message.id
        if id is UNSET or _id_of(id) is not None:
            return message
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


def opening_message(head: bytes) -> Message | None:
    """The message that begins with these bytes, without its params. None where the params do not
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
    """The members of `params`; none where there are none, as null and an empty array say too.

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
    """None, where that is said in another way; else it is said why they cannot be read."""
    id = message.key or NULL
    if isinstance(why, TooWide):
        said = f"params has more than {MOST_MEMBERS:,} members"
        raise Malformed(INVALID_PARAMS, said, id) from None
    if says_nothing(params):
        return {}
    said = f"params is {brief(params)}; expected an object"
    raise Malformed(INVALID_PARAMS, said, id) from None


def _is_version(said: Raw | UnsetType) -> bool:
    if said is UNSET:
        return False
    if len(memoryview(said)) > _VERSION_BYTES:
        return False
    return said == _VERSION or text_or_none(said) == "2.0"


def _answers_nothing(message: Message) -> bool:
    """Whether it is an error without an id. Answering it with another error would never end between
    two peers that both do so.
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
