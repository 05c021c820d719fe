"""The keys that sign session tokens: fetched, rotated, chosen."""

from __future__ import annotations

import asyncio
import json

import jwt
import pytest

from armory.errors import AuthenticationFailed, BackendError
from armory.security.issuer import Issuer
from armory.security.jwt import JwtScheme
from armory.security.keys import KeySet
from armory.security.settings import JwtSettings
from tests.unit.security.jwt_provider import (
    AUDIENCE,
    ISSUER,
    Provider,
    claims,
    provider_with_keys,
    scheme,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def provider() -> Provider:
    return provider_with_keys()


async def test_a_key_that_is_for_something_else_signs_nothing() -> None:
    provider = Provider()
    provider.add("one")
    provider.says = {"use": "enc"}
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(provider.sign("one", claims()))


async def test_a_token_that_names_no_key_is_of_the_only_one() -> None:
    provider = Provider()
    provider.add("one")
    token = jwt.encode(claims(), provider.keys["one"], "RS256")
    assert await scheme(provider).identify(token) is not None
    provider.add("two")
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(token)


async def test_of_a_document_with_very_many_keys_the_first_are_read() -> None:
    provider = Provider()
    for number in range(4):
        provider.add(str(number))
    keys = KeySet("https://x", ["RS256"], fetch=provider.fetch, most=2)
    found = [await keys.key(str(number), "RS256") is not None for number in range(4)]
    assert found == [True, True, False, False]


async def test_keys_rotate_and_a_provider_that_is_away_costs_nothing() -> None:
    provider, now = Provider(), 0.0
    provider.add("old")
    keys = KeySet("https://x", ["RS256"], fetch=provider.fetch, clock=lambda: now)
    assert await keys.key("old", "RS256") is not None
    assert await keys.key("old", "RS256") is not None
    assert provider.fetched == 1
    provider.add("new")
    now = 11.0
    assert await keys.key("new", "RS256") is not None
    assert provider.fetched == 2
    for _ in range(5):  # unknown ids do not make everybody fetch
        assert await keys.key("nobody", "RS256") is None
    assert provider.fetched == 2
    provider.away, now = True, 700.0
    assert await keys.key("old", "RS256") is not None
    with pytest.raises(BackendError, match="away"):  # it may be a new one, which is no reason to
        await keys.key("newer", "RS256")  # log anybody out
    now = 90_000.0
    with pytest.raises(BackendError):
        await keys.key("old", "RS256")


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
async def test_a_key_that_names_no_algorithm_serves_for_each_of_its_kind(algorithm: str) -> None:
    provider = Provider()
    provider.add("one")
    checks = scheme(provider, algorithms=["RS256", "RS512", "PS256"])
    assert await checks.identify(provider.sign("one", claims(), algorithm))
    provider.says = {"alg": "RS384"}
    for named in ("RS384", algorithm):
        checks = scheme(provider, algorithms=["RS256", "RS384", "RS512", "PS256"])
        token = provider.sign("one", claims(), named)
        if named == "RS384":
            assert await checks.identify(token)
        else:
            with pytest.raises(AuthenticationFailed):
                await checks.identify(token)


async def test_who_leaves_while_keys_are_fetched_costs_the_others_nothing() -> None:
    provider, goes_on = Provider(), asyncio.Event()
    provider.add("one")
    about = {"issuer": "https://i.example", "jwks_uri": "https://i.example/jwks"}

    async def fetch(url: str) -> bytes:
        await goes_on.wait()
        return await provider.fetch(url) if "jwks" in url else json.dumps(about).encode()

    async with asyncio.timeout(20):
        issuer = Issuer("https://i.example", fetch=fetch)
        for ask in (issuer.metadata, lambda: issuer.keys.key("one", "RS256")):
            leaves = asyncio.ensure_future(ask())
            await asyncio.sleep(0)
            leaves.cancel()
            stays = asyncio.ensure_future(ask())
            goes_on.set()
            assert await stays is not None
            goes_on.clear()


async def test_keys_are_fetched_once_for_many_tokens() -> None:
    own = Provider()
    own.add("a")
    own.add("b")
    checks = scheme(own)
    token = own.sign("a", claims())
    assert await checks.identify(token) is not None
    assert await checks.identify(token) is not None
    assert own.fetched == 1


async def test_keys_come_over_http_and_other_answers_are_refused(provider: Provider) -> None:
    from aiohttp import web

    from armory.security.jwt import fetch

    async def good(_request: web.Request) -> web.Response:
        return web.Response(body=await provider.fetch(""))

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b" " * 1_100_000)

    app = web.Application()
    app.router.add_get("/jwks", good)
    app.router.add_get("/large", large)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    checks = JwtScheme(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{base}/jwks"))
    assert await checks.identify(provider.sign("one", claims())) is not None
    for path in ("/large", "/absent"):
        with pytest.raises(BackendError):
            await fetch(base + path)
    await runner.cleanup()
    with pytest.raises(BackendError):
        await fetch(f"{base}/jwks")


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys": 1}', b'{"keys": [1, {"kty": "RSA"}]}'])
async def test_documents_that_hold_no_keys_let_nobody_in(
    provider: Provider, document: bytes
) -> None:
    async def odd(url: str) -> bytes:
        return document

    checks = JwtScheme(JwtSettings(jwks_url="https://x"), fetch=odd)
    with pytest.raises((AuthenticationFailed, BackendError)):
        await checks.identify(provider.sign("one", claims()))
