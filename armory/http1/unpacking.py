"""Decompressing a body as it arrives.

Owns: `Unpacking`, and which codings are supported. Never imports a response.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_GZIP = 31
_BARE = -zlib.MAX_WBITS
_CODINGS = {b"gzip": _GZIP, b"x-gzip": _GZIP, b"deflate": zlib.MAX_WBITS}
"""Codings and their `wbits` in zlib. None is asked for, so they are rare."""
_ZLIB = 8
"""The lower half of the first byte of zlib's format, which `deflate` means (RFC 9110 §8.4.1.2);
some servers send the data without it.
"""
_MEMBER = b"\x1f"
"""The first byte of a gzip member; anything else after one is padding."""
_MOST_BYTES = 16 * 1024 * 1024
"""The most that what is read at once may unpack to; beyond it the body is refused, before memory is
full."""
_SLICE = 4 * 1024
"""Bytes given to zlib at a time: at the end of each member it copies what is left of them."""


class UnusableBody(ConnectionError):
    """A body cannot be decompressed; the message says why."""


class Unpacking:
    """Decompresses one body.

    Args:
        coding: as `Content-Encoding` names it, in lower case.
    """

    __slots__ = ("_bits", "_coding", "_ended", "_fed", "_left", "_stream")

    def __init__(self, coding: bytes) -> None:
        self._coding = coding
        self._bits = bits = _CODINGS.get(coding)
        self._stream = None if bits is None else zlib.decompressobj(bits)
        self._fed = False
        self._ended = False
        self._left = _MOST_BYTES

    def read_more(self) -> None:
        """The next pieces come from a new read of the socket."""
        self._left = _MOST_BYTES

    def feed(self, chunk: bytes) -> bytes:
        """The decompressed form of a piece.

        Raises:
            UnusableBody: it is not what it is said to be, or becomes too large.
        """
        if not self._fed and chunk:
            self._fed = True
            if self._bits == zlib.MAX_WBITS and chunk[0] & 0x0F != _ZLIB:
                self._stream = zlib.decompressobj(_BARE)
        if self._stream is None:
            named = self._coding.decode("ascii", "replace")[:40]
            raise UnusableBody(f"the body has the coding {named!r}, which was not asked for")
        parts: list[bytes] = []
        for piece in self._pieces(chunk):
            try:
                data = self._stream.decompress(piece, self._left)
            except zlib.error as error:
                raise UnusableBody(f"the compressed body is broken ({error})") from None
            parts.append(data)
            self._left -= len(data)
            if self._stream.unconsumed_tail or self._left <= 0:
                raise UnusableBody("the compressed body unfolds too far")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Split a piece at the members of the body; each member needs its own decompressor."""
        if self._stream is not None and not self._stream.eof:
            yield chunk
            chunk = self._stream.unused_data
        for start in range(0, len(chunk), _SLICE):
            piece = chunk[start : start + _SLICE]
            while piece and not self._ended:
                if self._stream is None or self._stream.eof:
                    if self._bits != _GZIP or not piece.startswith(_MEMBER):
                        self._ended = True
                        break
                    self._stream = zlib.decompressobj(_GZIP)
                yield piece
                piece = self._stream.unused_data

    @property
    def whole(self) -> bool:
        """Whether the body that has arrived is complete; an empty one is."""
        return not self._fed or self._stream is None or self._stream.eof
