"""Standard error, written by a thread, so that a reader that stops reading blocks nothing else.

Owns: `written_by_thread`, the bounded queue of lines. Never imports a room.

A pipe holds 64 KiB. Once a client, a supervisor or a container log driver stops reading, a write
blocks until it reads again; so does a write to a busy disk.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

from armory.logger import Logger

_log = Logger(__name__)
WAITING = 1_000_000
"""Characters that may wait; further lines are dropped and counted."""
_END_S = 2.0
"""How long writing what is queued may take at the end."""
_ASIDE_S = 1.0
"""How long to wait for a file that takes nothing now, if the system does not say when it does."""


@contextmanager
def written_by_thread() -> Generator[None]:
    """Write `sys.stderr` in a thread for the block; does nothing if it is not a file."""
    given = sys.stderr
    buffer = getattr(given, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # it is the file itself with PYTHONUNBUFFERED
    if not isinstance(raw, io.RawIOBase):
        yield
        return
    given.flush()
    written = ThreadedStream(given, lambda data: write_all(raw, data))
    sys.stderr = written
    try:
        yield
    finally:
        sys.stderr = given
        written.end()


class ThreadedStream(io.TextIOBase):
    """A text stream that a thread writes; `write` never blocks and never fails.

    Args:
        stream: the stream that it stands in for, with the same encoding.
        write: writes all of some bytes, however long that takes.

    Attributes:
        dropped: lines that were dropped and not yet logged as dropped.
    """

    def __init__(self, stream: TextIO, write: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._write = write
        self._texts: deque[str] = deque()
        self._waiting = 0
        self.dropped = 0
        self._ending = self._ended = False
        # whoever logs may be interrupted by a signal or a finalizer that logs, too
        self._changed = threading.Condition(threading.RLock())
        self._thread = threading.Thread(target=self._run, name="armory-stderr", daemon=True)
        self._thread.start()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of the stream."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of the stream."""
        return self._stream.errors

    def fileno(self) -> int:
        """As of the stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Queue a text; after the end, write it to the stream itself, unless that is stuck."""
        with self._changed:
            if self._ended:
                return len(text) if self._thread.is_alive() else self._stream.write(text)
            if self._waiting + len(text) > WAITING:
                self.dropped += text.count("\n")
            else:
                self._waiting += len(text)
                self._texts.append(text)
                self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Flush the stream after the end; before, what is queued is written anyway."""
        gone = self._stream.closed  # as at the end, when what is flushed is let go of, too
        if self._ended and not gone and not self._thread.is_alive():
            self._stream.flush()

    def end(self) -> None:
        """Write what is queued, for two seconds at most."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(_END_S)
        self._ended = True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._texts or self._ending)
                if not self._texts:
                    self._ended = True
                    return
                text = "".join(self._texts)
                self._texts.clear()
            try:
                self._write(text.encode(self.encoding, "backslashreplace"))
                failed = 0
            except (OSError, ValueError):  # its other end or the disk is gone: nobody to tell
                failed = text.count("\n")
            with self._changed:
                self._waiting -= len(text)
                self.dropped += failed
                dropped = 0 if failed else self.dropped
                self.dropped -= dropped
            if dropped:
                _log.warning("log_lines_dropped", lines=dropped)


def write_all(raw: io.RawIOBase, data: bytes | memoryview) -> None:
    """Write all bytes; the file may be non-blocking, because another process that shares it made it
    so.

    Raises:
        OSError: it cannot be written.
    """
    left = memoryview(data)
    while left:
        count = raw.write(left)
        if count is None and os.name == "posix":
            select.select([], [raw], [], _ASIDE_S)
        left = left[count or 0 :]
