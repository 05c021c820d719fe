"""Large bodies that arrive at once are read in turns: one piece in a round of the event loop.

Owns: `armory.http1.large` and where connections use it. What the selector would do is done here by
hand, so that rounds can be counted: each connection that may read has bytes in each of them.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from armory.http1 import large
from armory.http1.connection import Connection
from armory.http1.deadlines import Deadlines
from armory.http1.large import PIECE_BYTES, ROUND_BYTES, LargeReads, large_reads

pytestmark = pytest.mark.anyio
SIZE = 16 * PIECE_BYTES


class Socket(asyncio.Transport):
    """A transport that has bytes whenever it may read."""

    def __init__(self) -> None:
        super().__init__()
        self.open = self.reading = True

    def write(self, data: object) -> None:
        """Nobody looks at what is asked."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return not self.open

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert self.open
        self.reading = True

    def abort(self) -> None:
        self.open = self.reading = False

    close = abort


class Download:
    """One connection in the middle of a large body."""

    def __init__(self) -> None:
        deadlines = Deadlines()
        self.socket = Socket()
        self.connection = Connection(
            ("http", "a", 80), deadlines, on_free=lambda _c: None, on_closed=lambda _c: None
        )
        self.connection.connection_made(self.socket)
        response = self.connection.send(b"GET / HTTP/1.1\r\n\r\n", None, None)
        self.sent = 0
        self.largest = 0
        self._feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
        self.body = asyncio.ensure_future(response.read())

    def _feed(self, data: bytes) -> None:
        room = self.connection.get_buffer(-1)
        room[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def ready(self) -> bool:
        """Read what fits, if it may; whether it did."""
        if not self.socket.reading or self.sent == SIZE:
            return False
        room = self.connection.get_buffer(-1)
        size = min(len(room), SIZE - self.sent)
        room[:size] = b"x" * size
        self.sent += size
        self.largest = max(self.largest, size)
        self.connection.buffer_updated(size)
        return True


async def rounds(downloads: list[Download]) -> list[int]:
    """How many of them read in each round, until all have ended."""
    found: list[int] = []
    async with asyncio.timeout(30):
        while not all(one.body.done() for one in downloads):
            await asyncio.sleep(0)
            found.append(sum([one.ready() for one in downloads]))
    return found


async def begun(count: int) -> list[Download]:
    downloads = [Download() for _ in range(count)]
    await asyncio.sleep(0)  # each reads straight into place from now on
    return downloads


async def test_one_of_many_large_bodies_is_read_in_a_round() -> None:
    downloads = await begun(5)
    found = await rounds(downloads)
    assert max(found[1:]) == 1  # in the first round nobody had read yet
    assert max(one.largest for one in downloads) <= PIECE_BYTES
    assert [len(one.body.result()) for one in downloads] == [SIZE] * 5


async def test_they_take_turns() -> None:
    downloads = await begun(3)
    order: list[int] = []
    async with asyncio.timeout(30):
        while len(order) < 15:
            await asyncio.sleep(0)
            order += [place for place, one in enumerate(downloads) if one.ready()]
    assert {tuple(sorted(order[i : i + 3])) for i in range(3, 15, 3)} == {(0, 1, 2)}
    for one in downloads:
        one.body.cancel()
        one.connection.connection_lost(None)


async def test_one_alone_rests_only_while_others_keep_the_loop_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = SIZE // ROUND_BYTES
    monkeypatch.setattr(large, "_BUSY_S", float("inf"))
    (alone,) = await begun(1)
    found = await rounds([alone])
    assert alone.largest > PIECE_BYTES
    assert found.count(0) <= 3 * pieces  # it looks whether anybody else is there

    monkeypatch.setattr(large, "_BUSY_S", -1.0)
    (beside,) = await begun(1)
    begin = time.perf_counter()
    await rounds([beside])
    assert time.perf_counter() - begin > (pieces - 1) * 0.0005  # a rest of 1 ms before each
    assert len(beside.body.result()) == SIZE  # it is not kept from its end


async def test_one_alone_is_not_read_whole_in_one_round() -> None:
    (alone,) = await begun(1)
    most = 0
    async with asyncio.timeout(30):
        while not alone.body.done():
            await asyncio.sleep(0)
            before = alone.sent
            while alone.ready():  # as libuv does, for as long as what it is given is filled
                pass
            most = max(most, alone.sent - before)
    assert ROUND_BYTES <= most < ROUND_BYTES + SIZE // 4
    assert len(alone.body.result()) == SIZE


async def test_one_that_is_gone_leaves_no_turn_behind() -> None:
    downloads = await begun(2)
    for one in downloads:
        one.ready()
    gone, left = downloads
    gone.socket.abort()
    gone.connection.connection_lost(None)
    with pytest.raises(ConnectionError):
        await gone.body
    found = await rounds([left])
    assert sum(found) > 0
    assert not large_reads().shared


async def test_each_loop_has_its_own() -> None:
    async def other() -> LargeReads:
        return large_reads()

    assert large_reads() is large_reads()
    assert await asyncio.to_thread(asyncio.run, other()) is not large_reads()
