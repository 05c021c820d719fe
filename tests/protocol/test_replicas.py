"""Two replicas: a request that reaches the wrong one is passed on, once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from armory.errors import BackendError
from armory.protocol.link import Call, Owner, Reply
from armory.storage.cache import MemoryCache
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import FORM, asking, raws, result, serving
from armory.web.connections.registry import ENDING
from armory.wire.http import edge
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.sessions.directory import ATTEMPTS

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
ELICIT = {"elicitation": {"form": {}}}
ACCEPTED = {"action": "accept", "content": {"zone": "UTC"}}


async def test_sessions_are_found_at_their_owner(front: Front) -> None:
    store = MemoryCache()
    async with serving(front.gateway, store=store) as (one, _):
        async with serving(front.gateway, store=store) as (two, owner):
            front.url = two
            client = await front.start_legacy()
            moved = LegacyClient(one + "/mcp", front.http, client.version, client.session, 10)
            listed = await moved.request("tools/list")
            assert len(listed["result"]["tools"]) == 6
            assert len(owner.sessions) == 1
        status, _ = await moved.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert status == 404


async def test_an_owner_that_ends_is_gone(front: Front) -> None:
    """What came to a connection that it had begun to close is answered with an empty 503."""
    store = MemoryCache()

    async def ending(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ENDING)
        writer.close()

    server = await asyncio.start_server(ending, "127.0.0.1", 0)
    owner = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await store.set(f"replica:{owner}", b"1", 60)
    await store.set("session:elsewhere", owner.encode(), 60)
    async with server, serving(front.gateway, store=store) as (one, _):
        moved = LegacyClient(one + "/mcp", front.http, "2025-11-25", "elsewhere")
        status, _ = await moved.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert status == 404  # as of a session that has ended: the client begins anew


async def test_a_stream_ends_with_the_replica_that_passes_it_on(front: Front) -> None:
    """A pod that ends would wait for it otherwise, as for a call, and cut it in the end."""
    store = MemoryCache()
    async with (
        serving(front.gateway, store=store) as (one, passing),
        serving(front.gateway, store=store) as (two, owner),
    ):
        front.url = two
        client = await front.start_legacy()
        headers = {**client.headers, "Accept": "text/event-stream"}
        async with asyncio.timeout(20), front.http.get(one + "/mcp", headers=headers) as stream:
            assert stream.status == 200
            passing.end_streams()
            await stream.read()  # fails where it is cut
        assert len(owner.sessions) == 1
        async with front.http.get(two + "/mcp", headers=headers) as again:
            assert again.status == 200


async def test_a_replica_that_has_signed_off_is_not_waited_for(front: Front) -> None:
    """As a pod whose address is gone with it: whoever asks there is not even refused."""
    store, asked = MemoryCache(), asyncio.Event()

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not asked.is_set():
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        else:
            await reader.read()  # until nobody asks any more
        writer.close()

    server = await asyncio.start_server(answering, "127.0.0.1", 0)
    owner = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await store.set(f"replica:{owner}", b"1", 600)
    await store.set("session:elsewhere", owner.encode(), 600)
    async with server, serving(front.gateway, store=store, alive_s=60) as (one, _):
        moved = LegacyClient(one + "/mcp", front.http, "2025-11-25", "elsewhere")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await moved.send(ping))[0] == 202
        asked.set()
        await store.delete(f"replica:{owner}")
        async with asyncio.timeout(15):  # a fourth of what a sign of life counts
            assert (await moved.send(ping))[0] == 404


class Spotty(MemoryCache):
    """A store that fails so many times."""

    failing = 0

    async def get(self, key: str) -> bytes | None:
        if self.failing:
            self.failing -= 1
            raise BackendError("Redis failed")
        return await super().get(key)


class Line(MemoryCache):
    """A store as one replica reaches it, until it is cut off."""

    def __init__(self, store: MemoryCache) -> None:
        super().__init__()
        self._store = store
        self.cut = False

    @property
    def _reached(self) -> MemoryCache:
        if self.cut:
            raise BackendError("Redis failed")
        return self._store

    async def get(self, key: str) -> bytes | None:
        return await self._reached.get(key)

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        await self._reached.set(key, value, ttl_s)

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        return await self._reached.add(key, value, ttl_s)

    async def delete(self, *keys: str) -> None:
        await self._reached.delete(*keys)


async def test_a_call_does_not_wait_for_an_owner_that_shows_no_sign_of_life(front: Front) -> None:
    """As behind a cut cable: the connection stands and nothing comes."""
    store = MemoryCache()
    line = Line(store)
    arrived = asyncio.Event()

    async def hanging(_call: Call, _owner: Owner) -> Reply:
        arrived.set()
        return await asyncio.get_running_loop().create_future()

    front.pool.upstreams["old"].answer = hanging
    async with (
        serving(front.gateway, store=store, alive_s=0.3) as (one, _),
        serving(front.gateway, store=line, alive_s=0.3) as (two, _),
    ):
        front.url = two
        client = await front.start_legacy()
        moved = LegacyClient(one + "/mcp", front.http, client.version, client.session, 10)
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "old__now"}}
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            sent = group.create_task(moved.send(body))
            await arrived.wait()
            line.cut = True
        assert sent.result()[0] == 404


@pytest.mark.parametrize(
    ("failures", "status"), [(1, 200), (ATTEMPTS - 1, 200), (ATTEMPTS, 503), (0, 200)]
)
async def test_a_session_is_not_called_gone_because_the_store_fails(
    front: Front, failures: int, status: int
) -> None:
    store = Spotty()
    async with (
        serving(front.gateway, store=store) as (one, _),
        serving(front.gateway, store=store) as (two, _),
    ):
        front.url = two
        client = await front.start_legacy()
        moved = LegacyClient(one + "/mcp", front.http, client.version, client.session, 10)
        store.failing = failures
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await moved.send(body))[0] == status
        assert (await moved.send(body))[0] == 200
        store.failing = 1_000  # from now on it is known whose the session is
        assert (await moved.send(body))[0] == 200


@pytest.mark.parametrize("failures", [0, 1_000])
async def test_parked_calls_go_on_at_their_owner(front: Front, failures: int) -> None:
    """Whose call it is says the state that the client brings, not the store."""
    front.pool.upstreams["old"].answer = asking
    store = Spotty()
    params = {"name": "old__now", "arguments": {}}
    async with serving(front.gateway, store=store) as (one, other):
        async with serving(front.gateway, store=store) as (two, _):
            front.url = two
            _, message = await front.modern("tools/call", params, capabilities=ELICIT)
            store.failing = failures
            for url in (one, one):
                front.url = url
                asked = message["result"]
                (key,) = asked["inputRequests"]
                again = {
                    **params,
                    "requestState": asked["requestState"],
                    "inputResponses": {key: ACCEPTED},
                }
                _, message = await front.modern("tools/call", again, capabilities=ELICIT)
            assert message["result"]["content"][0]["text"] == "UTC+UTC"
            assert other.interactions.parked == 0
            front.url = two
            _, message = await front.modern("tools/call", params, capabilities=ELICIT)
        front.url = one
        state = message["result"]["requestState"]
        status, message = await front.modern(
            "tools/call", {**params, "requestState": state}, capabilities=ELICIT
        )
        assert (status, message["error"]["code"]) == (400, -32602)


async def test_a_parked_call_that_takes_long_has_one_answer(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both replicas have a client that hears nothing for long; only one of them answers it."""
    monkeypatch.setattr(edge, "KeepaliveTimer", partial(KeepaliveTimer, 0.3))
    done = asyncio.Event()

    async def slow(call: Call, _owner: Owner) -> Reply:
        assert call.client is not None
        await call.client.ask("elicitation/create", raws(FORM))
        await done.wait()
        return result({"content": [{"type": "text", "text": "done"}]})

    front.pool.upstreams["old"].answer = slow
    store = MemoryCache()
    params: dict[str, Any] = {"name": "old__now", "arguments": {}}
    async with (
        serving(front.gateway, store=store) as (one, _),
        serving(front.gateway, store=store) as (front.url, _),
        asyncio.timeout(20),
    ):
        _, message = await front.modern("tools/call", params, capabilities=ELICIT)
        asked = message["result"]
        (key,) = asked["inputRequests"]
        params |= {"requestState": asked["requestState"], "inputResponses": {key: ACCEPTED}}
        body = modern_body(2, "tools/call", params, capabilities=ELICIT)
        async with front.http.post(f"{one}/mcp", json=body, headers=modern_headers(body)) as said:
            heard = [await said.content.readline() for _ in range(8)]
            assert set(heard) == {b": ping\n", b"\n"}
            done.set()
            (answer,) = await messages(said)
        assert answer["result"]["content"][0]["text"] == "done"


async def test_a_parked_call_whose_replica_is_found_after_a_keep_alive_has_an_answer(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    front.pool.upstreams["old"].answer = asking
    store = MemoryCache()
    params: dict[str, Any] = {"name": "old__now", "arguments": {}}
    async with serving(front.gateway, store=store) as (front.url, _), asyncio.timeout(20):
        _, message = await front.modern("tools/call", params, capabilities=ELICIT)
        asked = message["result"]
        (key,) = asked["inputRequests"]
        params |= {"requestState": asked["requestState"], "inputResponses": {key: ACCEPTED}}
        body = modern_body(2, "tools/call", params, capabilities=ELICIT)
        monkeypatch.setattr(edge, "KeepaliveTimer", partial(KeepaliveTimer, 0.0))
        async with (
            serving(front.gateway, store=store) as (one, _),
            front.http.post(f"{one}/mcp", json=body, headers=modern_headers(body)) as said,
        ):
            (answer,) = await messages(said)
        assert answer["error"]["data"] == {"reason": "invalid_request_state"}
