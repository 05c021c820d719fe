"""Server-sent events, read incrementally.

Owns: the parser of `text/event-stream` bytes. Never does any I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

_DATA = b"data: "
_LINE_COST = 64
"""Bytes that a line takes in memory beside its own, and counts for."""
_REPORTED_BYTES = 1024
"""Comments, and fields without data, are reported to the reader once they add up to this."""


class EventTooLarge(Exception):
    """One event exceeds the limit; reading cannot continue."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        data: the `data` lines, joined by line feeds.
        name: the `event` field, "message" by default.
        id: the stream's last event id so far, or None.
        skipped_bytes: bytes of comments and of fields without data, reported in place of an event;
            0: this is an event.
    """

    data: bytes
    name: str = "message"
    id: str | None = None
    skipped_bytes: int = 0


class EventParser:
    """Parses chunks of bytes into events.

    Args:
        limit_bytes: largest event that is accepted.

    Attributes:
        last_id: last event id seen, for resumption; an empty one says that there is none. That of
            an event which is not complete yet does not count: it is still to come.
        retry_ms: reconnection delay that the server asked for, or None.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._id: str | None = None
        self._after_cr = False
        self._started = False
        self._skipped = 0
        self.last_id: str | None = None
        self.retry_ms: int | None = None

    @property
    def unfinished(self) -> int:
        """The bytes of the event that is not complete yet."""
        return self._size + self._line_size

    def continued(self) -> EventParser:
        """A parser for a stream that resumes where this one broke off."""
        parser = EventParser(self._limit)
        parser.last_id = parser._id = self.last_id
        parser.retry_ms = self.retry_ms
        return parser

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes.

        Raises:
            EventTooLarge: the event being read exceeds the limit.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[Event] = []
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:  # `split` looks at each byte by itself
            if self._line:
                self._line.append(chunk[begin:end])
                self._take_joined(events)
            elif self._started and chunk.startswith(_DATA, begin):  # nearly always: copied once
                self._add(chunk[begin + len(_DATA) : end])
            else:
                self._take(chunk[begin:end], events)
            begin = end + 1
        if begin < len(chunk):
            rest = chunk[begin:]
            self._line.append(rest)
            self._line_size += len(rest) + (_LINE_COST if len(self._line) > 1 else 0)
        if self._size + self._line_size > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")
        return events

    def _take_joined(self, events: list[Event]) -> None:
        """Process a line that came in several chunks; data lines, the usual case, are
        copied once.
        """
        pieces, self._line, self._line_size = self._line, [], 0
        first = pieces[0]
        if self._started and first.startswith(_DATA):
            self._add(b"".join((memoryview(first)[len(_DATA) :], *pieces[1:])))
        else:
            self._take(b"".join(pieces), events)

    def _add(self, value: bytes) -> None:
        self._size += len(value) + (_LINE_COST if self._data else 0)
        if self._size > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")
        self._data.append(value)

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(events)
            return
        if line.startswith(_DATA):
            self._add(line[len(_DATA) :])
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add(value)
            return
        self._skip(len(line), events)
        if field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace") or None
        elif field == b"retry" and value.isdigit():
            self.retry_ms = int(value[:9])

    def _skip(self, size: int, events: list[Event]) -> None:
        """Count a line without data; the count is reset by the next event."""
        self._skipped += size + _LINE_COST
        if self._skipped >= _REPORTED_BYTES:
            events.append(Event(b"", id=self.last_id, skipped_bytes=self._skipped))
            self._skipped = 0

    def _dispatch(self, events: list[Event]) -> None:
        self.last_id = self._id
        if not self._data:
            self._skip(0, events)
        else:
            self._skipped = 0
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(Event(data, self._name or "message", self.last_id))
        self._data = []
        self._size = 0
        self._name = ""
