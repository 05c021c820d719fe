"""What is under way, or just beginning, in the very moment in which a credential ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from armory.config import load_text
from armory.domain.principal import Principal
from armory.protocol.link import Call, Owner, Reply
from armory.runtime.opening import open_runtime
from armory.security.authentication import Authenticator
from armory.testing.clients.raw import LegacyClient, modern_body, modern_headers
from armory.testing.front import plain, result, serving
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from tests.hostile.test_revoked import PATIENCE_S, Held, Revocable, bearer, held_up

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class EndsInTheMidst(Authenticator):
    """One for which, once armed, a credential ends in the round of the event loop after so many
    looks at whether one has, by the request that it came with.
    """

    def __init__(self, scheme: Revocable, *, looks: int) -> None:
        self.end: Callable[[], None] | None = None
        self._ends_after = looks
        self._looks = 0
        super().__init__((), (scheme,), allow_anonymous=False)

    @property
    def endings(self) -> int:
        """As `Authenticator.endings`."""
        if self.end is not None:
            self._looks += 1
            if self._looks == self._ends_after:
                asyncio.get_running_loop().call_soon(self.end)
        return self._endings

    @endings.setter
    def endings(self, value: int) -> None:
        self._endings = value


LONG = "x" * 400_000  # more than is looked through in one go


@pytest.mark.parametrize(
    ("era", "method"),
    [("modern", "tools/call"), ("legacy", "tools/call"), ("legacy", "initialize")],
)
async def test_what_takes_long_to_be_opened_calls_nothing_any_more(era: str, method: str) -> None:
    upstream = Held()
    gateway, scheme, _ = held_up(upstream)
    checks = EndsInTheMidst(scheme, looks=3)  # before and after it was let in, and with its body
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:
        client = LegacyClient(f"{url}/mcp", http, "2025-11-25", token="ann")
        if method != "initialize":
            await client.initialize({})
        said = {"name": "up__wait", "arguments": {"text": LONG}}
        if method == "initialize":
            said = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": LONG},
            }
        body = modern_body(1, method, said)
        headers = {**modern_headers(body), **bearer("ann")}
        if era == "legacy":
            body["params"] = said
            headers = client.headers
        ends: list[asyncio.Task[None]] = []

        def end() -> None:
            scheme.ended.add("ann")
            ends.append(asyncio.ensure_future(edge.end_principal("api_key:ann")))

        checks.end = end
        upstream.let_go.set()
        async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
            assert answered.status == 401
        await asyncio.gather(*ends)
        assert (upstream.under_way, len(edge.sessions)) == ([], 0)


class SlowlyRevocable(Revocable):
    """As `Revocable`, but it takes its time to say that a credential has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.says = asyncio.Event()

    async def identify(self, credential: str) -> Principal | None:
        """As `Scheme.identify`."""
        if credential in self.ended:
            self.asked.set()
            await self.says.wait()
        return await super().identify(credential)


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "application/json"])
async def test_what_is_asked_just_then_is_dropped(accept: str) -> None:
    upstream = Held(asks=True)
    upstream.asking.clear()
    gateway, _, _ = held_up(upstream)
    scheme = SlowlyRevocable()
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    params = {"name": "up__wait", "arguments": {}}
    body = modern_body(1, "tools/call", params, capabilities={"elicitation": {"form": {}}})
    headers = {**modern_headers(body), **bearer("ann"), "Accept": accept}
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:

        async def call() -> int:
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                return answered.status

        called = asyncio.ensure_future(call())
        await until(lambda: upstream.under_way == ["ann"])
        scheme.ended.add("ann")
        ending = asyncio.ensure_future(edge.end_principal("api_key:ann"))
        await scheme.asked.wait()
        upstream.asking.set()
        await until(lambda: bool(upstream.cancelled or edge.interactions.parked) or called.done())
        scheme.says.set()
        await ending
        with suppress(aiohttp.ClientError):  # cut off, or refused
            assert await called == 401
        await until(lambda: upstream.cancelled == ["ann"])
        assert edge.interactions.parked == 0


async def test_a_session_ends_at_once_whoever_else_is_looked_up() -> None:
    upstream = Held()
    gateway, _, _ = held_up(upstream)
    scheme = SlowlyRevocable()
    checks = Authenticator((), (scheme,), allow_anonymous=False)
    params = {"name": "up__wait", "arguments": {}}
    body = modern_body(1, "tools/call", params)
    async with serving(gateway, checks) as (url, edge), aiohttp.ClientSession() as http:
        client = LegacyClient(f"{url}/mcp", http, "2025-11-25", token="ann")
        await client.initialize({})

        async def call() -> None:
            headers = {**modern_headers(body), **bearer("ann")}
            async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
                await answered.read()

        asked: tuple[Coroutine[Any, Any, Any], ...] = call(), client.request("tools/call", params)
        calls = [asyncio.ensure_future(one) for one in asked]
        await until(lambda: len(upstream.under_way) == 2)
        scheme.ended.add("ann")
        ending = asyncio.ensure_future(edge.end_principal("api_key:ann"))
        await scheme.asked.wait()
        await until(lambda: not len(edge.sessions) and upstream.cancelled == ["ann"])
        scheme.says.set()
        await ending
        await asyncio.gather(*calls, return_exceptions=True)


class Loud(Held):
    """As `Held`, but it says megabytes at once where it is asked for that."""

    def __init__(self) -> None:
        super().__init__()
        self.said = 0

    async def __call__(self, call: Call, owner: Owner) -> Reply:
        if not plain(call.params)["arguments"]:
            return await super().__call__(call, owner)
        self.said += 1
        return result({"content": [{"type": "text", "text": "x" * 1_000_000}]})


async def test_a_call_over_sse_ends_whose_client_reads_nothing() -> None:
    upstream = Loud()
    gateway, scheme, checks = held_up(upstream)
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(gateway, checks) as (url, edge),
        aiohttp.ClientSession() as http,
    ):
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=4_096)
        head = f"GET /sse HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer ann\r\n\r\n"
        writer.write(head.encode())
        try:
            await reader.readuntil(b"data: ")
            path = (await reader.readline()).decode().strip()
            for id in range(21):  # the first ones are more than any socket takes that nobody reads
                arguments = {"text": "much"} if id < 20 else {}
                body = modern_body(id, "tools/call", {"name": "up__wait", "arguments": arguments})
                async with http.post(url + path, json=body, headers=bearer("ann")) as taken:
                    assert taken.status == 202
            await until(lambda: upstream.said == 20 and upstream.under_way == ["ann"])
            scheme.ended.add("ann")
            await edge.end_principal("api_key:ann")
            assert upstream.cancelled == ["ann"]
        finally:
            writer.transport.abort()


async def test_a_call_over_rest_ends_as_well(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(HttpUpstream(eras="modern"))
        config = {
            "upstreams": {"web": {"url": upstream.url}},
            "security": {"allow_anonymous": False, "api_keys": True},
            "accounts": {"enabled": True},
            "tool_rag": {"enabled": False},
            "observability": {"log_level": "error"},
        }
        loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(tmp_path)})
        runtime = await stack.enter_async_context(open_runtime(loaded, address=("127.0.0.1", 0)))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        await runtime.searchable()
        assert runtime.listening is not None
        assert runtime.accounts is not None
        (one, ended), (_, other) = [
            await runtime.accounts.keys.create(name) for name in ("one", "other")
        ]
        place = f"{runtime.listening.url}/v1/tools/web__hang/call"

        async def call(key: str) -> tuple[int, str]:
            async with http.post(place, json={}, headers=bearer(key)) as answered:
                return answered.status, (await answered.json())["code"]

        def under_way() -> int:
            return sum(message["method"] == "tools/call" for _, message in upstream.requests)

        calls = [asyncio.ensure_future(call(key)) for key in (ended, other)]
        await until(lambda: under_way() == 2)
        await runtime.accounts.keys.revoke(one.id)
        async with asyncio.timeout(PATIENCE_S):
            assert await calls[0] == (401, "authentication_failed")
        assert not calls[1].done()
        calls[1].cancel()
        await asyncio.wait(calls)
