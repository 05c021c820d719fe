"""One HTTP response as it arrives: status and headers, then the body, with backpressure.

Owns: `Response` and the errors of an exchange. A body of known length is read straight into its
final memory. Never imports the protocol.
"""

from __future__ import annotations

import asyncio
from collections import deque
from copy import copy
from functools import lru_cache
from typing import Protocol

from multidict import CIMultiDict

from armory.http1.deadlines import Deadlines
from armory.http1.unpacking import Unpacking

_HIGH_WATER = 1024 * 1024
_STRAIGHT_BYTES = 64 * 1024
"""Missing bytes from which on reading straight into place pays off."""


class NoConnection(OSError):
    """No connection could be made."""


class ClosedEarly(ConnectionError):
    """The peer closed the connection before the response was complete."""


class BadAnswer(ConnectionError):
    """The response is not valid HTTP/1.1."""


class Source(Protocol):
    """The connection of a response; a Protocol, since `connection` imports this file."""

    def resume(self) -> None:
        """Resume reading."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...

    def read_into(self, body: bytearray, missing: int) -> None:
        """Read the remaining bytes of the body directly into it."""
        ...


_MEDIA_TYPE_BYTES = 256
"""The longest media type there is (RFC 6838 §4.2), and the longest that is cached."""


@lru_cache(maxsize=64)
def _media_type(value: bytes) -> str:
    """Without parameters, in lower case."""
    return value.decode("utf-8", "surrogateescape").partition(";")[0].strip().lower()


class Response:
    """One response; its body is read as it arrives. Has the interface of aiohttp's where both are
    used.

    Attributes:
        status: HTTP status.
        content_length: as declared, in bytes; None: it is not.
        packed: whether the body has to be unpacked.
    """

    __slots__ = (
        "_chunks",
        "_connection",
        "_deadlines",
        "_eof",
        "_error",
        "_fields",
        "_first",
        "_headers",
        "_size",
        "_timeout_s",
        "_unpacking",
        "_waiter",
        "content_length",
        "packed",
        "status",
    )

    def __init__(
        self, connection: Source, deadlines: Deadlines, timeout_s: float | None = None
    ) -> None:
        self.status = 0
        self.packed = False
        self.content_length: int | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._first: dict[bytes, bytes] = {}  # of each name in lower case
        self._headers: CIMultiDict[str] | None = None
        self._connection: Source | None = connection
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._eof = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._unpacking: Unpacking | None = None
        self._deadlines = deadlines
        self._timeout_s = timeout_s
        if timeout_s is not None:
            deadlines.start(self, timeout_s)

    @property
    def content(self) -> Response:
        """The reader of the body: this object itself."""
        return self

    @property
    def headers(self) -> CIMultiDict[str]:
        """The headers, case-insensitive; built only on request, since hardly any caller
        needs them.
        """
        headers = self._headers
        if headers is None:
            headers = self._headers = CIMultiDict(
                (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
                for name, value in self._fields
            )
        return headers

    @property
    def endless(self) -> bool:
        """Whether the body ends only when the connection is closed."""
        first = self._first
        coding = first.get(b"transfer-encoding")
        if coding is None:
            return b"content-length" not in first
        return not coding.rstrip().lower().endswith(b"chunked")

    @property
    def plain(self) -> bool:
        """Whether the body has a known length and is not compressed."""
        known = self.content_length is not None and self._unpacking is None
        return known and b"transfer-encoding" not in self._first

    @property
    def unread(self) -> int:
        """Bytes of the body that have arrived and were not read."""
        return self._size

    def read_more(self) -> None:
        """The next chunks come from a new read of the socket, which raises how much may be
        unpacked.
        """
        if self._unpacking is not None:
            self._unpacking.read_more()

    @property
    def encoded(self) -> bool:
        """Whether the body is declared as compressed."""
        return b"content-encoding" in self._first

    @property
    def content_type(self) -> str:
        """Media type without parameters, in lower case; "" when there is none."""
        return _media_type(self._first.get(b"content-type", b"")[:_MEDIA_TYPE_BYTES])

    @property
    def closed(self) -> bool:
        """Whether the connection no longer belongs to this response."""
        return self._connection is None

    def is_eof(self) -> bool:
        """Whether the whole body has arrived."""
        return self._eof

    def at_eof(self) -> bool:
        """Whether the whole body has been read."""
        return self._eof and not self._chunks

    def arrived(self, limit_bytes: int) -> bytes | None:
        """The whole body, if it has arrived already within the limit; None: it must be read."""
        return self._taken() if self._eof and self._size <= limit_bytes else None

    async def readany(self) -> bytes:
        """The bytes that have arrived, at least one; b"" at the end.

        Raises:
            TimeoutError: the deadline passed.
            ClosedEarly: the body ended before its end.
        """
        while not self._chunks:
            if self._error is not None:
                raise self._failure()
            if self._eof:
                return b""
            await self._wait()
        data = self._taken()
        if self._connection is not None:
            self._connection.resume()
        return data

    def _taken(self) -> bytes:
        """The bytes that have arrived and were not read."""
        chunks, self._size = self._chunks, 0
        if len(chunks) == 1:
            return chunks.popleft()
        data = b"".join(chunks)
        chunks.clear()
        return data

    async def read(self) -> bytes | bytearray:
        """The whole body. Raises as `readany`."""
        if self._eof:
            return self._taken()
        length = self.content_length
        if length is not None and length - self._size >= _STRAIGHT_BYTES:
            source = self._connection
            if self.plain and source is not None and self._error is None:
                return await self._read_straight(source, length)
        parts: list[bytes] = []
        while chunk := await self.readany():
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _read_straight(self, source: Source, length: int) -> bytearray:
        body = bytearray().join(self._chunks)
        self._chunks.clear()
        self._size = 0
        source.read_into(body, length - len(body))
        while not self._eof:
            if self._error is not None:
                raise self._failure()
            await self._wait()
        return body

    def close(self) -> None:
        """Abandon the rest; an unfinished exchange closes the connection."""
        self._end_deadline()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    release = close

    # --- fed by the connection

    async def headers_arrived(self) -> None:
        """Wait for status and headers."""
        while not self.status and self._error is None:
            waiter = self._waiter = asyncio.get_running_loop().create_future()  # as `_wait`
            try:
                await waiter
            finally:
                self._waiter = None
        if self._error is not None and not self.status:
            raise self._failure()

    def _failure(self) -> Exception:
        """A new exception to raise. Raising the stored one would, through its traceback, keep the
        reader, everything it has read and this response alive until the next garbage collection.
        """
        assert self._error is not None
        return copy(self._error)

    async def _wait(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Wake the reader."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def expire(self) -> None:
        """The deadline has passed: the exchange fails."""
        self._timeout_s = None
        self.fail(TimeoutError())
        self.close()

    def _end_deadline(self) -> None:
        if self._timeout_s is not None:
            self._deadlines.stop(self, self._timeout_s)
            self._timeout_s = None

    def begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Status and headers are complete."""
        self.status = status
        self._fields = fields
        self._first = first = {name.lower(): value for name, value in reversed(fields)}
        length = first.get(b"content-length")
        if length is not None and length.isdigit():
            self.content_length = int(length)
        if b"content-encoding" in first:
            coding = first[b"content-encoding"].strip().lower()
            if coding not in (b"", b"identity"):
                self._unpacking = Unpacking(coding)
                self.packed = True
        self.wake()

    def feed(self, chunk: bytes) -> bool:
        """Append to the body; returns whether the reader has enough for now. Raises like
        `Unpacking`.
        """
        if self._unpacking is not None:
            chunk = self._unpacking.feed(chunk)
        if chunk:
            self._chunks.append(chunk)
            self._size += len(chunk)
            if self._waiter is not None:
                self.wake()
        return self._size > _HIGH_WATER

    def finish(self) -> None:
        """The body is complete; the connection is free."""
        if self._unpacking is not None and not self._unpacking.whole:
            self.fail(ClosedEarly("its compressed body ends in the middle"))
        else:
            self._eof = True
        self._connection = None
        self._end_deadline()
        if self._waiter is not None:
            self.wake()

    def fail(self, error: Exception) -> None:
        """The exchange failed; what has arrived can still be read."""
        if not self._eof and self._error is None:
            self._error = error
        self._end_deadline()
        self.wake()
