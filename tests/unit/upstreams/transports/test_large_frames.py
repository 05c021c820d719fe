"""Large messages of processes: decoded step by step, in order, whole where the end comes first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call
from armory.protocol.outline import PIECE_BYTES
from armory.protocol.upstream_messages import AT_ONCE_BYTES
from armory.testing.clients.recording import RecordingObserver
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio
PIECES = 40
PATIENCE_S = 20
Frame = Callable[[int, str], bytes]


class Heard(StdioLink):
    """A link without a process: what it says is what the test gives it, what it hears counts."""

    said = 0

    async def _write(self, data: bytes) -> None:
        self.said += 1


def answer(id: int, text: str) -> bytes:
    said = {"jsonrpc": "2.0", "id": id, "result": {"text": text}}
    return json.dumps(said, ensure_ascii=False).encode()


@pytest.fixture
def link() -> Heard:
    spec = UpstreamSpec("up", command="none")
    made = Heard(LinkContext(spec, {"name": "test", "version": "0"}, RecordingObserver()))
    made.adopt(Identity("legacy", "2025-11-25"))
    return made


async def asked(link: Heard, count: int) -> tuple[list[int], list[asyncio.Task[Any]]]:
    """So many calls that wait: their ids, and what they come to."""
    calls = [
        asyncio.ensure_future(link.request(Call("tools/call", {"name": Raw(b'"x"')})))
        for _ in range(count)
    ]
    for _ in range(100):
        await asyncio.sleep(0)
    assert link.said == count
    return list(link.requests.pending), calls


async def test_others_have_their_turn_while_a_large_frame_is_decoded(link: Heard) -> None:
    (one, two), (large, small) = await asked(link, 2)
    assert link.received(answer(one, "é" * (PIECES * PIECE_BYTES // 2))) > 0
    assert link.received(answer(two, "after it")) > 0, "nothing more should be read"
    turns = 0
    async with asyncio.timeout(PATIENCE_S):
        while not large.done():
            assert not small.done(), "in order"
            turns += 1
            await asyncio.sleep(0)
        await small
    assert turns >= PIECES
    assert not link.received(answer(99, "x" * (AT_ONCE_BYTES // 2)))


async def test_garbage_that_is_large_costs_nobody_else(link: Heard) -> None:
    (one,), (call,) = await asked(link, 1)
    link.received(b'{"jsonrpc":"2.0","id":"' + b"x" * 2 * AT_ONCE_BYTES)
    link.received(answer(one, "whole"))
    async with asyncio.timeout(PATIENCE_S):
        reply = await call
    assert bytes(reply.result) == b'{"text": "whole"}'


async def test_what_came_before_the_end_is_answered(link: Heard) -> None:
    (one, _), (large, never) = await asked(link, 2)
    link.received(answer(one, "x" * 2 * AT_ONCE_BYTES))
    link.died("its process ended")
    async with asyncio.timeout(PATIENCE_S):
        assert len(bytes((await large).result)) > 2 * AT_ONCE_BYTES
        with pytest.raises(UpstreamUnavailable, match="ended"):
            await never
