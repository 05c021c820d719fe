"""Decodes messages of upstreams, tolerantly; values stay verbatim.

Owns: decoding that saves what it can. Text that is no UTF-8, lone surrogates, levels without end
and members of the wrong kind cost what they stand in, not the answer that a client waits for; ids
are compared with those that were sent, so they are values here. (`jsonrpc` reads what clients send:
strictly, and ids stay bytes.) Never imports a transport.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Generator

import msgspec
from msgspec import Raw

from armory.protocol.bodies import beginning
from armory.protocol.jsonrpc import BOM
from armory.protocol.link import Params
from armory.protocol.outline import LARGE_BYTES, PIECE_BYTES, condensing
from armory.protocol.rawjson import NULL, excerpt, items_in_steps, members, reading
from armory.protocol.scanning.nesting import cutting
from armory.protocol.scanning.surrogates import mending
from armory.protocol.scanning.taking_apart import TooWide
from armory.protocol.scanning.utf8 import checking
from armory.protocol.scanning.values import at_once

ABSENT = Raw(b"")

_DIGITS = 15
AT_ONCE_BYTES = 5 * PIECE_BYTES
"""Frames up to this size are decoded in one go: a millisecond at the worst, while each turn of the
event loop costs as much as a piece.
"""
_IN_STEPS_BYTES = 1 << 20
"""Shorter ones take a parser less than a millisecond."""
_SCANNED_BYTES = 1 << 20
"""Looked through for a byte at a time: 0.2 ms."""
_BATCH_ITEMS = 1_000
DEEPEST = 512
"""Levels that are kept of a message that is nested too deep to be decoded."""


class UnreadableMessage(Exception):
    """The data is no JSON-RPC message."""


class UpstreamMessage(msgspec.Struct, gc=False):
    """A message from the upstream; absent members are None or empty."""

    id: int | str | float | None = None
    method: str | None = None
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT
    jsonrpc: Raw = ABSENT

    @property
    def answers(self) -> bool:
        """Whether it may be a response, perhaps an empty one. A log line may be JSON with an `id`
        of its own.
        """
        said = (self.result, self.error, self.jsonrpc)
        return any(member is not ABSENT for member in said)

    @property
    def failed(self) -> bool:
        """Whether it is an error; some servers send `"error": null` beside each result."""
        return self.error is not ABSENT and self.error != NULL


class OutlinedMessage(UpstreamMessage, gc=False):
    """A large response, decoded without its long strings.

    Attributes:
        outline: the result without them; see `protocol.outline`.
    """

    outline: bytes = b""


class TruncatedMessage(UpstreamMessage, gc=False):
    """A message that was nested too deep, without what was below `DEEPEST` levels."""


_VALUES = ("params", "result", "error", "jsonrpc")
_incoming = msgspec.json.Decoder(UpstreamMessage).decode
_DECODERS = {
    UpstreamMessage: _incoming,
    TruncatedMessage: msgspec.json.Decoder(TruncatedMessage).decode,
}


def decode(data: bytes | bytearray) -> list[UpstreamMessage]:
    """The messages in one frame: one, or several of a 2025-03-26 batch.

    Raises:
        UnreadableMessage: it is not JSON or no JSON-RPC object.
    """
    if len(data) >= LARGE_BYTES:
        return at_once(decoding(data))
    found = _read(data)  # as nearly all are: without the cost of steps
    if isinstance(found, UpstreamMessage) and _one_line(data):
        return [found]
    return at_once(_reading(data))


def decoding(
    data: bytes | bytearray,
) -> Generator[None, None, list[UpstreamMessage]]:
    """As `decode`, in steps between which other tasks run: see `outline.condensing`.

    Raises:
        UnreadableMessage: as `decode`.
    """
    if data.startswith(BOM):  # else it would be mended, and then opened in one go
        data = data[len(BOM) :]
    large = yield from _large(data)
    if large is None:
        return (yield from _reading(data))
    if not (yield from _one_line_in_steps(data)):
        data = yield from _without_line_ends(data)
        large = yield from _large(data)
    return (yield from _reading(data)) if large is None else [large]


def _reading(data: bytes | bytearray) -> Generator[None, None, list[UpstreamMessage]]:
    """The messages, in steps where they cannot be read as they are; no value in them has a line
    end, with which an event or a line would end.
    """
    found = (yield from _read_in_steps(data)) if len(data) >= _IN_STEPS_BYTES else _read(data)
    yield  # what is done with a large one takes as long again
    if not isinstance(found, UpstreamMessage):
        return (yield from _rescuing(data, found))
    if (yield from _one_line_in_steps(data)):
        return [found]
    data = yield from _without_line_ends(data)
    return [(yield from _opening(data, UpstreamMessage))]


def _one_line(data: bytes | bytearray) -> bool:
    return b"\n" not in data and b"\r" not in data


def _one_line_in_steps(data: bytes | bytearray) -> Generator[None, None, bool]:
    for at in range(0, len(data), _SCANNED_BYTES):
        end = at + _SCANNED_BYTES
        if data.find(b"\n", at, end) >= 0 or data.find(b"\r", at, end) >= 0:
            return False
        if end < len(data):
            yield
    return True


def _without_line_ends(data: bytes | bytearray) -> Generator[None, None, bytearray]:
    """Valid JSON with blanks for its line ends, which stand between values alone; in steps."""
    found = bytearray()
    for at in range(0, len(data), PIECE_BYTES):
        found += data[at : at + PIECE_BYTES].replace(b"\n", b" ").replace(b"\r", b" ")
        yield
    return found


def _read(data: bytes | bytearray) -> UpstreamMessage | Exception:
    """The message, or why it cannot be read as it is."""
    try:
        if not data.isascii():
            data.decode()  # values pass as bytes, so this is where they are checked
        return _incoming(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        return error.with_traceback(None)  # whose frames would hold it: garbage for each message


def _read_in_steps(
    data: bytes | bytearray,
) -> Generator[None, None, UpstreamMessage | Exception]:
    """As `_read`, in steps."""
    try:
        yield from checking(data)
        return (yield from reading(data, UpstreamMessage, _incoming, _VALUES))
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        return error.with_traceback(None)


def _rescuing(
    data: bytes | bytearray, why: Exception
) -> Generator[None, None, list[UpstreamMessage]]:
    """What can be decoded of it all the same, in steps.

    Raises:
        UnreadableMessage: nothing can be decoded.
    """
    yield
    text = yield from _text(data)
    if text.startswith(BOM):
        text = text[len(BOM) :]
    text = yield from mending(text)
    first = yield from beginning(text)
    if not first:
        raise UnreadableMessage("an empty body, where a JSON-RPC message was expected")
    if text is data and isinstance(why, msgspec.DecodeError) and first != b"[":
        raise _unreadable(data, why)  # it was read as it is
    try:
        return (yield from _opened(text, UpstreamMessage))
    except RecursionError as error:
        why = error.with_traceback(None)
        text = yield from cutting(text, DEEPEST)
    except msgspec.DecodeError as error:
        raise _unreadable(data, error) from None
    try:
        return (yield from _opened(text, TruncatedMessage))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _unreadable(data, why) from None


def _opened(
    text: bytes | bytearray, kind: type[UpstreamMessage]
) -> Generator[None, None, list[UpstreamMessage]]:
    """One message, or those of a batch, in steps."""
    if not (yield from _one_line_in_steps(text)):
        text = yield from _without_line_ends(text)
    if (yield from beginning(text)) != b"[":
        return [(yield from _opening(text, kind))]
    found: list[UpstreamMessage] = []
    size = 0
    for item in (yield from items_in_steps(text, _BATCH_ITEMS)):
        found.append((yield from _opening(item, kind)))
        size += len(memoryview(item))
        if size > AT_ONCE_BYTES:
            size = 0
            yield
    return found


def _opening(
    text: Raw | bytes | bytearray, kind: type[UpstreamMessage]
) -> Generator[None, None, UpstreamMessage]:
    """A message, in steps if it is large."""
    decode = _DECODERS[kind]
    if len(memoryview(text)) < _IN_STEPS_BYTES:
        return decode(text)
    return (yield from reading(text, kind, decode, _VALUES))


def _unreadable(data: bytes | bytearray, error: Exception) -> UnreadableMessage:
    return UnreadableMessage(f"not a JSON-RPC message ({error}): {excerpt(data)}")


def _text(data: bytes | bytearray) -> Generator[None, None, bytes | bytearray]:
    """The data as UTF-8, with U+FFFD for what is none; itself where it is ASCII. In steps."""
    begin = 0
    while begin < len(data) and data[begin : begin + PIECE_BYTES].isascii():
        begin += PIECE_BYTES
        yield
    if begin >= len(data):
        return data
    decode = getincrementaldecoder("utf-8")("replace").decode
    found = bytearray()
    for at in range(0, len(data), PIECE_BYTES):
        found += decode(data[at : at + PIECE_BYTES]).encode()
        yield
    found += decode(b"", True).encode()
    return found


def _large(data: bytes | bytearray) -> Generator[None, None, OutlinedMessage | None]:
    """A successful answer by its short form; None where it must be read as it is."""
    short = yield from condensing(data)
    if short is None:
        return None
    try:
        short.text.decode()
        message = _incoming(short.text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if message.method is not None or message.result is ABSENT or message.error is not ABSENT:
        return None
    outline = bytes(memoryview(message.result))
    result = short.whole(outline, data)
    return None if result is None else OutlinedMessage(message.id, result=result, outline=outline)


def own_id(said: object) -> int | None:
    """The gateway's integer id or progress token that an upstream sent back; also as text or float,
    as some servers do and SDKs accept. None: none of these.
    """
    if type(said) is int:
        return said
    if isinstance(said, str):
        return int(said) if len(said) <= _DIGITS and said.isascii() and said.isdigit() else None
    return int(said) if isinstance(said, float) and said.is_integer() else None


def params_of(message: UpstreamMessage) -> Params:
    """The members of `params`; none when it is absent or not an object.

    Raises:
        TooWide: there are too many.
    """
    try:
        return {} if message.params is ABSENT else members(message.params)
    except TooWide:
        raise
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
