"""Parses responses with httptools (llhttp).

Owns: `AnswerParser`: the parser, the current header, the pieces of the body not handed on yet, and
the limits on headers and informational responses. Never touches a socket.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import httptools

from armory.http1.response import BadAnswer, Response

_MAX_HEADERS = 256 * 1024
_MAX_INFORMATIONAL = 64
"""Answers with a status below 200 that may come before the one that counts."""
_PART_BYTES = 2048
"""Unpacked bytes that take as long as one part."""


class Exchanging(Protocol):
    """A connection with one exchange at a time."""

    @property
    def response(self) -> Response | None:
        """The present response; None: no request is pending."""
        ...

    def full(self) -> None:
        """The reader of the response has enough for now."""
        ...

    def completed(self, *, keep: bool) -> None:
        """The response is complete; `keep`: the connection may be reused."""
        ...

    def broken(self, error: Exception) -> None:
        """The response is malformed."""
        ...


class AnswerParser:
    """Fills the response of a connection from received bytes.

    Args:
        connection: whose bytes these are.

    Attributes:
        parts: chunks and headers that were parsed so far, each of which takes about as long; the
            connection sets it back.
    """

    def __init__(self, connection: Exchanging) -> None:
        self._connection = connection
        self._fields: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []  # of the body, in what is parsed just now
        self._informational = 0
        self._silent = 0
        self.parts = 0
        self.on_body = self._chunks.append  # for httptools: no call of Python for each chunk
        self._parser = httptools.HttpResponseParser(self)

    def begin(self) -> None:
        """Prepare for the response to a new request."""
        self._informational = 0

    def restart(self) -> bool:
        """Reset after a body was read without the parser, which still waits for it; returns whether
        the connection may be kept.
        """
        keep: bool = self._parser.should_keep_alive()
        self._parser = httptools.HttpResponseParser(self)
        return keep

    def end(self) -> None:
        """Drop the references to the parser and the connection, which form a cycle with this
        object.
        """
        del self._parser, self._connection

    def parse(self, data: memoryview) -> None:
        """Parse the bytes; a malformed response is reported to the connection."""
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
            if self._chunks:
                self._hand_on()
            elif self._fields:  # the header goes on
                self.parts += len(self._fields)
            if self._silent > _MAX_HEADERS:
                raise BadAnswer(f"headers of more than {_MAX_HEADERS} bytes")
        except httptools.HttpParserUpgrade:
            self._break(BadAnswer("not a usable HTTP answer: another protocol"))
        except (httptools.HttpParserError, ConnectionError) as error:
            own = isinstance(error, httptools.HttpParserCallbackError) and error.__context__
            self._break(BadAnswer(f"not a usable HTTP answer: {own or error}"))

    def _hand_on(self) -> None:
        """Append the parsed pieces to the body of the response, joined if they are tiny."""
        chunks = self._chunks
        self.parts += len(chunks)
        self._silent = 0
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        response = self._connection.response
        if response is None:
            return
        if response.packed:
            before = response.unread
            full = response.feed(body)
            self.parts += (response.unread - before) // _PART_BYTES
        else:
            full = response.feed(body)
        if full:
            self._connection.full()

    def _break(self, error: Exception) -> None:
        with suppress(ConnectionError):
            if self._chunks:
                self._hand_on()
        self._connection.broken(error)

    # --- httptools

    def on_message_begin(self) -> None:
        """A response begins. One without a pending request is rejected: it would be taken for the
        response to the next request.
        """
        if self._connection.response is None:
            raise BadAnswer("nobody asked for it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Status and headers are complete."""
        fields, self._fields = self._fields, []
        self.parts += len(fields)
        self._silent = 0
        status = self._parser.get_status_code()
        response = self._connection.response
        if status < 200 or response is None:
            if status < 100:
                raise BadAnswer(f"status {status}")
            self._informational += 1
            if self._informational > _MAX_INFORMATIONAL:
                raise BadAnswer(f"more than {_MAX_INFORMATIONAL} answers before the final one")
            return
        response.begin(status, fields)

    def on_message_complete(self) -> None:
        """The response is complete."""
        if self._fields:
            self._fields = []  # trailers, which are no headers of the next answer
        response = self._connection.response
        if response is not None and response.status:
            if self._chunks:
                self._hand_on()
            self._connection.completed(keep=self._parser.should_keep_alive())
