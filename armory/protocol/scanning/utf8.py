"""Checks that long JSON is UTF-8; values that pass as bytes are checked nowhere else.

Owns: looking through it in pieces. Never imports the protocol or a transport.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Generator

PIECE_BYTES = 64 * 1024


def checking(data: bytes | bytearray | memoryview) -> Generator[None, None, None]:
    """Check it, one piece in each step.

    Raises:
        UnicodeDecodeError: it is none; positions are those within a piece.
    """
    utf8 = getincrementaldecoder("utf-8")()
    for at in range(0, len(data), PIECE_BYTES):
        piece = bytes(data[at : at + PIECE_BYTES])
        if not piece.isascii() or utf8.getstate()[0]:
            utf8.decode(piece)
        yield
    utf8.decode(b"", True)
