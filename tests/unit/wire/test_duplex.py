"""What comes on a connection while another thing that came on it is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from armory.domain.principal import ANONYMOUS
from armory.gateway.gateway import Gateway
from armory.protocol.bodies import BATCH_BYTES, BATCH_ITEMS
from armory.protocol.codes import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from armory.protocol.jsonrpc import request
from armory.storage.cache import MemoryCache
from armory.testing.front import ScriptedPool, WordRetriever, raws, serving
from armory.testing.waiting import until
from armory.wire.caller import Caller
from armory.wire.dispatch import Dispatcher
from armory.wire.duplex.connection import Duplex
from armory.wire.interaction.interactions import Interactions
from armory.wire.sessions.batches import Batches
from armory.wire.sessions.directory import Directory
from armory.wire.sessions.registry import Sessions
from armory.wire.streams import EventStream

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old"}}


def initialize(id: int) -> bytes:
    return request(id, "initialize", raws(HELLO))


class Slow(Directory):
    """One that takes claims once it may."""

    def __init__(self) -> None:
        super().__init__(MemoryCache(), "http://here")
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def claim(self, session_id: str) -> None:
        self.asked.set()
        await self.may.wait()
        await super().claim(session_id)


class Watched(Dispatcher):
    """One that keeps what it is told of."""

    def __init__(self, gateway: Gateway, interactions: Interactions) -> None:
        super().__init__(gateway, interactions)
        self.told: list[tuple[int | str, str]] = []

    def refused(self, caller: Caller, code: int | str, method: str = "") -> None:
        self.told.append((code, method))


class Bench:
    def __init__(self) -> None:
        gateway = Gateway(ScriptedPool(), WordRetriever())
        self.directory = Slow()
        self.sessions = Sessions(gateway, directory=self.directory)
        self.out = EventStream("x")
        self.dispatcher = Watched(gateway, Interactions())
        self.duplex = Duplex(
            self.dispatcher,
            self.sessions,
            Caller(ANONYMOUS),
            self.out,
            Batches(BATCH_ITEMS, BATCH_BYTES),
            json_depth=None,
        )


async def test_of_two_handshakes_at_once_one_is_refused() -> None:
    bench = Bench()
    async with asyncio.timeout(10):
        first = asyncio.create_task(bench.duplex.take(initialize(1)))
        await bench.directory.asked.wait()
        second = asyncio.create_task(bench.duplex.take(initialize(2)))
        await asyncio.sleep(0)
        bench.directory.may.set()
        await asyncio.gather(first, second)
        assert len(bench.sessions) == 1
        await bench.duplex.close()
    assert len(bench.sessions) == 0


async def test_who_watches_is_told_what_is_refused() -> None:
    bench = Bench()
    told = bench.dispatcher.told
    bench.directory.may.set()
    async with asyncio.timeout(10):
        await bench.duplex.take(b"{")
        await bench.duplex.take(request(1, "tools/list", {}))
        meta = {"io.modelcontextprotocol/protocolVersion": "2999-01-01"}
        await bench.duplex.take(request(2, "tools/list", raws({"_meta": meta})))
        await until(lambda: len(told) == 3)
        await bench.duplex.take(initialize(3))
        await bench.duplex.take(initialize(4))
        await bench.duplex.take(b"[1]")
        await bench.duplex.close()
    assert told == [
        (PARSE_ERROR, ""),
        (INVALID_REQUEST, "tools/list"),
        (INVALID_PARAMS, "tools/list"),
        (INVALID_REQUEST, ""),
        (INVALID_REQUEST, ""),
    ]


@pytest.mark.parametrize("size", [1, 70_000])
async def test_what_is_no_utf8_is_refused_and_the_connection_goes_on(size: int) -> None:
    bench = Bench()
    bench.directory.may.set()
    async with asyncio.timeout(10):
        await bench.duplex.take(
            b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"\xff":"%b"}}' % (b"x" * size)
        )
        assert bench.out.last == 1
        await bench.duplex.take(initialize(2))
        assert len(bench.sessions) == 1
        await bench.duplex.close()


async def test_a_session_whose_connection_ends_before_it_has_begun_ends_with_it() -> None:
    bench = Bench()
    async with asyncio.timeout(10):
        first = asyncio.create_task(bench.duplex.take(initialize(1)))
        await bench.directory.asked.wait()
        await bench.duplex.close()
        bench.directory.may.set()
        await first
    assert len(bench.sessions) == 0


async def test_a_session_whose_client_leaves_before_it_has_begun_is_not_kept() -> None:
    bench = Bench()
    first = asyncio.create_task(bench.duplex.take(initialize(1)))
    async with asyncio.timeout(10):
        await bench.directory.asked.wait()
        first.cancel()
        await asyncio.wait((first,))
    await until(lambda: len(bench.sessions) == 0)


async def test_a_message_whose_stream_ends_while_it_comes_is_for_no_session() -> None:
    gateway, gone = Gateway(ScriptedPool(), WordRetriever()), asyncio.Event()
    begun = asyncio.Event()

    async def late() -> AsyncGenerator[bytes]:
        yield initialize(1)[:10]
        begun.set()
        await gone.wait()
        yield initialize(1)[10:]

    async with (
        asyncio.timeout(30),
        serving(gateway) as (url, edge),
        aiohttp.ClientSession() as http,
    ):
        stream = await http.get(url + "/sse", headers={"Accept": "text/event-stream"})
        await stream.content.readline()
        path = url + (await stream.content.readline()).decode().removeprefix("data: ").strip()
        posting = asyncio.create_task(http.post(path, data=late()))
        await begun.wait()
        async with http.post(path, json={"jsonrpc": "2.0", "method": "x"}) as other:
            assert other.status == 202
        stream.close()
        while True:  # the end of a stream announces nothing
            async with http.post(path, json={"jsonrpc": "2.0", "method": "x"}) as other:
                if other.status == 404:
                    break
        gone.set()
        async with await posting as response:
            assert response.status == 404
        assert len(edge.sessions) == 0
