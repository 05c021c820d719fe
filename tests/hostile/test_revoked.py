"""What was begun before a credential was revoked, or comes while not everybody has heard of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from armory.accounts.service import Accounts
from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, BackendError
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.security.authentication import Authenticator
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import (
    FORM,
    ScriptedPool,
    ScriptedUpstream,
    raws,
    result,
    serving,
    tool,
)
from armory.testing.people import World
from armory.testing.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
PATIENCE_S = 20


class HalfSent:
    """A request of whose body the last byte is still to come."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last: bytes
    ) -> None:
        self._reader, self._writer, self._last = reader, writer, last

    async def finished(self) -> tuple[int, bytes]:
        """(status, what comes first of the body) after the rest was sent."""
        self._writer.write(self._last)
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            said = await self._reader.read(65_536)
        return int(head.split()[1]), said


@asynccontextmanager
async def half_sent(
    url: str, path: str, body: Any, headers: Mapping[str, str]
) -> AsyncGenerator[HalfSent]:
    """Such a request, which was let in."""
    place, data = urlsplit(url), json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    every = {
        "Host": place.netloc,
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    try:
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data[:-1])
        await writer.drain()
        async with aiohttp.ClientSession() as http:  # what comes later is answered: it was let in
            for _ in range(3):
                async with http.get(f"{url}/healthz") as answer:
                    await answer.read()
        yield HalfSent(reader, writer, data[-1:])
    finally:
        writer.transport.abort()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def revoked(accounts: Accounts, key: str) -> None:
    await accounts.keys.revoke(key)


async def switched_off(accounts: Accounts, _key: str) -> None:
    await accounts.users.change("ann", is_active=False)


async def deleted(accounts: Accounts, _key: str) -> None:
    await accounts.users.delete("ann")


End = Callable[[Accounts, str], Awaitable[None]]
ENDS = (revoked, switched_off, deleted)


@asynccontextmanager
async def key_of_ann(world: World) -> AsyncGenerator[tuple[str, Accounts, str, str]]:
    """(URL, accounts, id of a key, the key) of somebody who has just used it."""
    async with world.gateway(api_keys=True, accounts={"enabled": True}) as (url, runtime):
        assert runtime.accounts is not None
        await runtime.accounts.users.create("ann")
        made, key = await runtime.accounts.keys.create("laptop", user="ann")
        assert "result" in await world.ask(url, key, "tools/list", {})
        yield url, runtime.accounts, made.id, key


@pytest.mark.parametrize("end", ENDS)
async def test_nobody_makes_a_key_any_more(world: World, end: End) -> None:
    async with (
        key_of_ann(world) as (url, accounts, id, key),
        half_sent(url, "/v1/keys", {"name": "another"}, bearer(key)) as request,
    ):
        await end(accounts, id)
        status, said = await request.finished()
        assert (status, json.loads(said)["code"]) == (401, "authentication_failed")
        assert "another" not in [one.name for one in await accounts.keys.list()]
        assert end is not deleted or await accounts.users.get("ann") is None


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ],
)
async def test_nobody_asks_or_hears_anything_any_more(
    world: World, end: End, method: str, params: dict[str, Any]
) -> None:
    body = modern_body(1, method, params)
    async with key_of_ann(world) as (url, accounts, id, key):
        headers = {**modern_headers(body), **bearer(key)}
        async with half_sent(url, "/mcp", body, headers) as request:
            assert "result" in await world.ask(url, key, "tools/list", {})  # others go on
            await end(accounts, id)
            status, said = await request.finished()
            assert status == 401
            assert json.loads(said)["error"]["data"]["code"] == "authentication_failed"


def _deleted_elsewhere(file: Path) -> None:
    """Delete her where nobody tells this process of it, as it is for a second."""
    with sqlite3.connect(file, timeout=PATIENCE_S) as database:
        database.execute("PRAGMA foreign_keys=ON")
        database.execute("DELETE FROM users WHERE id = 'ann'")
    database.close()


async def test_a_deleted_user_is_not_made_again_by_a_key_of_its_own(world: World) -> None:
    async with key_of_ann(world) as (url, accounts, _, key):
        await asyncio.to_thread(_deleted_elsewhere, world.home / "armory.db")
        for path, body in (
            ("/v1/keys", {"name": "another"}),
            ("/v1/packs", {"title": "another"}),
            ("/v2/track_installation", {"server": "docs"}),
        ):
            made = world.http.post(f"{url}{path}", json=body, headers=bearer(key))
            async with made as answered:
                problem = await answered.json()
                said = (answered.status, problem["code"], problem.get("parameter"))
            # once the key was read again, it is none; until then it is hers who is gone
            assert said in ((422, "invalid_request", "user"), (401, "authentication_failed", None))
            assert await accounts.users.get("ann") is None
        assert await accounts.keys.list() == []
        assert await accounts.packs.list(user=None) == []


class Revocable:
    """Credentials that are revoked by their names; those of one subject may be several."""

    def __init__(self) -> None:
        self.ended: set[str] = set()

    async def identify(self, credential: str) -> Principal | None:
        """As `Scheme.identify`."""
        if credential in self.ended:
            raise AuthenticationFailed("it was revoked")
        return Principal(credential.partition("/")[0], method="api_key")


class SlowToSubscribe(ScriptedPool):
    """Upstreams that take their time to say that they tell of a resource."""

    async def set_subscriptions(
        self, server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        """Note it at once, and wait."""
        await super().set_subscriptions(server, owner, uris, again)
        if uris:
            await self.said.wait()

    said: asyncio.Event = asyncio.Event()


async def test_who_is_out_while_an_upstream_is_waited_for_listens_to_nothing() -> None:
    lists = ServerLists(
        resources=[{"uri": "mem://one", "name": "one"}],
        capabilities={"resources": {"subscribe": True}},
    )

    async def answer(*_: Any) -> Any:
        return result({})

    pool = SlowToSubscribe({"up": ScriptedUpstream(lists, answer)})
    pool.said = asyncio.Event()
    gateway, scheme = Gateway(pool), Revocable()
    gateway.publish(pool.catalog())
    body = modern_body(
        1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["up+mem://one"]}}
    )
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:

        async def listens(who: str) -> int:
            headers = {**modern_headers(body), **bearer(who)}
            async with asyncio.timeout(PATIENCE_S):
                async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                    return answered.status

        ann, bob = (asyncio.ensure_future(listens(who)) for who in ("ann", "bob"))
        await until(lambda: len(pool.subscriptions) == 2)
        scheme.ended.add("ann")
        await edge.end_principal("api_key:ann")
        pool.said.set()
        assert (await ann, await bob) == (401, 200)
        await until(lambda: not len(gateway.changes))


class Held:
    """An upstream whose tool waits, or asks its client something, until it is let go."""

    def __init__(self, *, asks: bool = False) -> None:
        self._asks = asks
        self.under_way: list[str] = []
        self.cancelled: list[str] = []
        self.let_go = asyncio.Event()
        self.asking = asyncio.Event()
        self.asking.set()

    async def __call__(self, call: Call, owner: Owner) -> Reply:
        who = owner.principal.subject
        self.under_way.append(who)
        try:
            if self._asks:
                assert call.client is not None
                await self.asking.wait()
                await call.client.ask("elicitation/create", raws(FORM))
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(who)
            raise
        return result({"content": [{"type": "text", "text": "a secret"}]})


def held_up(upstream: Held) -> tuple[Gateway, Revocable, Authenticator]:
    lists = ServerLists(tools=[tool("wait", "waits")], capabilities={"tools": {}})
    pool = ScriptedPool({"up": ScriptedUpstream(lists, upstream)})
    gateway, scheme = Gateway(pool), Revocable()
    gateway.publish(pool.catalog())
    return gateway, scheme, Authenticator((), (scheme,), allow_anonymous=False)


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "application/json"])
async def test_a_call_in_flight_ends_with_the_credential_that_it_came_with(accept: str) -> None:
    upstream = Held()
    gateway, scheme, checks = held_up(upstream)
    body = modern_body(1, "tools/call", {"name": "up__wait", "arguments": {}})
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:

        async def call(credential: str) -> bytes:
            headers = {**modern_headers(body), **bearer(credential), "Accept": accept}
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                return await answered.read()

        every = [asyncio.ensure_future(call(one)) for one in ("ann", "ann/other", "bob")]
        await until(lambda: len(upstream.under_way) == 3)
        scheme.ended.add("ann")
        await edge.end_principal("api_key:ann")
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(aiohttp.ClientError):
                await every[0]
            await until(lambda: upstream.cancelled == ["ann"])
            upstream.let_go.set()
            for other in every[1:]:
                assert b"a secret" in await other


class PartlyAway(Revocable):
    """One that cannot say of some credentials whether they have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()

    async def identify(self, credential: str) -> Principal | None:
        """As `Scheme.identify`."""
        if credential in self.away:
            raise BackendError("the database is away")
        return await super().identify(credential)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_call_of_whom_nobody_can_tell_just_then_goes_on(ended: bool) -> None:
    upstream, scheme = Held(), PartlyAway()
    gateway, _, _ = held_up(upstream)
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    body = modern_body(1, "tools/call", {"name": "up__wait", "arguments": {}})
    headers = {**modern_headers(body), **bearer("ann/other")}
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:

        async def call() -> tuple[int, bytes]:
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                return answered.status, await answered.read()

        called = asyncio.ensure_future(call())
        await until(lambda: bool(upstream.under_way))
        scheme.away.add("ann/other")
        scheme.ended |= {"ann", "ann/other"} if ended else {"ann"}
        await edge.end_principal("api_key:ann")
        scheme.away.clear()
        upstream.let_go.set()
        status, said = await asyncio.wait_for(called, PATIENCE_S)
        assert (status, b"a secret" in said) == ((401, False) if ended else (200, True))


async def test_a_question_is_not_kept_for_who_cannot_answer_it_any_more() -> None:
    upstream = Held(asks=True)
    gateway, scheme, checks = held_up(upstream)
    params = {"name": "up__wait", "arguments": {}}
    body = modern_body(1, "tools/call", params, capabilities={"elicitation": {"form": {}}})
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:
        for credential in ("ann", "bob"):
            headers = {**modern_headers(body), **bearer(credential)}
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                assert (await answered.json())["result"]["resultType"] == "input_required"
        scheme.ended.add("ann")
        await edge.end_principal("api_key:ann")
        await until(lambda: upstream.cancelled == ["ann"])
        assert edge.interactions.parked == 1
