"""Checks of a client's body before its messages are decoded: nesting, and batches.

Owns: the refusal of bodies nested too deep, and opening batches. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec
from msgspec import Raw

from armory.protocol.codes import INVALID_REQUEST, PARSE_ERROR
from armory.protocol.errors import Malformed
from armory.protocol.rawjson import items_in_steps
from armory.protocol.scanning.nesting import DepthScan, deeper_than
from armory.protocol.scanning.surrogates import mending
from armory.protocol.scanning.taking_apart import TooWide
from armory.protocol.scanning.values import at_once

_PIECE_BYTES = 1 << 20
"""Looked through for what is no blank at a time: half a millisecond."""
BATCH_ITEMS = 100
BATCH_BYTES = 32 << 20
"""Default limit of the messages of a batch, and of the answers to it."""


def check_depth(body: bytes, limit: int) -> None:
    """Refuse a body that is nested too deep, before anything decodes it.

    Raises:
        Malformed: it is nested deeper than `limit` levels.
    """
    if deeper_than(body, limit):
        raise _too_deep(limit)


class DepthCheck:
    """As `check_depth`, for bytes that arrive piece by piece: refused at the first piece that is
    too deep.

    Args:
        limit: levels that are allowed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scan = DepthScan(limit)

    def feed(self, data: bytes) -> Iterator[None]:
        """Check the next bytes; one step for each piece.

        Raises:
            Malformed: it is nested deeper than the limit.
        """
        for deeper in self._scan.feed(data):
            if deeper:
                raise _too_deep(self._limit)
            yield


def _too_deep(limit: int) -> Malformed:
    return Malformed(
        INVALID_REQUEST,
        f"the message is nested deeper than {limit} levels; server.limits.json_depth sets "
        "that limit",
    )


def is_batch(body: bytes) -> bool:
    """Whether the body is a JSON array."""
    first = body[:1]
    return (first if first > b" " else at_once(beginning(body))) == b"["


def beginning(body: bytes | bytearray) -> Generator[None, None, bytes]:
    """The first byte that is no blank, empty where there is none; in steps."""
    for at in range(0, len(body), _PIECE_BYTES):
        piece = body[at : at + _PIECE_BYTES]
        if not piece.isspace():
            return bytes(piece.lstrip()[:1])
        yield
    return b""


def batch_items(body: bytes, most: int = BATCH_ITEMS) -> Generator[None, None, list[Raw]]:
    """The items of a batch, undecoded, in steps.

    Raises:
        Malformed: no JSON, an empty array, or one of more than `most` messages.
    """
    try:
        batch = yield from _items(body, most)
    except TooWide:
        raise Malformed(
            INVALID_REQUEST,
            f"the batch has more than {most:,} messages, the most that are taken "
            "(server.limits.batch_items)",
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(PARSE_ERROR, f"the body is not JSON: {error}") from None
    if not batch:
        raise Malformed(INVALID_REQUEST, "the batch is empty: []; expected at least one message")
    return batch


def _items(body: bytes, most: int) -> Generator[None, None, list[Raw]]:
    """The items, lone surrogates replaced as in single messages."""
    try:
        return (yield from items_in_steps(body, most))
    except TooWide:
        raise
    except msgspec.DecodeError:
        mended = yield from mending(body)
        if mended == body:
            raise
    return (yield from items_in_steps(mended, most))
