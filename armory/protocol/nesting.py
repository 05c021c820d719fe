"""How deep JSON is nested, told from its bytes in passes whose work grows with their number alone.

Owns: measuring and cutting. Opens nothing, so neither depth nor a broken text costs more. Never
imports the protocol or a transport.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_NO_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_QUOTE = ord('"')
_LARGE_BYTES = 16 * 1024
"""From here on brackets are searched for: `bytes.count` takes sixty times as long for a byte."""


def deeper_than(data: bytes, limit: int) -> bool:
    """Whether objects and arrays are nested deeper than `limit` levels.

    Brackets are counted first, which is all that a usual message costs; only one that has more of
    them than the limit is looked at closely.
    """
    if not _more_brackets(data, limit):
        return False
    # Without escapes every quote opens or closes a string, so its parity says what is inside.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth = _depth(plain.translate(None, _NO_STRUCTURE))
    return int(depth.max(initial=0)) > limit


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


def _depth(plain: bytes) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Levels that are open after each byte of JSON without escapes."""
    import numpy as np

    given = np.frombuffer(plain, np.uint8)
    steps = _steps()[given]
    steps[np.bitwise_xor.accumulate(given == _QUOTE)] = 0
    return np.cumsum(steps, dtype=np.int32)


@cache
def _steps() -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """By byte: how many levels it opens."""
    import numpy as np

    steps = np.zeros(256, np.int8)
    steps[list(b"[{")] = 1
    steps[list(b"]}")] = -1
    return steps
