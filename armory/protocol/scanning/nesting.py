"""The nesting depth of JSON, measured on its bytes in linear time.

Owns: measuring and cutting. Opens nothing, so neither depth nor a broken text costs more. Never
imports the protocol or a transport.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_NO_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_QUOTE, _COMMA = ord('"'), ord(",")
PIECE_BYTES = 64 * 1024
"""Read at a time: 1 to 2 ms at the worst."""
_LARGE_BYTES = 16 * 1024
"""From this size on brackets are searched for: `bytes.count` takes sixty times as long."""


def deeper_than(data: bytes, limit: int) -> bool:
    """Whether objects and arrays are nested deeper than `limit` levels.

    Brackets are counted first, which is all that a usual message costs; only one that has more of
    them than the limit is looked at closely, and only to the place where it is too deep.
    """
    if len(data) < _LARGE_BYTES and data.count(b"{") + data.count(b"[") <= limit:
        return False
    return any(pieces_deeper_than(data, limit))


def pieces_deeper_than(data: bytes, limit: int) -> Iterator[bool]:
    """As `deeper_than`, for each piece of at most `PIECE_BYTES`, up to the first that is too deep.

    Yields nothing where there are no more brackets than the limit allows.
    """
    return DepthScan(limit).feed(data)


class DepthScan:
    """Detects JSON that is nested too deep while it arrives, at the first piece that shows it.

    Args:
        limit: levels of objects and arrays that are allowed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._waiting: list[bytes] | None = []  # None: every further bit is looked at closely
        self._depth, self._quoted, self._escaped = 0, False, False

    def feed(self, data: bytes) -> Iterator[bool]:
        """Scan the next bytes; for each piece that is scanned closely, whether it is too deep.

        Ends with the first that is. Yields nothing until there are more brackets than allowed
        levels.
        """
        waiting = self._waiting
        if waiting is None:
            waiting = [data]
        else:
            waiting.append(data)
            self._left = _fewer_brackets(data, self._left)
            if self._left >= 0:
                return
            self._waiting = None
        for part in waiting:
            for at in range(0, len(part), PIECE_BYTES):
                deeper = self._deeper(part[at : at + PIECE_BYTES])
                yield deeper
                if deeper:
                    return

    def _deeper(self, piece: bytes) -> bool:
        if self._escaped:  # what is escaped goes with its escape
            piece = piece[1:]
        self._escaped = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
        # Without escapes every quote opens or closes a string, so its parity says what is inside.
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_STRUCTURE)
        if not plain:
            return False
        levels = _depth(plain, self._quoted)
        if self._depth + int(levels.max(initial=0)) > self._limit:
            return True
        self._depth += int(levels[-1])
        self._quoted ^= plain.count(b'"') % 2 == 1
        return False


def _fewer_brackets(data: bytes, left: int) -> int:
    """`left` less the opening brackets in it (in strings, too); -1 where it has more."""
    if len(data) < _LARGE_BYTES:
        return max(left - data.count(b"{") - data.count(b"["), -1)
    for bracket in (b"{", b"["):
        at = data.find(bracket)
        while at >= 0:
            if not left:
                return -1
            left -= 1
            at = data.find(bracket, at + 1)
    return left


def cutting(data: bytes | bytearray, limit: int) -> Generator[None, None, bytearray]:
    """The bytes with `0` in place of each object and array below `limit` levels; in steps."""
    import numpy as np  # heavy: only for what has more brackets than levels are allowed

    cut = bytearray()
    depth, quoted, begin, was_deep = 0, False, 0, False
    while begin < len(data):
        piece = _piece(data, begin, PIECE_BYTES)
        plain = without_escapes(piece)
        levels = depth + _depth(plain, quoted)
        deep = levels > limit
        before = np.concatenate((np.array([was_deep]), deep[:-1]))
        begins, ends = deep & ~before, before & ~deep
        whole = np.where(begins, np.uint8(ord("0")), np.frombuffer(piece, np.uint8))
        cut += whole[begins | ~(deep | ends)].tobytes()
        depth, was_deep = int(levels[-1]), bool(deep[-1])
        quoted ^= plain.count(b'"') % 2 == 1
        begin += len(piece)
        yield
    return cut


def item_ends(
    data: bytes | memoryview, begin: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[int | None]:
    """Where items of an array end, piece by piece: the last comma between two items in each; None
    for a piece without one.

    Args:
        data: JSON.
        begin: where an item of the array begins.
        piece_bytes: of each piece.
    """
    import numpy as np

    depth, quoted = 0, False
    while begin < len(data):
        piece = _piece(data, begin, piece_bytes)
        plain = without_escapes(piece)
        given = np.frombuffer(plain, np.uint8)
        levels = depth + _depth(plain, quoted)
        texts = np.bitwise_xor.accumulate(given == _QUOTE) ^ quoted
        found = np.flatnonzero((given == _COMMA) & (levels == 0) & ~texts)
        yield begin + int(found[-1]) if len(found) else None
        depth = int(levels[-1])
        quoted ^= plain.count(b'"') % 2 == 1
        begin += len(piece)


def levels_at_last_comma(piece: bytes) -> tuple[int, int, bytes] | None:
    """The last comma outside strings: its position, how many levels that were open before the piece
    are closed there, and which brackets are open since. None: there is none.

    Args:
        piece: of JSON, begun in no text.
    """
    import numpy as np

    plain = without_escapes(piece)
    given = np.frombuffer(plain, np.uint8)
    texts = np.bitwise_xor.accumulate(given == _QUOTE)
    commas = np.flatnonzero((given == _COMMA) & ~texts)
    if not len(commas):
        return None
    cut = int(commas[-1])
    levels = _depth(plain[:cut])
    lowest_since = np.minimum.accumulate(levels[::-1])[::-1]
    opening = (_steps()[given[:cut]] == 1) & ~texts[:cut] & (levels == lowest_since)
    return cut, max(0, -int(levels.min(initial=0))), given[:cut][opening].tobytes()


def _piece(data: bytes | bytearray | memoryview, begin: int, size: int) -> bytes:
    """`size` bytes of JSON from `begin` on, extended to the end of an escape."""
    piece = bytes(data[begin : begin + size])
    escapes = (len(piece) - len(piece.rstrip(b"\\"))) % 2
    return bytes(data[begin : begin + size + 1]) if escapes else piece


def without_escapes(piece: bytes) -> bytes:
    """The same with spaces in place of escapes that could hide a quote or look like one."""
    return piece.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")


def _depth(plain: bytes, quoted: bool = False) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The number of open levels after each byte of JSON without escapes; begun inside a string or
    not.
    """
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
