"""Splits a process's output into lines: assembled from chunks, bounded, fair to the event loop.

Owns: lines that come in parts, those that are too long and the id of what they answer, and how long
one process may keep the event loop. Never imports the process or the protocol.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from time import perf_counter

from armory.http1.reading import COUNTED_BYTES, Meter
from armory.logger import Logger
from armory.steps import FLOODING
from armory.upstreams.session.inflow import GIVEN_UP, MESSAGE_LIMIT

log = Logger(__name__)

_TURN_S = 0.001
"""How long the output of one process may keep the event loop. The loop's own clock would not do:
uvloop's counts in whole milliseconds."""
_LONG_BYTES = 1 << 20
"""Length of an incomplete line from which on the time counts that it takes to grow."""
_HEAD_ID = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_TAIL_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_TAIL = 256
_VERSION = b'"jsonrpc"'


class Lines:
    """The standard output of one process, line by line.

    Args:
        server: key of the upstream, for the log.
        limit_bytes: longest line that is accepted.
        on_line: takes each line; may say for how many seconds no other is wanted.
        on_lost_line: takes the id in a line that was dropped, None where it could not be read, and
            why it was.
        read_on: has the output read (True), or lets it fill (False).
        meter: counts what a long line holds until it is complete; None: nothing is counted.
        wait_s: for how many seconds nothing more is wanted; asked after such a pause.
    """

    def __init__(
        self,
        server: str,
        limit_bytes: int,
        on_line: Callable[[bytes | bytearray], float | None],
        on_lost_line: Callable[[int | None, str], None],
        read_on: Callable[[bool], None],
        meter: Meter | None = None,
        wait_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._server = server
        self._limit = limit_bytes
        self._on_line = on_line
        self._on_lost_line = on_lost_line
        self._read_on = read_on
        self._meter = meter
        self._wait_s = wait_s
        self._line: bytes | bytearray = b""
        self._size = 0
        self._growing_s = 0.0
        self._head = b""
        self._tail = b""
        self._skipping = ""

    @property
    def asked(self) -> bytes:
        """The incomplete line, if it is no message: a question to a person has no end of line."""
        line = bytes(self._line[:_TAIL])
        return b"" if line.lstrip().startswith(b"{") else line

    def take(self, chunk: bytes, begin: int = 0) -> bool:
        """Handle the lines in a chunk from `begin` on; returns False where the rest waits for the
        next turn.
        """
        began = perf_counter()
        while (end := chunk.find(b"\n", begin)) >= 0:  # `split` looks at each byte by itself
            self._extend(chunk[begin:end])
            pause_s = self._finish()
            begin = end + 1
            if pause_s or (perf_counter() - began > _TURN_S and begin < len(chunk)):
                return self._later(chunk, begin, pause_s, perf_counter() - began)
        if begin < len(chunk):
            self._extend(chunk[begin:])
            if self._size > _LONG_BYTES:
                self._growing_s += perf_counter() - began
                if self._growing_s > _TURN_S:
                    took, self._growing_s = self._growing_s, 0.0
                    return self._later(b"", 0, 0.0, took)
        return True

    def _later(self, chunk: bytes, begin: int, pause_s: float, took: float) -> bool:
        """Go on with the rest of the chunk after a pause: at least that asked for."""
        self._read_on(False)
        pause_s = max(pause_s, FLOODING.wait_s(took))
        asyncio.get_running_loop().call_later(pause_s, self._go_on, chunk, begin)
        return False

    def give_up(self) -> None:
        """Drop the incomplete line, for `Inflow`."""
        if self._line:
            self._skip(GIVEN_UP)

    def ended(self) -> None:
        """The output has ended: an incomplete line will never be complete."""
        if self._meter is not None:
            self._meter.done(self)

    def _go_on(self, chunk: bytes, begin: int) -> None:
        if pause_s := self._wait_s():
            asyncio.get_running_loop().call_later(pause_s, self._go_on, chunk, begin)
        elif self.take(chunk, begin):
            self._read_on(True)

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if self._skipping:
            self._tail = (self._tail + part)[-_TAIL:]
            return
        if not self._line:
            self._line = part
        else:
            if isinstance(self._line, bytes):
                self._line = bytearray(self._line)
            self._line += part  # grows where it is: a join of many parts takes a turn of its own
        if self._size > self._limit:
            self._skip(
                f"its answer is longer than {self._limit} bytes and was dropped; {MESSAGE_LIMIT}"
            )
        elif self._meter is not None and self._size >= COUNTED_BYTES:
            self._meter.holds(self, self._size)

    def _skip(self, reason: str) -> None:
        """Drop the line so far, and the rest of it when it comes."""
        self._skipping = reason
        self._head, self._tail = bytes(self._line[:_TAIL]), bytes(self._line[-_TAIL:])
        self._line = b""

    def _finish(self) -> float:
        """Hand the complete line on; returns for how many seconds no other line is wanted."""
        line, self._line = self._line, b""
        size, self._size = self._size, 0
        if size >= COUNTED_BYTES and self._meter is not None:
            self._meter.done(self)
        if self._skipping:
            reason, self._skipping = self._skipping, ""
            log.warning(
                "upstream_line_too_long", upstream=self._server, bytes=size, limit=self._limit
            )
            self._on_lost_line(_id_in(self._head, self._tail), reason)
            return 0.0
        return self._on_line(line) or 0.0


def answered(line: bytes | bytearray) -> int | None:
    """The request id in a line that looks like an answer but is no JSON; None: it is none, or has
    no id. Other lines that are no JSON are log output.
    """
    head, tail = bytes(line[:_TAIL]), bytes(line[-_TAIL:])
    return _id_in(head, tail) if _VERSION in head or _VERSION in tail else None


def _id_in(head: bytes, tail: bytes) -> int | None:
    match = _HEAD_ID.search(head) or _TAIL_ID.search(tail)
    return int(match.group(1)) if match else None
