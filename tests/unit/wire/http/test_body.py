"""The body of a request: taken at once where it is there, refused as it would be where it is read.

Owns: `armory.wire.http.body.BodyReader`.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from armory.protocol.errors import Malformed
from armory.protocol.scanning.nesting import PIECE_BYTES
from armory.wire.http.body import BodyReader

pytestmark = pytest.mark.anyio
MOST = PIECE_BYTES + 1_000


def request(*pieces: bytes, ends: bool = True) -> Any:
    """A request whose body has come so far; it declares no length."""
    loop = asyncio.get_running_loop()
    content = StreamReader(BaseProtocol(loop), limit=1 << 20, loop=loop)
    for piece in pieces:
        content.feed_data(piece)
    if ends:
        content.feed_eof()
    return SimpleNamespace(content=content, content_length=None, protocol=None, transport=Mock())


async def test_what_is_there_is_taken_at_once() -> None:
    assert BodyReader(MOST, 10).arrived(request(b"{", b"}")) == b"{}"
    nothing: Any = SimpleNamespace(content=EMPTY_PAYLOAD)
    assert BodyReader(MOST, 10).arrived(nothing) == b""


async def test_what_is_nested_too_deep_is_refused_either_way() -> None:
    deep = b"[" * 11 + b"]" * 11
    with pytest.raises(Malformed, match="nested deeper than 10"):
        BodyReader(MOST, 10).arrived(request(deep))
    with pytest.raises(Malformed, match="nested deeper than 10"):
        await BodyReader(MOST, 10).read(request(deep))


@pytest.mark.parametrize("size", [PIECE_BYTES + 1, MOST])
async def test_what_takes_long_to_look_through_is_read_in_turns(size: int) -> None:
    bodies, asked = BodyReader(MOST, 10), request(b"1" * size)
    assert bodies.arrived(asked) is None
    assert await bodies.read(asked) == b"1" * size


async def test_what_is_too_large_is_not_taken() -> None:
    bodies, asked = BodyReader(3, 10), request(b"1234")
    assert bodies.arrived(asked) is None
    assert await bodies.read(asked) is None


async def test_what_goes_on_is_read() -> None:
    bodies, asked = BodyReader(MOST, 10), request(b"1", ends=False)
    assert bodies.arrived(asked) is None
    reading = asyncio.ensure_future(bodies.read(asked))
    asked.content.feed_data(b"2")
    asked.content.feed_eof()
    assert await reading == b"12"
