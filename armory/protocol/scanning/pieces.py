"""Splits long JSON into pieces, so that its readers can yield to others in between.

Owns: finding places where an array can be split, and copying. Never imports the protocol or a
transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw

from armory.protocol.scanning.nesting import item_ends

PIECE_BYTES = 64 * 1024
"""How much of a long array is split at a time: 0.3 ms."""
_BETWEEN_OBJECTS, _BETWEEN_TEXTS = (b"},{", b"}, {"), (b'","', b'", "')
_ARRAY = ord("[")
_NEAR_BYTES = 4 * 1024
"""Most items end within so many bytes."""
_MISSES = 200
"""Attempts at splitting a long array that end inside an item, before item ends are looked for."""

_T = TypeVar("_T")
_items = msgspec.json.Decoder(list[Raw]).decode
_texts = msgspec.json.Decoder(list[str]).decode


def items_in_pieces(raw: Raw | bytes, piece: int = PIECE_BYTES) -> Iterator[list[Raw]]:
    """The items of a JSON array, each verbatim, in lists of about `piece` bytes.

    An empty list where no whole item ends within that size.

    Raises:
        msgspec.DecodeError: not an array (or not JSON); perhaps after some pieces.
    """
    return _in_pieces(memoryview(raw), piece, _items, _BETWEEN_OBJECTS)


def texts_in_pieces(raw: Raw | bytes, piece: int) -> Iterator[list[str]]:
    """As `items_in_pieces`, for an array of strings.

    Raises:
        msgspec.DecodeError: not an array of strings; perhaps after some pieces.
    """
    return _in_pieces(memoryview(raw), piece, _texts, _BETWEEN_TEXTS)


def in_bytes(raw: Raw | bytes) -> bytes:
    """JSON as bytes, copied without holding the GIL."""
    view = memoryview(raw)
    pieces = (view[at : at + PIECE_BYTES] for at in range(0, len(view), PIECE_BYTES))
    return b"".join([bytes(piece) for piece in pieces])


def _in_pieces(
    data: memoryview, piece: int, read: Callable[[bytes], list[_T]], between: Sequence[bytes]
) -> Iterator[list[_T]]:
    """The items of an array, read in pieces.

    A piece that was cut inside an item is no valid array, so one that can be read was cut between
    two. Where none of the usual places is in reach, it is looked where items end, which takes
    longer: not for what is left of a list that is hardly long.
    """
    if len(data) <= 2 * piece or data[0] != _ARRAY:
        yield read(bytes(data))
        return
    at, end, misses = 1, piece, 0
    while misses < _MISSES and (cut := _between(data, end, end + 4 * piece, between)):
        end = cut[0] + 1
        try:
            found = read(b"[%b]" % data[at:end])
        except msgspec.DecodeError:
            misses += 1
            yield []
            continue
        yield found
        at = cut[1]
        end = at + piece
    for comma in item_ends(data, at, piece) if len(data) - at > 4 * piece else ():
        if comma is None:
            yield []
            continue
        yield read(b"[%b]" % data[at:comma])
        at = comma + 1
    yield read(b"[%b" % data[at:])


def _between(
    data: memoryview, begin: int, end: int, between: Sequence[bytes]
) -> tuple[int, int] | None:
    """Where first an item may end and the next begin, as JSON is usually written."""
    for reach_end in (begin + _NEAR_BYTES, end):
        reach = bytes(data[begin : min(reach_end, end)])
        found = ((reach.find(sep), len(sep)) for sep in between)
        places = [(begin + at, begin + at + length - 1) for at, length in found if at >= 0]
        if places:
            return min(places)
    return None
