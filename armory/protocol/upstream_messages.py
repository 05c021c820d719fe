"""What upstreams send, decoded: envelopes in, values untouched.

Owns: decoding that saves what it can. Text that is no UTF-8, lone surrogates, levels without end
and members of the wrong kind cost what they stand in, not the answer that a client waits for; ids
are compared with those that were sent, so they are values here. (`jsonrpc` reads what clients send:
strictly, and ids stay bytes.) Never imports a transport.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import msgspec
from msgspec import Raw

from armory.protocol.link import Params
from armory.protocol.nesting import cut, deeper_than
from armory.protocol.outline import LARGE_BYTES, at_once, condensing
from armory.protocol.rawjson import excerpt, items, members_or_none

ABSENT = Raw(b"")

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
NULL = b"null"
_DIGITS = 15
DEEPEST = 512
"""Levels of what is kept of a message that is nested too deep to be opened."""


class UnreadableMessage(Exception):
    """What came is no JSON-RPC message."""


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
        """Whether it may be an answer, though perhaps an empty one. A line of log may be JSON with
        an `id` of its own.
        """
        said = (self.result, self.error, self.jsonrpc)
        return any(member is not ABSENT for member in said)

    @property
    def failed(self) -> bool:
        """Whether it says what went wrong; some servers say beside each result that nothing did."""
        return self.error is not ABSENT and bytes(memoryview(self.error)) != NULL


class OutlinedMessage(UpstreamMessage, gc=False):
    """A large answer, read without going through its long strings.

    Attributes:
        outline: the result without them; see `protocol.outline`.
    """

    outline: bytes = b""


class TruncatedMessage(UpstreamMessage, gc=False):
    """A message that was nested too deep: without what stood below `DEEPEST` levels."""


_incoming = msgspec.json.Decoder(UpstreamMessage).decode
_cut = msgspec.json.Decoder(TruncatedMessage).decode


def decode(data: bytes | bytearray) -> list[UpstreamMessage]:
    """The messages in one frame: one, or several of a 2025-03-26 batch.

    Raises:
        UnreadableMessage: it is not JSON or no JSON-RPC object.
    """
    return at_once(decoding(data)) if len(data) >= LARGE_BYTES else _in_one_line(data)


def decoding(
    data: bytes | bytearray,
) -> Generator[None, None, list[UpstreamMessage]]:
    """The same in steps, between which others have their turn: see `outline.condensing`.

    Raises:
        UnreadableMessage: as `decode`.
    """
    large = yield from _large(data)
    if large is None:
        return _in_one_line(data)
    if b"\n" in data or b"\r" in data:
        large = yield from _large(_without_line_ends(data))
    return _in_one_line(data) if large is None else [large]


def _in_one_line(data: bytes | bytearray) -> list[UpstreamMessage]:
    """The messages; no value in them has a line end, with which an event or a line would end."""
    found = _decoded(data)
    return _decoded(_without_line_ends(data)) if b"\n" in data or b"\r" in data else found


def _without_line_ends(data: bytes | bytearray) -> bytes | bytearray:
    """The same; in what was read as JSON they stand between values alone."""
    return data.replace(b"\n", b" ").replace(b"\r", b" ")


def _decoded(data: bytes | bytearray) -> list[UpstreamMessage]:
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
            return [opened(item) for item in (items(text) if _is_batch(text) else (text,))]
        except (msgspec.DecodeError, RecursionError):
            pass
        raise UnreadableMessage(f"not a JSON-RPC message ({error}): {excerpt(data)}") from None


def _is_batch(text: bytes) -> bool:
    return text.lstrip()[:1] == b"["


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


def own_id(said: object) -> int | None:
    """The id or progress token of the gateway's, which are integers, that an upstream gives back;
    some make a text or a float of it, which SDKs take as well. None: it is none.
    """
    if type(said) is int:
        return said
    if isinstance(said, str):
        return int(said) if len(said) <= _DIGITS and said.isascii() and said.isdigit() else None
    return int(said) if isinstance(said, float) and said.is_integer() else None


def params_of(message: UpstreamMessage) -> Params:
    """The members of `params`; none when it is absent or not an object."""
    return {} if message.params is ABSENT else members_or_none(message.params) or {}
