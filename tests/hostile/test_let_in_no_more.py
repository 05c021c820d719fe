"""What was let in, and has called nothing yet, when the credential that it came with ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from armory.domain.principal import Principal
from armory.errors import BackendError
from armory.security.authentication import Authenticator
from armory.storage.cache import MemoryCache
from armory.tasks import stop
from armory.testing.clients.raw import LegacyClient, modern_body, modern_headers
from armory.testing.front import serving
from armory.testing.waiting import until
from armory.wire.sessions.turns import MANY
from tests.hostile.test_ends_meanwhile import EndsInTheMidst
from tests.hostile.test_revoked import (
    PATIENCE_S,
    Held,
    Revocable,
    bearer,
    half_sent,
    held_up,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
PARAMS: dict[str, Any] = {"name": "up__wait", "arguments": {}}
CALL = modern_body(1, "tools/call", PARAMS)
AT_ONCE = 16
"""Calls of one batch that are served at the same time."""


def plain_call(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": PARAMS}


async def status_of(http: aiohttp.ClientSession, url: str, credential: str) -> int:
    headers = {**modern_headers(CALL), **bearer(credential)}
    async with http.post(f"{url}/mcp", json=CALL, headers=headers) as answered:
        return answered.status


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_came_slowly_calls_nothing(era: str) -> None:
    upstream = Held()
    upstream.let_go.set()
    gateway, scheme, checks = held_up(upstream)
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:
        body, headers = CALL, {**modern_headers(CALL), **bearer("ann")}
        if era == "legacy":
            client = LegacyClient(f"{url}/mcp", http, "2025-11-25", token="ann")
            await client.initialize({})
            body, headers = plain_call(1), client.headers
        async with half_sent(url, "/mcp", body, headers) as request:
            scheme.ended.add("ann")
            await edge.end_principal("api_key:ann")
            status, said = await request.finished()
        assert (status, upstream.under_way) == (401, [])
        assert json.loads(said)["error"]["data"]["code"] == "authentication_failed"


async def test_what_waited_for_its_turn_calls_nothing() -> None:
    upstream = Held()
    gateway, scheme, _ = held_up(upstream)
    checks = EndsInTheMidst(scheme, looks=1)
    async with serving(gateway, checks) as (url, _edge), aiohttp.ClientSession() as http:
        others = ["bob", *["ann/other"] * MANY]
        calls = [asyncio.ensure_future(status_of(http, url, one)) for one in others]
        await until(lambda: len(upstream.under_way) == len(others))

        def end() -> None:
            scheme.ended.add("ann")
            checks.ended()

        checks.end = end
        async with asyncio.timeout(PATIENCE_S):
            late = asyncio.ensure_future(status_of(http, url, "ann"))
            await until(lambda: late.done() or len(upstream.under_way) > len(others))
            assert len(upstream.under_way) == len(others)
            assert await late == 401
            upstream.let_go.set()
            assert await asyncio.gather(*calls) == [200] * len(others)


async def batch_under_way(client: LegacyClient, upstream: Held) -> asyncio.Future[Any]:
    """A batch of one call more than run at once, as many of which the upstream holds."""
    await client.initialize({})
    sent = asyncio.ensure_future(client.send([plain_call(id) for id in range(AT_ONCE + 1)]))
    await until(lambda: len(upstream.under_way) == AT_ONCE)
    return sent


async def test_the_rest_of_a_batch_calls_nothing() -> None:
    upstream = Held()
    gateway, scheme, checks = held_up(upstream)
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:
        client = LegacyClient(f"{url}/mcp", http, "2025-03-26", token="ann")
        sent = await batch_under_way(client, upstream)
        scheme.ended.add("ann")
        await edge.end_principal("api_key:ann")
        upstream.let_go.set()
        async with asyncio.timeout(PATIENCE_S):
            status, _ = await sent
        assert (status, len(upstream.under_way)) == (401, AT_ONCE)


async def test_the_rest_of_a_batch_calls_nothing_once_its_session_is_deleted() -> None:
    upstream = Held()
    gateway, _, checks = held_up(upstream)
    async with serving(gateway, checks) as (url, _edge), aiohttp.ClientSession() as http:
        client = LegacyClient(f"{url}/mcp", http, "2025-03-26", token="ann")
        sent = await batch_under_way(client, upstream)
        async with asyncio.timeout(PATIENCE_S):
            async with http.delete(client.url, headers=client.headers) as answered:
                assert answered.status == 204
            upstream.let_go.set()
            status, bodies = await sent
        said: Any = bodies[0]
        assert (len(upstream.under_way), len(upstream.cancelled)) == (AT_ONCE, AT_ONCE)
        assert (status, [answer["id"] for answer in said]) == (200, [AT_ONCE])
        assert said[0]["error"]["message"] == "the session has ended"


async def test_a_message_to_an_event_stream_calls_nothing() -> None:
    upstream = Held()
    upstream.let_go.set()
    gateway, scheme, checks = held_up(upstream)
    async with (
        serving(gateway, checks) as (url, edge),
        aiohttp.ClientSession() as http,
        http.get(f"{url}/sse", headers=bearer("ann")) as stream,
    ):
        await stream.content.readuntil(b"data: ")
        path = (await stream.content.readline()).decode().strip()
        async with half_sent(url, path, CALL, bearer("ann")) as request:
            scheme.ended.add("ann")
            await edge.end_principal("api_key:ann")
            status, _ = await request.finished()
        assert (status, upstream.under_way) == (401, [])


class SlowStore(MemoryCache):
    """What replicas share; it takes its time to hear of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """As `Store.set`."""
        if key.startswith("session:"):
            self.told.set()
            await self.goes_on.wait()
        await super().set(key, value, ttl_s)


async def test_who_is_out_while_a_session_is_claimed_has_none() -> None:
    gateway, scheme, checks = held_up(Held())
    store = SlowStore()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    async with (
        serving(gateway, checks, store=store) as (url, edge),
        aiohttp.ClientSession() as http,
        asyncio.timeout(PATIENCE_S),
    ):

        async def ask() -> tuple[int, bool]:
            async with http.post(f"{url}/mcp", json=body, headers=bearer("ann")) as answered:
                return answered.status, "Mcp-Session-Id" in answered.headers

        asked = asyncio.ensure_future(ask())
        await store.told.wait()
        scheme.ended.add("ann")
        await edge.end_principal("api_key:ann")
        store.goes_on.set()
        assert await asked == (401, False)
        assert not len(edge.sessions)


class Unreachable(Revocable):
    """As `Revocable`, but some credentials cannot be checked just now."""

    def __init__(self) -> None:
        super().__init__()
        self.unknown: set[str] = set()

    async def identify(self, credential: str) -> Principal | None:
        """As `Scheme.identify`."""
        if credential in self.unknown:
            raise BackendError("the store of the keys is not there")
        return await super().identify(credential)


@pytest.mark.parametrize("asks", [False, True])
async def test_who_cannot_be_checked_as_another_ends_is_answered(asks: bool) -> None:
    upstream, scheme = Held(asks=asks), Unreachable()
    upstream.asking.clear()
    gateway, _, _ = held_up(upstream)
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    body = modern_body(1, "tools/call", PARAMS, capabilities={"elicitation": {"form": {}}})
    headers = {**modern_headers(body), **bearer("ann")}
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:

        async def call() -> tuple[int, Any]:
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                return answered.status, await answered.json()

        called = asyncio.ensure_future(call())
        await until(lambda: upstream.under_way == ["ann"])
        scheme.unknown.add("ann")
        await edge.end_principal("api_key:bob")
        upstream.asking.set()
        upstream.let_go.set()
        async with asyncio.timeout(PATIENCE_S):
            status, said = await called
        assert status == 200
        assert said["result"]["resultType"] == ("input_required" if asks else "complete")
        assert (edge.interactions.parked, upstream.cancelled) == (int(asks), [])


class LooksFirst(Revocable):
    """As `Revocable`, but it takes its time to say what it has found."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()
        self.says = asyncio.Event()

    async def identify(self, credential: str) -> Principal | None:
        """As `Scheme.identify`."""
        found = await super().identify(credential)
        self.looked.set()
        await self.says.wait()
        return found


@pytest.mark.parametrize("what", ["call", "stream"])
async def test_what_was_just_being_let_in_is_not(what: str) -> None:
    upstream, scheme = Held(), LooksFirst()
    gateway, _, _ = held_up(upstream)
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:

        async def ask() -> int:
            if what == "call":
                return await status_of(http, url, "ann")
            async with http.get(f"{url}/sse", headers=bearer("ann")) as stream:
                return stream.status

        asked = asyncio.ensure_future(ask())
        async with asyncio.timeout(PATIENCE_S):
            await scheme.looked.wait()
        scheme.ended.add("ann")
        await edge.end_principal("api_key:ann")
        scheme.says.set()
        await until(lambda: asked.done() or bool(upstream.under_way))
        assert upstream.under_way == []
        assert await asked == 401


class SlowToSay(Revocable):
    """One that takes its time once it is asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.asked = asyncio.Event()

    async def identify(self, credential: str) -> Principal | None:
        """As `Scheme.identify`."""
        if self.waits:
            self.asked.set()
            await asyncio.Event().wait()
        return await super().identify(credential)


async def test_who_leaves_while_it_is_asked_again_who_it_is_has_no_session() -> None:
    gateway, _, _ = held_up(Held())
    scheme, store = SlowToSay(), SlowStore()
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    async with (
        serving(gateway, checks, store=store) as (url, edge),
        aiohttp.ClientSession() as http,
        asyncio.timeout(PATIENCE_S),
    ):
        asking = asyncio.ensure_future(http.post(f"{url}/mcp", json=body, headers=bearer("ann")))
        await store.told.wait()
        scheme.waits = True
        await edge.end_principal("api_key:bob")
        store.goes_on.set()
        await scheme.asked.wait()
        assert len(edge.sessions) == 1
        await stop(asking)
        await until(lambda: not len(edge.sessions))
