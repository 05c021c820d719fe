from __future__ import annotations

import io
import json
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
import structlog

from armory.observability import standard_error
from armory.observability.logging import configure_logging
from armory.observability.settings import LogSettings
from armory.observability.standard_error import (
    WAITING,
    ThreadedStream,
    write_all,
    written_by_thread,
)

WAIT_S = 10.0


class Reader:
    """Takes what is written, when it is let."""

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.asked = threading.Event()
        self.failed = threading.Event()
        self.seen = io.BytesIO()
        self.error: OSError | None = None

    def take(self, data: bytes) -> None:
        self.asked.set()
        assert self.reads.wait(WAIT_S)
        if (error := self.error) is not None:
            self.failed.set()
            raise error
        self.seen.write(data)

    @property
    def lines(self) -> list[str]:
        return self.seen.getvalue().decode().splitlines()


@contextmanager
def written(reader: Reader) -> Generator[ThreadedStream]:
    stream = ThreadedStream(io.TextIOWrapper(io.BytesIO(), "utf-8"), reader.take)
    try:
        yield stream
    finally:
        reader.reads.set()
        stream.end()


def test_lines_keep_their_order_and_nobody_waits_for_the_reader() -> None:
    reader = Reader()
    with written(reader) as stream:
        print("one", file=stream, flush=True)
        assert reader.asked.wait(WAIT_S)
        print("two é", file=stream, flush=True)
        print("three", file=stream, flush=True)
        assert not reader.lines
    assert reader.lines == ["one", "two é", "three"]


def test_what_is_too_much_is_dropped_and_the_log_says_how_much() -> None:
    reader = Reader()
    with written(reader) as stream:
        configure_logging(LogSettings("info", "json"), stream=cast("TextIO", stream))
        structlog.get_logger().info("first")
        assert reader.asked.wait(WAIT_S)
        line = "x" * 999 + "\n"
        for _ in range(WAITING // 1_000 + 5):
            stream.write(line)
        assert 5 <= stream.dropped <= 7
        lost = stream.dropped
        reader.reads.set()
    assert len([text for text in reader.lines if text == line[:-1]]) == WAITING // 1_000 + 5 - lost
    told: dict[str, Any] = json.loads(reader.lines[-1])
    assert (told["event"], told["lines"]) == ("log_lines_dropped", lost)


def test_a_disk_that_is_full_fails_nobody_and_is_told_when_it_is_not() -> None:
    reader = Reader()
    reader.reads.set()
    reader.error = OSError(28, "No space left on device")
    with written(reader) as stream:
        configure_logging(LogSettings("info", "json"), stream=cast("TextIO", stream))
        structlog.get_logger().info("lost")
        assert reader.failed.wait(WAIT_S)
        reader.error = None
        structlog.get_logger().info("kept")
    assert [json.loads(line)["event"] for line in reader.lines] == ["kept", "log_lines_dropped"]


def test_once_ended_it_is_the_stream_itself() -> None:
    reader, below = Reader(), io.StringIO()
    stream = ThreadedStream(below, reader.take)
    stream.end()
    print("late", file=stream, flush=True)
    assert below.getvalue() == "late\n"


def test_once_ended_nobody_waits_for_a_reader_that_never_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standard_error, "_END_S", 0.05)
    reader, below = Reader(), io.BytesIO()
    stream = ThreadedStream(io.TextIOWrapper(below, "utf-8"), reader.take)
    print("stuck", file=stream, flush=True)
    stream.end()
    print("late", file=stream, flush=True)
    assert below.getvalue() == b""
    reader.reads.set()


def test_standard_error_comes_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with written_by_thread():
            assert sys.stderr is not file
            assert not sys.stderr.isatty()
            assert sys.stderr.fileno() == file.fileno()
            sys.stderr.write("here\n")
        assert sys.stderr is file
        assert (tmp_path / "log").read_text() == "here\n"


def test_what_is_no_file_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with written_by_thread():
        assert sys.stderr is stream


@pytest.mark.skipif(os.name != "posix", reason="descriptors that do not block")
def test_a_pipe_that_another_process_made_non_blocking_loses_nothing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    data = os.urandom(300_000)
    with os.fdopen(writing, "wb", 0) as raw, os.fdopen(reading, "rb") as read:
        assert isinstance(raw, io.RawIOBase)
        thread = threading.Thread(target=write_all, args=(raw, data))
        thread.start()
        assert read.read(len(data)) == data
        thread.join(WAIT_S)
    assert not thread.is_alive()


def test_it_may_be_closed_after_its_stream() -> None:
    """As by whoever lets go of both, which Python 3.13 tells where it fails."""
    under = io.TextIOWrapper(io.BytesIO(), "utf-8")
    stream = ThreadedStream(under, lambda _: None)
    stream.end()
    under.close()
    stream.close()
    assert stream.closed
