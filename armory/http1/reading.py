"""Reading response bodies with a size limit: a whole JSON body, or a stream event by event.

Owns: size limits of bodies and events, and returning a finished connection to the pool. Never
imports the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from armory.http1.eventstream import Event, EventParser
from armory.http1.response import Response
from armory.steps import FLOODING

if TYPE_CHECKING:
    import aiohttp

_LINGER_S = 1.0
_PART_BYTES = 16 * 1024
"""How much of a stream of many lines is parsed at a time: a MiB may hold 150,000 events."""
_PART_LINES = 500
_TURN_S = 0.002
"""How long one stream may hold the event loop, in seconds. The loop's own clock would not do:
uvloop's counts in whole milliseconds."""
_WAITED_S = 0.0001
"""Who waited so long for bytes had let others go first."""
Answer: TypeAlias = "aiohttp.ClientResponse | Response"
"""A response, whichever client it came by (through a proxy it is aiohttp's)."""


COUNTED_BYTES = 256 * 1024
"""Incomplete messages are reported to the meter from this size on."""


class BodyTooLarge(Exception):
    """The body exceeds the limit, or the memory that is available now."""


class Meter(Protocol):
    """Tracks the memory of incomplete messages; may abort one."""

    def holds(self, source: object, size: int) -> None:
        """The incomplete message from `source` takes this many bytes now."""
        ...

    def done(self, source: object) -> None:
        """The message from `source` is complete, or was abandoned."""
        ...


def arrived(response: Answer, limit_bytes: int) -> bytes | None:
    """The whole body, if it has arrived already within the limit, as most bodies have; None: it
    must be read.
    """
    return response.arrived(limit_bytes) if isinstance(response, Response) else None


async def read_body(
    response: Answer, limit_bytes: int, meter: Meter | None = None
) -> bytes | bytearray:
    """The whole body.

    Raises:
        BodyTooLarge: it exceeds the limit (nothing beyond it is read), or was given up.
    """
    length = response.content_length
    if meter is None or (length is not None and length < COUNTED_BYTES):
        return await _read_body(response, limit_bytes, meter)
    try:
        return await _read_body(response, limit_bytes, meter)
    finally:
        meter.done(response)


async def _read_body(response: Answer, limit_bytes: int, meter: Meter | None) -> bytes | bytearray:
    length = response.content_length
    if length is not None and not _encoded(response):
        if length > limit_bytes:
            raise BodyTooLarge(f"its answer of {length} bytes exceeds the limit of {limit_bytes}")
        if meter is not None and length >= COUNTED_BYTES:
            meter.holds(response, length)
        return await response.read()
    content = response.content
    first = await content.readany()
    if content.at_eof():
        if len(first) > limit_bytes:
            raise BodyTooLarge(f"its answer exceeds the limit of {limit_bytes} bytes")
        return first
    body = bytearray(first)
    while len(body) <= limit_bytes:
        chunk = await content.readany()
        if not chunk:
            return body
        body += chunk
        if meter is not None and len(body) >= COUNTED_BYTES:
            meter.holds(response, len(body))
    raise BodyTooLarge(f"its answer exceeds the limit of {limit_bytes} bytes")


def _encoded(response: Answer) -> bool:
    if isinstance(response, Response):
        return response.encoded
    return "Content-Encoding" in response.headers


class EventReader:
    """The events of a stream, each as soon as it is complete; used with `with` and `async for`.

    An async generator that is left early, as it is at each answer, costs a task to end it.

    Args:
        response: whose body is the stream.
        parser: of the stream so far.
        meter: counts what large events hold until they are complete.

    Raises:
        EventTooLarge: one exceeds the parser's limit.
        BodyTooLarge: one was given up.
    """

    __slots__ = (
        "_at", "_chunk", "_content", "_counted", "_events", "_meter", "_parser", "_response",
        "_since", "_size", "_turn",
    )  # fmt: skip

    def __init__(self, response: Answer, parser: EventParser, meter: Meter | None = None) -> None:
        self._response = response
        self._content = response.content
        self._parser = parser
        self._meter = meter
        self._since = perf_counter()  # it has not waited for bytes
        self._turn = self._since + _TURN_S
        self._counted = False
        self._chunk = b""  # taken apart up to `_at`, in pieces of `_size`
        self._at = self._size = 0
        self._events: Iterator[Event] = iter(())  # complete, and not handed on yet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._counted and self._meter is not None:
            self._counted = False
            self._meter.done(self._response)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._events:
                return event
            if self._chunk and (now := perf_counter()) > self._turn:
                took = now - self._since
                await asyncio.sleep(FLOODING.wait_s(took) if took > _TURN_S else 0)
                self._since = perf_counter()
                self._turn = self._since + _TURN_S
            if self._at >= len(self._chunk):
                before = perf_counter()
                self._chunk = chunk = await self._content.readany()
                if not chunk:
                    raise StopAsyncIteration
                if (now := perf_counter()) - before > _WAITED_S:
                    self._since = now
                self._at, self._size = 0, _part_size(chunk)
            self._events = iter(self._take())

    def _take(self) -> list[Event]:
        """The events that the next chunk completes."""
        begin, size = self._at, self._size
        whole = size == len(self._chunk)
        self._at = begin + size
        events = self._parser.feed(self._chunk if whole else self._chunk[begin : begin + size])
        if self._meter is not None:
            unfinished = self._parser.unfinished
            if unfinished >= COUNTED_BYTES:
                self._counted = True
                self._meter.holds(self._response, unfinished)
            elif self._counted:
                self._counted = False
                self._meter.done(self._response)
        return events


def _part_size(chunk: bytes) -> int:
    """How many bytes of a chunk to parse at once: all of them unless it has many lines."""
    if len(chunk) > _PART_BYTES and (_many_lines(chunk, b"\n") or _many_lines(chunk, b"\r")):
        return _PART_BYTES
    return len(chunk)


def _many_lines(chunk: bytes, end: bytes) -> bool:
    """Whether a chunk has many lines with this line ending; `bytes.count` takes sixty times as
    long.
    """
    at = -1
    for _ in range(_PART_LINES):
        at = chunk.find(end, at + 1)
        if at < 0:
            return False
    return True


def give_up(response: Answer, error: Exception) -> None:
    """Abort a response that is being read; its reader gets `error`."""
    if isinstance(response, Response):
        response.fail(error)
    else:
        response.content.set_exception(error)
    response.close()


def release(response: Answer) -> None:
    """Release a stream after its answer was read: back to the pool if it ends shortly, otherwise
    close it.
    """
    if response.closed or response.content.is_eof():
        response.release()
        return
    asyncio.get_running_loop().call_later(_LINGER_S, response.close)
