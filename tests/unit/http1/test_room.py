"""Room for a large body: it is there at once, and nothing is written to it."""

from __future__ import annotations

import resource

import pytest

from armory.http1.room import grown


@pytest.mark.parametrize("size", [5, 1 << 20, (12 << 20) + 1])
def test_a_body_keeps_its_beginning_and_takes_the_rest(size: int) -> None:
    body = bytearray(b"begin")
    room = grown(body, size)
    assert len(room) == len(body) == size
    assert bytes(room[:5]) == b"begin"
    room[5:] = b"x" * (size - 5)
    assert body == b"begin" + b"x" * (size - 5)
    room.release()
    body += b"!"  # nobody has a view of it any more
    assert len(body) == size + 1


def test_room_that_is_not_filled_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    body = bytearray(b"x")
    room = grown(body, 256 << 20)
    room[1 << 20] = 1
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert pages < 10_000  # of 65,536


def test_what_somebody_looks_at_does_not_grow() -> None:
    body = bytearray(b"x")
    with memoryview(body), pytest.raises(BufferError):
        grown(body, 100)
    assert body == b"x"
