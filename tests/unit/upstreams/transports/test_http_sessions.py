"""Legacy sessions over HTTP that the upstream forgets, and answers whose streams break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingObserver, plain
from armory.testing.upstreams.exchange import Json, Request, ScriptState, Stop, Wire
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.oauth import World
from armory.testing.upstreams.script import Script
from armory.testing.waiting import until
from armory.upstreams.oauth.grants import ClientCredentials
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

ANN = Owner(Principal("ann"))
EVENT = b"\nid: 1\nretry: 10"
"""An event without data: what comes after it can be resumed."""


class Reluctant(Script):
    """Shakes hands only while it is `willing`, and refuses the next `refusals` of them."""

    def __init__(self) -> None:
        super().__init__()
        self.willing, self.asked = asyncio.Event(), asyncio.Event()
        self.willing.set()
        self.refusals = 0

    async def answer(self, message: Json, wire: Wire) -> Json | None:
        if message["method"] == "initialize":
            self.asked.set()
            await self.willing.wait()
            if self.refusals:
                self.refusals -= 1
                error = {"code": -32603, "message": "not yet"}
                return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return await super().answer(message, wire)


@pytest.fixture
def script() -> Reluctant:
    return Reluctant()


@pytest.fixture
async def server(script: Reluctant) -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream(script, eras="legacy") as server:
        yield server


@pytest.fixture
async def pool(server: HttpUpstream) -> AsyncIterator[Pool]:
    pool = Pool([UpstreamSpec("up", url=server.url)])
    yield pool
    await pool.close()


async def call(pool: Pool, tool: str = "echo", **more: Any) -> Any:
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b"{}")}
    reply = await pool.request("up", ANN, Call("tools/call", params, name_header=tool, **more))
    return plain(reply.result)


async def test_a_renewal_outlives_the_call_that_began_it(
    pool: Pool, server: HttpUpstream, script: Reluctant
) -> None:
    await call(pool)
    server.sessions.clear()
    script.asked.clear()
    script.willing.clear()
    first, other = (asyncio.create_task(call(pool)) for _ in range(2))
    await asyncio.wait_for(script.asked.wait(), 10)
    first.cancel()
    await asyncio.wait([first], timeout=10)
    assert first.cancelled()
    script.willing.set()
    assert (await other)["isError"] is False
    assert (await call(pool))["isError"] is False
    assert len(server.sessions) == 1


UNKNOWN = [
    (404, "gone"),
    (400, "Invalid session ID\n"),
    (401, "Unauthorized: Session not found"),
    (403, "unusable session"),
    (410, "gone"),
]
"""As the specification has it, mcp-go, the Rust SDK, and others."""


@pytest.mark.parametrize("unknown", UNKNOWN)
async def test_a_session_is_renewed_however_the_upstream_says_that_it_knows_none(
    pool: Pool, server: HttpUpstream, unknown: tuple[int, str]
) -> None:
    await call(pool)
    server.sessions.clear()
    server.unknown_session = unknown
    assert (await call(pool))["isError"] is False


async def test_a_token_is_not_renewed_where_it_is_the_session_that_is_unknown(
    server: HttpUpstream,
) -> None:
    async with World() as world:
        grant = ClientCredentials("armory", "secret", token_url=f"{world.url}/as/token")
        pool = Pool([UpstreamSpec("up", url=server.url, auth=grant)])
        try:
            await call(pool)
            server.sessions.clear()
            server.unknown_session = (401, "Unauthorized: Session not found")
            assert (await call(pool))["isError"] is False
            assert len(world.requests) == 1
        finally:
            await pool.close()


async def test_whose_login_has_ended_is_told_so_though_that_is_called_a_session(
    pool: Pool, server: HttpUpstream
) -> None:
    await call(pool)
    server.tokens = {"another's"}
    server.no_login = "your session has expired: log in"
    with pytest.raises(UpstreamUnavailable, match="wants a login: it answered HTTP 401"):
        await call(pool)


class Lenient(HttpUpstream):
    """Shakes hands with everybody; calls are for those whose login has not ended."""

    ended: frozenset[str] = frozenset()

    async def _legacy(self, http: web.Request, message: Json) -> web.StreamResponse:
        if message["method"] == "tools/call" and http.headers.get("Authorization") in self.ended:
            return web.Response(status=401, text="your session has expired: log in")
        return await super()._legacy(http, message)


async def test_a_login_that_only_calls_need_is_missed_in_a_new_session_as_well() -> None:
    server = Lenient(eras="legacy")
    async with server:
        headers = {"Authorization": "Bearer old"}
        pool = Pool([UpstreamSpec("up", url=server.url, headers=headers)])
        try:
            await call(pool)
            server.ended = frozenset(headers.values())
            with pytest.raises(UpstreamUnavailable, match="wants a login: it answered HTTP 401"):
                await call(pool)
        finally:
            await pool.close()


async def test_a_token_that_only_calls_need_is_renewed_in_a_new_session() -> None:
    server = Lenient(eras="legacy")
    async with World() as world, server:
        grant = ClientCredentials("armory", "secret", token_url=f"{world.url}/as/token")
        pool = Pool([UpstreamSpec("up", url=server.url, auth=grant)])
        try:
            await call(pool)
            server.ended = frozenset(headers["Authorization"] for headers, _ in server.requests)
            assert (await call(pool))["isError"] is False
            assert len(world.requests) == 2
        finally:
            await pool.close()


async def test_what_is_refused_as_wrong_renews_no_session(pool: Pool, server: HttpUpstream) -> None:
    await call(pool)
    server.sessions.clear()
    server.unknown_session = (400, "Bad Request")
    with pytest.raises(UpstreamUnavailable, match="HTTP 400"):
        await call(pool)


async def test_a_session_that_cannot_be_renewed_is_opened_anew_by_the_next_call(
    pool: Pool, server: HttpUpstream, script: Reluctant
) -> None:
    observer = RecordingObserver()
    pool.observers.add(observer)
    await call(pool)
    server.sessions.clear()
    script.refusals = 1
    with pytest.raises(UpstreamUnavailable, match="not yet"):
        await call(pool)
    assert [type(event).__name__ for event in observer.events][:1] == ["Lost"]
    assert (await call(pool))["isError"] is False
    assert pool.status()["up"].breaker == "closed"


async def test_a_session_that_is_closed_while_it_is_renewed_ends_the_calls_that_wait(
    pool: Pool, server: HttpUpstream, script: Reluctant
) -> None:
    await call(pool)
    server.sessions.clear()
    script.asked.clear()
    script.willing.clear()
    waiting = asyncio.create_task(call(pool))
    await asyncio.wait_for(script.asked.wait(), 10)
    _, link = await pool.upstream("up").links.opened(ANN, {})
    await link.close()
    with pytest.raises(UpstreamUnavailable, match="the session is closed"):
        await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize(("safe", "times"), [(False, 1), (True, 2)])
async def test_a_call_that_was_taken_is_sent_again_only_where_that_is_safe(
    pool: Pool, server: HttpUpstream, script: Reluctant, safe: bool, times: int
) -> None:
    ran: list[Any] = []

    async def forgetting(_script: ScriptState, request: Request) -> Json:
        ran.append(request.id)
        if len(ran) == 1:
            await request.wire.send_bytes(EVENT)
            server.sessions.clear()  # the GET that resumes the answer is told 404
            raise Stop
        return {"content": []}

    script.behaviour["forgetting"] = forgetting
    calling = call(pool, "forgetting", safe_to_retry=safe)
    if safe:
        assert await calling == {"content": []}
    else:
        with pytest.raises(UpstreamUnavailable, match="was not resumed: HTTP 404"):
            await calling
    assert len(ran) == times


async def test_an_answer_is_not_looked_for_in_the_next_session(
    pool: Pool, server: HttpUpstream, script: Reluctant
) -> None:
    broken = asyncio.Event()

    async def breaking(_script: ScriptState, request: Request) -> Json:
        await request.wire.send_bytes(b"\nid: 1\nretry: 2000")
        broken.set()
        raise Stop

    script.behaviour["breaking"] = breaking
    calling = asyncio.create_task(call(pool, "breaking"))
    await asyncio.wait_for(broken.wait(), 10)
    server.sessions.clear()
    await call(pool)  # which has another session before the answer is to be resumed
    with pytest.raises(UpstreamUnavailable, match="its session ended before the answer"):
        await asyncio.wait_for(calling, 10)


async def test_a_resumed_answer_is_closed_with_its_call(
    pool: Pool, server: HttpUpstream, script: Reluctant
) -> None:
    async def breaking(_script: ScriptState, request: Request) -> Json:
        await request.wire.send_bytes(EVENT)
        raise Stop

    script.behaviour["breaking"] = breaking
    await call(pool)
    await asyncio.wait_for(server.get_opened.wait(), 10)
    server.gets.clear()
    calling = asyncio.create_task(call(pool, "breaking"))
    await until(lambda: bool(server.gets))  # resumed, and silent
    calling.cancel()
    await until(lambda: not server.gets)


class Forgetful(Script):
    """Notes what each session subscribes to, and ends all of them after one of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.by_session: dict[str, set[str]] = {}
        self.subscriptions_left: int | None = None
        self.forget: Callable[[], None] = lambda: None

    async def answer(self, message: Json, wire: Wire) -> Json | None:
        if message["method"] in ("resources/subscribe", "resources/unsubscribe"):
            watched = self.by_session.setdefault(wire.session, set())
            if message["method"] == "resources/subscribe":
                watched.add(message["params"]["uri"])
            else:
                watched.discard(message["params"]["uri"])
            if self.subscriptions_left is not None:
                self.subscriptions_left -= 1
                if self.subscriptions_left == 0:
                    self.forget()
        return await super().answer(message, wire)


async def test_a_session_that_is_forgotten_while_it_is_renewed_loses_no_watch() -> None:
    script, uris = Forgetful(), {f"mem://{number}" for number in range(4)}
    async with HttpUpstream(script, eras="legacy") as server:
        script.forget = server.sessions.clear
        pool = Pool([UpstreamSpec("up", url=server.url)])
        await pool.set_subscriptions("up", ANN, frozenset(uris))
        for left in (1, 2, 3):
            script.by_session.clear()
            script.subscriptions_left = left
            server.sessions.clear()
            with suppress(UpstreamUnavailable):  # where it is met by the second end as well
                await call(pool)
            await until(lambda: len(script.by_session) == 2)
            await until(
                lambda: uris in [script.by_session.get(session) for session in server.sessions]
            )
        await pool.close()


async def test_what_is_watched_is_watched_again_though_nobody_calls(
    pool: Pool, server: HttpUpstream
) -> None:
    await pool.set_subscriptions("up", ANN, frozenset({"mem://one"}))
    await asyncio.wait_for(server.get_opened.wait(), 10)
    server.get_opened.clear()
    server.sessions.clear()
    server.script.subscribed.clear()
    server.end_streams()
    await until(lambda: server.script.subscribed == {"mem://one"})
    await asyncio.wait_for(server.get_opened.wait(), 10)
    assert len(server.sessions) == 1
