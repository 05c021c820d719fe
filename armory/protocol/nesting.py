"""How deep JSON is nested, told from its bytes in passes whose work grows with their number alone.

Owns: measuring and cutting. Opens nothing, so neither depth nor a broken text costs more. Never
imports the protocol or a transport.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_NO_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_QUOTE = ord('"')
PIECE_BYTES = 64 * 1024
"""Looked at in one go: what takes 1 to 2 ms at the worst."""
_LARGE_BYTES = 16 * 1024
"""From here on brackets are searched for: `bytes.count` takes sixty times as long for a byte."""


def deeper_than(data: bytes, limit: int) -> bool:
    """Whether objects and arrays are nested deeper than `limit` levels.

    Brackets are counted first, which is all that a usual message costs; only one that has more of
    them than the limit is looked at closely, and only to the place where it is too deep.
    """
    if len(data) < _LARGE_BYTES and data.count(b"{") + data.count(b"[") <= limit:
        return False
    return any(pieces_deeper_than(data, limit))


def pieces_deeper_than(data: bytes, limit: int) -> Iterator[bool]:
    """The same for piece after piece of at most `PIECE_BYTES`, up to the first that is too deep.

    Nothing is told of what has no more brackets than the limit allows.
    """
    if not _more_brackets(data, limit):
        return
    depth, quoted, at = 0, False, 0
    while at < len(data):
        piece = data[at : at + PIECE_BYTES]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # what is escaped goes with its escape
            piece = data[at : at + PIECE_BYTES + 1]
        at += len(piece)
        # Without escapes every quote opens or closes a string, so its parity says what is inside.
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_STRUCTURE)
        if not plain:
            yield False
            continue
        levels = _depth(plain, quoted)
        if depth + int(levels.max(initial=0)) > limit:
            yield True
            return
        depth += int(levels[-1])
        quoted ^= plain.count(b'"') % 2 == 1
        yield False


def _more_brackets(data: bytes, limit: int) -> bool:
    """Whether more than `limit` brackets open in it, be they structure or text."""
    if len(data) < _LARGE_BYTES:
        return data.count(b"{") + data.count(b"[") > limit
    left = limit
    for bracket in (b"{", b"["):
        at = data.find(bracket)
        while at >= 0:
            if not left:
                return True
            left -= 1
            at = data.find(bracket, at + 1)
    return False


def cut(data: bytes, limit: int) -> bytes:
    """The same with a `0` in place of each object and array that begins below `limit` levels."""
    import numpy as np  # heavy: only for what has more brackets than levels are allowed

    whole = np.frombuffer(data, np.uint8)
    deep = _depth(data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")) > limit
    before = np.concatenate((np.zeros(1, np.bool_), deep[:-1]))
    begins, ends = deep & ~before, before & ~deep
    return np.where(begins, np.uint8(ord("0")), whole)[begins | ~(deep | ends)].tobytes()


def _depth(plain: bytes, quoted: bool = False) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Levels that are open after each byte of JSON without escapes; begun in a string or not."""
    import numpy as np

    given = np.frombuffer(plain, np.uint8)
    steps = _steps()[given]
    steps[np.bitwise_xor.accumulate(given == _QUOTE) ^ quoted] = 0
    return np.cumsum(steps, dtype=np.int32)


@cache
def _steps() -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """By byte: how many levels it opens."""
    import numpy as np

    steps = np.zeros(256, np.int8)
    steps[list(b"[{")] = 1
    steps[list(b"]}")] = -1
    return steps
