"""Outlines of large JSON: the same structure without long strings, cheap to inspect.

Owns: leaving strings out, and finding a place of the short form in the long one. A screenshot or a
file in base64 is one string of a mebibyte; every search for a key and every parse of the envelope
would go through all of it. Never imports a transport.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from armory.protocol.rawjson import EMPTY_OBJECT, encode, items_in_steps, opening
from armory.protocol.scanning.taking_apart import TooWide
from armory.protocol.scanning.values import at_once

LARGE_BYTES = 16 * 1024
"""Smaller messages are read whole."""
PIECE_BYTES = 256 * 1024
"""How much of a long string is read at a time: 0.2 ms at the worst."""
_LONG = 4_096
_QUOTES = 256
_ITEMS = 1_000
_SPACE = 0x20
_ASCII = 0x80
LINKS = _URI, _TASK, _RESOURCE = b'"uri"', b'"taskId"', b'esourceUri"'
"""A result in which names are mapped has one of these."""
_KEPT_BYTES = 64 * 1024
"""Members that are longer even without their long texts are not kept, only whether they contain
`LINKS`."""
_COPIED_BYTES = 1 << 20
"""Largest result that is copied to look for its short form. That of larger ones was found while
they were decoded, and copying them once more takes long."""
_LISTS = ("content", "contents")
_TEXTS = ("text", "data", "blob")
_STRING, _NOTHING = Raw(b'""'), Raw(b"[]")


@dataclass(frozen=True, slots=True)
class Condensed:
    """JSON without its long strings.

    Attributes:
        text: the short form; in place of each long string stands an empty one.
        cuts: (where in `text`, bytes left out there), in order.
    """

    text: bytes
    cuts: tuple[tuple[int, int], ...]

    def whole(self, part: bytes, data: bytes | bytearray) -> Raw | None:
        """The part of the original that `part` of the short form stands for, as a view of `data`.
        None where `part` occurs there more than once.
        """
        begin = self.text.find(part)
        if begin < 0 or not part or self.text.find(part, begin + 1) >= 0:
            return None
        return Raw(memoryview(data)[self._place(begin) : self._place(begin + len(part))])

    def _place(self, position: int) -> int:
        return position + sum(size for at, size in self.cuts if at < position)


def condensed(data: bytes | bytearray) -> Condensed | None:
    """The short form; None where no long string can be left out, or too many quotes come before.

    Strings with escapes stay, and so does everything that a parser would refuse: only strings that
    are known to be valid are left out. The parser of `text` checks the rest.
    """
    return at_once(condensing(data))


def condensing(data: bytes | bytearray) -> Generator[None, None, Condensed | None]:
    """As `condensed`, in steps of at most `PIECE_BYTES` of a long string."""
    find = data.find
    parts: list[memoryview] = []
    cuts: list[tuple[int, int]] = []
    view = memoryview(data)
    copied = position = length = 0
    for _ in range(_QUOTES):
        begin = find(b'"', position)
        if begin < 0:
            break
        begin += 1
        end = find(b'"', begin)
        if end - begin > _LONG and (yield from _plain(view[begin:end], data, begin, end)):
            parts.append(view[copied:begin])
            length += begin - copied
            cuts.append((length, end - begin))
            copied = end
        else:
            end = _closing(data, end)
        if end < 0:
            return None
        position = end + 1
    else:
        return None
    if not cuts:
        return None
    parts.append(view[copied:])
    return Condensed(b"".join(parts), tuple(cuts))


def _closing(data: bytes | bytearray, quote: int) -> int:
    """The first quote from `quote` on that is not escaped; -1 where there is none in reach."""
    for _ in range(_QUOTES):
        if quote < 0:
            return -1
        before = quote
        while before > 0 and data[before - 1] == 0x5C:
            before -= 1
        if (quote - before) % 2 == 0:
            return quote
        quote = data.find(b'"', quote + 1)
    return -1


def _plain(
    string: memoryview, data: bytes | bytearray, begin: int, end: int
) -> Generator[None, None, bool]:
    """Whether the inside of a string is valid and has no escapes."""
    if data.find(b"\\", begin, end) >= 0:
        return False
    import numpy as np  # heavy: only for a long text

    values = np.frombuffer(string, np.uint8)
    at, size = 0, len(string)
    while at < size:
        piece = values[at : at + PIECE_BYTES]
        if int(piece.min()) < _SPACE:
            return False
        last = at + len(piece) >= size
        if int(piece.max()) < _ASCII:
            at += len(piece)
        else:
            try:
                at += utf_8_decode(string[at : at + PIECE_BYTES], "strict", last)[1]
            except UnicodeDecodeError:
                return False
        if not last:
            yield
    return True


def outlined(result: Raw) -> bytes:
    """A result for inspection: itself where it is small, else without its long strings.

    Keys and short values stay, except the inside of a large `structuredContent`, which only
    concerns the tool. What cannot be split stays whole; a result with too many members has no
    outline, since it passes unchanged.
    """
    view = memoryview(result)
    if len(view) < LARGE_BYTES:  # most are: what is read whole takes no steps
        return bytes(view)
    return at_once(outlining(result))


def outlining(result: Raw) -> Generator[None, None, bytes]:
    """As `outlined`, of a large result, in steps."""
    view = memoryview(result)
    short = condensed(bytes(view)) if len(view) <= _COPIED_BYTES else None
    if short is not None and len(short.text) < LARGE_BYTES:
        return short.text
    try:
        return (yield from _without_texts(result))
    except TooWide:
        return b""
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return bytes(view)


def _without_texts(text: Raw) -> Generator[None, None, bytes]:
    result = yield from opening(text)
    yield
    for name, raw in result.items():
        if len(memoryview(raw)) <= _LONG:
            continue
        if name == "structuredContent":
            result[name] = EMPTY_OBJECT
            continue
        short = (yield from _short_items(raw)) if name in _LISTS else raw
        if len(memoryview(short)) > _KEPT_BYTES:
            short = yield from _links_in(short)
        result[name] = short
    return encode(result)


def has_links(raw: Raw | bytes) -> bool:
    """Whether one of `LINKS` occurs in it, so that there may be a name to map."""
    view = memoryview(raw)
    if len(view) > PIECE_BYTES:  # a look through all of it would keep the interpreter
        return at_once(_link_in(view)) is not None
    data = raw if type(raw) is bytes else bytes(view)
    return _URI in data or _TASK in data or _RESOURCE in data


def _links_in(long: Raw) -> Generator[None, None, Raw]:
    """What stands for a long value: a word of `LINKS` where one is in it, else nothing."""
    word = yield from _link_in(memoryview(long))
    return _NOTHING if word is None else Raw(b'["%b]' % word.removeprefix(b'"'))


def _link_in(view: memoryview) -> Generator[None, None, bytes | None]:
    """The first word of `LINKS` that is found, looked for in steps."""
    more = max(map(len, LINKS))
    for at in range(0, len(view), PIECE_BYTES):
        piece = bytes(view[at : at + PIECE_BYTES + more])
        for word in LINKS:
            if word in piece:
                return word
        yield
    return None


def _short_items(listed: Raw) -> Generator[None, None, Raw]:
    """A list without the long strings in its items; a very long list stays whole."""
    try:
        items = yield from items_in_steps(listed, _ITEMS)
    except TooWide:
        return listed
    found: list[Raw | dict[str, Any]] = []
    gone_through = 0
    for item in items:
        found.append((yield from _short(item)))
        gone_through += len(memoryview(item))
        if gone_through > _KEPT_BYTES:
            gone_through = 0
            yield
    return Raw(encode(found))


def _short(item: Raw) -> Generator[None, None, Raw | dict[str, Any]]:
    """An item without its long strings; for one with too many members, whether it has `LINKS`."""
    if len(memoryview(item)) <= _LONG:
        return item
    try:
        block = yield from opening(item)
    except TooWide:
        return (yield from _links_in(item))
    for name in _TEXTS:
        text = block.get(name)
        if text is not None and len(view := memoryview(text)) > _LONG and view[0] == 0x22:
            block[name] = _STRING
    resource = block.get("resource")
    if resource is not None and len(memoryview(resource)) > _LONG:
        block["resource"] = Raw(encode((yield from _short(resource))))
    return block
