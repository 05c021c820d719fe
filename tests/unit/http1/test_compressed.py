"""Compressed bodies that come in several members, and in chunks."""

from __future__ import annotations

import gzip

import pytest

from armory.http1.deadlines import Deadlines
from armory.http1.response import Response
from armory.http1.unpacking import UnusableBody

pytestmark = pytest.mark.anyio


class Open:
    """A connection that goes on."""

    def resume(self) -> None:
        """Reads already."""

    def abort(self) -> None:
        """Stays open."""

    def read_into(self, body: bytearray, missing: int) -> None:
        """Reads as ever."""


def packed() -> Response:
    response = Response(Open(), Deadlines())
    response.begin(200, [(b"Content-Encoding", b"gzip")])
    return response


@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize("rest", [b"", bytes(8), b"no gzip"])
async def test_all_members_are_read(size: int, rest: bytes) -> None:
    body = gzip.compress(b"one, ") + gzip.compress(b"") + gzip.compress(b"two") + rest
    response = packed()
    for start in range(0, len(body), size):
        response.feed(body[start : start + size])
    response.finish()
    assert bytes(await response.read()) == b"one, two"


def test_many_members_unfold_no_further_than_one() -> None:
    bombs = gzip.compress(bytes(4 * 1024 * 1024)) * 5
    with pytest.raises(UnusableBody, match="unfolds too far"):
        packed().feed(bombs)


async def test_very_many_members_are_read() -> None:
    response = packed()
    response.feed(b"".join(gzip.compress(b"%d " % number) for number in range(3_000)))
    response.finish()
    assert (await response.read()).split() == [b"%d" % number for number in range(3_000)]
