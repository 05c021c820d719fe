"""Large bodies of requests, and those that are nested too deep.

Bounded: how much of a body is read before it is refused, how often the event loop turns to others
while one is looked through, and how many pieces of large bodies are read in a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import StreamReader, web

from armory.protocol.errors import Malformed
from armory.protocol.scanning.nesting import PIECE_BYTES
from armory.web.connections.pacing import Pace
from armory.wire.http.body import BodyReader

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
DEEP = 50


class _Protocol:
    """As much of a connection as a stream of bytes needs."""

    def pause_reading(self) -> None: ...
    def resume_reading(self, resume_parser: bool = True) -> None: ...


class _Request:
    """A request whose body arrives when the test says so."""

    content_length = None
    transport = object()

    def __init__(self) -> None:
        self.protocol = _Protocol()
        loop = asyncio.get_running_loop()
        self.content = StreamReader(cast("Any", self.protocol), 2**16, loop=loop)


@pytest.fixture
async def turns() -> AsyncIterator[list[int]]:
    """How often something else had its turn so far."""
    counted = [0]

    async def other() -> None:
        while True:
            counted[0] += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(other())
    yield counted
    beside.cancel()


async def _read(bodies: BodyReader, request: _Request) -> bytes | None:
    async with asyncio.timeout(PATIENCE_S):
        return await bodies.read(cast("web.Request", request))


async def test_what_is_too_deep_is_refused_before_the_rest_of_it_comes() -> None:
    request = _Request()
    request.content.feed_data(b"[" * 2 * PIECE_BYTES)  # and nothing more comes, nor an end
    with pytest.raises(Malformed, match=f"deeper than {DEEP} levels"):
        await _read(BodyReader(4 << 20, DEEP), request)


async def test_what_is_too_large_is_refused_before_the_rest_of_it_comes() -> None:
    request = _Request()
    request.content.feed_data(b"x" * 3 * PIECE_BYTES)
    assert await _read(BodyReader(2 * PIECE_BYTES, DEEP), request) is None


async def test_others_have_their_turn_between_the_pieces_of_a_large_message(
    turns: list[int],
) -> None:
    request, said = _Request(), b"[" * DEEP + b'"[' + b'\\"' * 10 * PIECE_BYTES
    request.content.feed_data(said)
    request.content.feed_eof()
    assert await _read(BodyReader(4 << 20, DEEP), request) == said
    assert turns[0] >= 20


@pytest.mark.parametrize("parts", [1, 3, 40])
async def test_small_bodies_are_judged_however_they_come(parts: int) -> None:
    said = b"[" * (DEEP + 1) + b"]" * (DEEP + 1)
    size = -(-len(said) // parts)
    request = _Request()
    for at in range(0, len(said), size):
        request.content.feed_data(said[at : at + size])
    request.content.feed_eof()
    with pytest.raises(Malformed, match=f"deeper than {DEEP} levels"):
        await _read(BodyReader(4 << 20, DEEP), request)


class _Sender:
    """A connection that sends without pause: what it may read is at once there."""

    def __init__(self, caller: str, pace: Pace, read: list[str]) -> None:
        self.caller = caller
        self.beside_others = False
        self.held = False
        self._pace = pace
        self._read = read

    def hold(self) -> None:
        self.held = True

    def go_on(self) -> None:
        self.held = False
        self._read.append(self.caller)
        self._pace.took(self)


async def test_one_piece_is_read_at_a_time_and_callers_take_turns() -> None:
    read: list[str] = []
    pace = Pace(0.001, at_once=0)
    senders = [_Sender("evil", pace, read) for _ in range(20)] + [_Sender("good", pace, read)]
    for sender in senders:
        pace.took(sender)
    assert all(sender.held for sender in senders)
    async with asyncio.timeout(PATIENCE_S):
        while len(read) < 10:
            before = len(read)
            await asyncio.sleep(0)
            assert len(read) <= before + 1
    assert read[:10].count("good") == 5
    for sender in senders:
        pace.forget(sender)
    assert not len(pace)


async def test_pieces_come_slower_beside_somebody_who_asks_something() -> None:
    read: list[str] = []
    pace = Pace(0.001, at_once=0, beside_s=10 * PATIENCE_S)
    sender = _Sender("evil", pace, read)
    pace.took(sender)
    async with asyncio.timeout(PATIENCE_S):
        while len(read) < 5:
            await asyncio.sleep(0)
            assert len(pace) == 1
    sender.beside_others = True
    so_far = len(read)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(read) <= so_far + 1  # the one that was due already
    pace.forget(sender)


async def test_a_large_body_by_itself_is_read_without_a_pause() -> None:
    pace = Pace(5.0, at_once=3)
    read: list[str] = []
    alone, next_one = _Sender("a", pace, read), _Sender("b", pace, read)
    for _ in range(3):
        pace.took(alone)
    assert not len(pace)
    pace.took(next_one)
    pace.took(alone)
    assert len(pace) == 2
