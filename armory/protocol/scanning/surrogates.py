"""Lone surrogates in JSON: escapes of half a character, which some parsers refuse.

Owns: replacing them, in pieces. Opens nothing. Never imports the protocol or a transport.
"""

from __future__ import annotations

from collections.abc import Generator

PIECE_BYTES = 64 * 1024
"""Read at a time: 1 to 2 ms at the worst."""
_ESCAPE_BYTES = 6
BEYOND_BYTES = 2 * _ESCAPE_BYTES
_BACKSLASH = 0x5C
_LOWER_CASE = 0x20
_REPLACED = b"\\ufffd"


def mending(text: bytes | bytearray) -> Generator[None, None, bytes | bytearray]:
    """The same JSON with U+FFFD in place of each lone surrogate, in steps of one piece each; itself
    where it has no surrogates.
    """
    begin = 0
    while begin < len(text) and not _any_in(text, begin):
        begin += PIECE_BYTES
        yield
    if begin >= len(text):
        return text
    mended = bytearray()
    begin = 0
    while begin < len(text):
        end = piece_end(text, begin)
        mended += _mended(text[begin:end])
        begin = end
        yield
    return mended


def _any_in(text: bytes | bytearray, begin: int) -> bool:
    """Whether a surrogate's escape begins in the piece that begins there."""
    end = begin + PIECE_BYTES + len(b"\\u")
    return text.find(b"\\ud", begin, end) >= 0 or text.find(b"\\uD", begin, end) >= 0


def piece_end(text: bytes | bytearray, begin: int, piece_bytes: int = PIECE_BYTES) -> int:
    """Where a piece may end: neither inside an escape nor between two that are one character.

    At most `BEYOND_BYTES` beyond the size of a piece.
    """
    least = begin + piece_bytes
    most = least + _ESCAPE_BYTES  # what began before `least` has ended there
    end = text.find(b"\\", least, most)
    if end < 0:
        return most
    before = text[begin:end]
    if (len(before) - len(before.rstrip(b"\\"))) % 2:
        return end + 1  # it is what is escaped
    escape = text[end : end + _ESCAPE_BYTES].lower()
    low = escape[:3] == b"\\ud" and escape[3:4] in b"cdef"
    return end + _ESCAPE_BYTES if low else end


def _mended(piece: bytes | bytearray) -> bytes | bytearray:
    import numpy as np  # heavy: only for what is not well-formed

    if len(piece) < _ESCAPE_BYTES:
        return piece
    given = np.frombuffer(piece, np.uint8)
    slashes = np.flatnonzero(given == _BACKSLASH)
    number = np.arange(len(slashes))
    run = np.maximum.accumulate(np.where(np.diff(slashes, prepend=-2) != 1, number, 0))
    begins = slashes[(number - run) % 2 == 0]  # the others are what is escaped
    begins = begins[begins <= len(piece) - _ESCAPE_BYTES]
    kind = given[begins + 3] | _LOWER_CASE
    surrogate = (given[begins + 1] == ord("u")) & (given[begins + 2] | _LOWER_CASE == ord("d"))
    high = begins[surrogate & np.isin(kind, list(b"89ab"))]
    low = begins[surrogate & np.isin(kind, list(b"cdef"))]
    is_high, is_low = (np.zeros(len(piece) + 2 * _ESCAPE_BYTES, np.bool_) for _ in range(2))
    is_high[high + _ESCAPE_BYTES], is_low[low] = True, True
    lone = np.concatenate((high[~is_low[high + _ESCAPE_BYTES]], low[~is_high[low]]))
    if not len(lone):
        return piece
    mended = given.copy()
    mended[lone[:, None] + np.arange(_ESCAPE_BYTES)] = np.frombuffer(_REPLACED, np.uint8)
    return mended.tobytes()
