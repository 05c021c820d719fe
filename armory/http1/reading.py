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
_TURN_S = 0.001
"""How long one stream may hold the event loop, in seconds."""
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
        "_at", "_began", "_chunk", "_content", "_counted", "_events", "_loop", "_meter", "_more",
        "_parser", "_response", "_size",
    )  # fmt: skip

    def __init__(self, response: Answer, parser: EventParser, meter: Meter | None = None) -> None:
        self._response = response
        self._content = response.content
        self._parser = parser
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._began = 0.0  # when this turn of the event loop began to be counted; 0: it has not
        self._counted = False
        self._chunk = b""  # taken apart up to `_at`, in pieces of `_size`
        self._at = self._size = 0
        self._events: Iterator[Event] = iter(())  # complete, and not handed on yet
        self._more = False  # than one event came at once

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
            if self._more:
                await self._give_way()
            for event in self._events:
                return event
            if self._at >= len(self._chunk):
                self._chunk = chunk = await self._content.readany()
                if not chunk:
                    raise StopAsyncIteration
                self._at, self._size = 0, _part_size(chunk)
            events = self._take()
            self._more = len(events) > 1 or self._at < len(self._chunk)
            self._events = iter(events)

    async def _give_way(self) -> None:
        """Let others go on where this stream has held the event loop for long.

        Its reader's work counts, for it is done in the same turn; not the time for which that
        waits: once anything else runs, the turn is over.
        """
        if self._began and (took := perf_counter() - self._began) > _TURN_S:
            await asyncio.sleep(FLOODING.wait_s(took))
        if not self._began:
            self._began = perf_counter()
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._began = 0.0

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
