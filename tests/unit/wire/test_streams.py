"""Event streams: in order, bounded, resumable, with back-pressure."""

from __future__ import annotations

import asyncio

import pytest

from armory.wire.messages import PIECE_BYTES, whole
from armory.wire.sse import frame, priming, pump
from armory.wire.streams import EventStream, parse_event_id

pytestmark = pytest.mark.anyio


async def drain(stream: EventStream, reader: int) -> list[bytes]:
    got: list[bytes] = []
    while True:
        try:
            found = await stream.next(reader, 0.01)
        except EOFError:
            return got
        if found is None:
            return got
        got.append(whole(found[1]))


async def test_messages_come_in_order_and_end() -> None:
    stream = EventStream("k")
    stream.put(b"1")
    stream.put(b"2")
    stream.close()
    stream.put(b"3")
    assert await drain(stream, stream.attach()) == [b"1", b"2"]
    assert (stream.last, stream.delivered) == (2, 2)


async def test_a_reader_that_comes_back_gets_what_it_missed() -> None:
    stream = EventStream("k")
    for number in range(4):
        stream.put(b"%d" % number)
    reader = stream.attach()
    assert await stream.next(reader, 1) == (1, b"0")
    stream.detach(reader)
    assert await drain(stream, stream.attach()) == [b"1", b"2", b"3"]
    assert await drain(stream, stream.attach(2)) == [b"2", b"3"]


async def test_a_new_reader_ends_the_old_one() -> None:
    stream = EventStream("k")
    first = stream.attach()
    waiting = asyncio.ensure_future(stream.next(first, 5))
    await asyncio.sleep(0)
    second = stream.attach()
    with pytest.raises(EOFError):
        await waiting
    stream.detach(first)
    assert stream.reading
    stream.detach(second)
    assert not stream.reading


async def test_bounds_drop_the_oldest() -> None:
    stream = EventStream("k", keep_events=3)
    for number in range(10):
        stream.put(b"%d" % number)
    assert await drain(stream, stream.attach(0)) == [b"7", b"8", b"9"]
    big = EventStream("k", keep_bytes=10)
    for _ in range(3):
        big.put(b"x" * 8)
    assert big.size_bytes == 8
    assert len(await drain(big, big.attach(0))) == 1


async def test_a_reader_that_is_behind_keeps_more() -> None:
    stream = EventStream("k", keep_events=2)
    stream.attach()
    for number in range(10):
        stream.put(b"%d" % number)
    assert len(await drain(stream, stream.reader)) == 10


async def test_where_nothing_is_kept_no_answer_makes_room_for_news() -> None:
    stream = EventStream("k", keep_bytes=0, keep_events=2)
    reader = stream.attach()
    await stream.write(b"answer")
    for _ in range(100):
        stream.put(b"news")
    assert await stream.next(reader, 1.0) == (1, b"answer")
    assert stream.size_bytes == 15 * len(b"news")


async def test_writers_wait_for_a_slow_reader() -> None:
    stream = EventStream("k", backlog=2)
    reader = stream.attach()
    await stream.write(b"1")
    await stream.write(b"2")
    writing = asyncio.ensure_future(stream.write(b"3"))
    await asyncio.sleep(0)
    assert not writing.done()
    await stream.next(reader, 1)
    await asyncio.wait_for(writing, 10)
    last = asyncio.ensure_future(stream.write(b"4"))
    await asyncio.sleep(0)
    assert not last.done()
    stream.detach(reader)
    await asyncio.wait_for(last, 10)


async def test_each_message_that_is_read_wakes_one_writer_the_first() -> None:
    stream = EventStream("k", keep_bytes=0, backlog=1)
    reader = stream.attach()
    stream.put(b"0")
    writing = [asyncio.ensure_future(stream.write(b"%d" % number)) for number in range(1, 5)]
    await asyncio.sleep(0)
    writing[1].cancel()
    for expected, left in ((b"0", 2), (b"1", 1), (b"3", 0), (b"4", 0)):
        found = await stream.next(reader, 1)
        assert found is not None
        assert found[1] == expected
        for _ in range(3):
            await asyncio.sleep(0)
        assert len([one for one in writing if not one.done()]) == left


async def test_a_writer_that_goes_in_its_turn_leaves_it_to_the_next() -> None:
    stream = EventStream("k", keep_bytes=0, backlog=1)
    reader = stream.attach()
    stream.put(b"0")
    first, second = (asyncio.ensure_future(stream.write(b"%d" % n)) for n in (1, 2))
    await asyncio.sleep(0)
    await stream.next(reader, 1)  # the first one's turn
    first.cancel()
    await asyncio.wait_for(second, 10)
    assert stream.size_bytes == 1
    assert stream.held_bytes == 2  # with the one that was taken


async def test_who_waits_and_writes_nothing_takes_no_writers_turn() -> None:
    stream = EventStream("k", keep_bytes=0)
    reader = stream.attach()
    await stream.write(bytes(16 << 20))
    waiting = asyncio.ensure_future(stream.room())
    await asyncio.sleep(0)
    writing = asyncio.ensure_future(stream.write(b"1"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not writing.done()
    await stream.next(reader, 1)  # the last that there is to read
    await asyncio.wait_for(asyncio.gather(waiting, writing), 10)


async def test_what_is_held_is_told_with_what_writers_hold() -> None:
    told: list[int] = []
    stream = EventStream("k", keep_bytes=0, backlog=1)
    stream.on_held = told.append
    reader = stream.attach()
    await stream.write(b"12")
    writing = asyncio.ensure_future(stream.write(b"345"))
    await asyncio.sleep(0)
    assert stream.held_bytes == told[-1] == 5
    await stream.next(reader, 1)
    await writing
    assert stream.held_bytes == told[-1] == 5  # the reader holds what it took
    await stream.next(reader, 1)
    assert stream.held_bytes == told[-1] == 3
    assert await stream.next(reader, 0.001) is None
    assert stream.held_bytes == told[-1] == 0


async def test_large_messages_make_writers_wait_by_their_size() -> None:
    stream = EventStream("k", keep_bytes=0)
    reader = stream.attach()
    large = bytes(9 << 20)
    await stream.write(large)
    await stream.write(large)
    writing = asyncio.ensure_future(stream.write(large))
    await asyncio.sleep(0)
    assert not writing.done()
    await stream.next(reader, 1)
    await asyncio.wait_for(writing, 10)


async def test_what_was_read_is_forgotten_where_nothing_is_kept() -> None:
    stream = EventStream("k", keep_bytes=0)
    reader = stream.attach()
    for number in range(5):
        stream.put(b"%d" % number)
    assert len(await drain(stream, reader)) == 5
    assert stream.size_bytes == 0


def test_event_ids() -> None:
    assert EventStream("3-ab_c").event_id(7) == "3-ab_c_7"
    assert parse_event_id("3-ab_c_7") == ("3-ab_c", 7)
    for text in ("", "7", "x_", "x_y", "x_" + "9" * 13, "x_-1", "x_²"):
        assert parse_event_id(text) is None


def test_messages_are_framed_as_events() -> None:
    assert frame(b"{}") == b"event: message\ndata: {}\n\n"
    assert frame(b"{}", "a_1") == b"id: a_1\nevent: message\ndata: {}\n\n"
    assert priming("a_0") == b"id: a_0\ndata: \n\n"


async def test_pumping_writes_frames_and_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armory.wire.sse.KEEPALIVE_S", 0.01)
    stream = EventStream("k")
    written: list[bytes | memoryview] = []

    async def write(data: bytes | memoryview) -> None:
        written.append(data)
        if data == b": ping\n\n":
            stream.put(b"{}")
            stream.close()

    await asyncio.wait_for(pump(write, stream, ids=True), 30)
    assert written == [b": ping\n\n", b"id: k_1\nevent: message\ndata: {}\n\n"]
    assert not stream.reading


async def test_a_large_message_is_pumped_in_pieces_of_itself() -> None:
    stream = EventStream("k", keep_bytes=0)
    data = bytes(range(256)) * (10 << 10)
    stream.put(data)
    written: list[bytes | memoryview] = []
    held: list[int] = []

    async def write(piece: bytes | memoryview) -> None:
        written.append(piece)
        held.append(stream.held_bytes)
        stream.close()

    await asyncio.wait_for(pump(write, stream, ids=False), 30)
    assert b"".join(written) == frame(data)
    assert max(map(len, written)) <= PIECE_BYTES
    owned = [piece.obj for piece in written if isinstance(piece, memoryview)]
    assert sum(one is data for one in owned) == 3  # no copy of it
    assert set(held) == {len(data)}  # for as long as any of it is to be written
    assert stream.held_bytes == 0


async def test_a_reader_without_a_limit_is_told_that_it_waited_long() -> None:
    stream = EventStream("s")
    reader = stream.attach()
    waiting = asyncio.ensure_future(stream.next(reader, None))
    await asyncio.sleep(0)
    stream.keep_alive()
    assert await waiting is None
    stream.put(b"0")
    stream.keep_alive()  # nobody waits
    assert await stream.next(reader, None) == (1, b"0")
