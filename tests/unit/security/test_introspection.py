"""Opaque tokens, of which the authorization server says whose they are (RFC 7662)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web

from armory.errors import AuthenticationFailed, BackendError
from armory.security import oauth
from armory.security.issuer import AT_ONCE, Issuer
from armory.security.oauth import OAuthScheme
from armory.security.settings import IntrospectionSettings, OAuthSettings
from armory.testing.identity import IdentityProvider
from armory.testing.listening import listening
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
HERE = "https://gateway.example/mcp"


def scheme(provider: IdentityProvider, **more: Any) -> OAuthScheme:
    name = provider.issuer
    return OAuthScheme(OAuthSettings([name], **more), [Issuer(name)])


async def test_opaque_tokens_are_asked_about(provider: IdentityProvider) -> None:
    checks = scheme(provider, introspection=IntrospectionSettings("armory", "armory-secret"))
    now = int(time.time())
    good = {"active": True, "sub": "ann", "aud": HERE, "scope": "read", "exp": now + 60}
    provider.opaque = {
        "good": good,
        "elsewhere": {**good, "iss": "https://evil.example"},
        "over": {**good, "exp": now - 3_600},
        "nowhere": {**good, "aud": None},
        "text": {**good, "active": "true"},
        "bound": {**good, "cnf": {"jkt": "of-a-key-that-is-not-shown"}},
    }
    for _ in range(3):
        found = await checks.identify("good")
        assert found is not None
        assert (found.user, found.scopes, found.audience) == ("ann", {"read"}, {HERE})
    assert provider.fetched["/idp/introspect"] == 1
    for token in ("unknown", "unknown", "elsewhere", "over", "nowhere", "text", "bound"):
        with pytest.raises(AuthenticationFailed):
            await checks.identify(token)
    assert provider.fetched["/idp/introspect"] == 7
    assert await scheme(provider).identify("good") is None


async def test_a_clock_that_is_set_back_prolongs_no_verdict(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ahead = time.time, 3_600
    monkeypatch.setattr(time, "time", lambda: real() + ahead)
    monkeypatch.setattr(oauth, "_CHECKED_S", 0.01)
    checks = scheme(provider, introspection=IntrospectionSettings("armory", "armory-secret"))
    provider.opaque = {"one": {"active": True, "sub": "ann", "aud": HERE}}
    assert await checks.identify("one") is not None
    ahead = 0
    provider.opaque = {}  # revoked
    refused = False
    async with asyncio.timeout(10):
        while not refused:
            await asyncio.sleep(0)
            try:
                await checks.identify("one")
            except AuthenticationFailed:
                refused = True


@pytest.mark.parametrize(("sub", "user"), [(None, "bob"), ("ann", "ann")])
async def test_an_opaque_token_may_name_its_user_elsewhere(
    provider: IdentityProvider, sub: str | None, user: str
) -> None:
    checks = scheme(provider, introspection=IntrospectionSettings("armory", "armory-secret"))
    provider.opaque = {"one": {"active": True, "sub": sub, "username": "bob", "aud": HERE}}
    found = await checks.identify("one")
    assert found is not None
    assert (found.user, found.subject) == (user, f"{provider.issuer}|{user}")


async def test_an_opaque_token_without_an_end_cuts_no_stream_within_minutes(
    provider: IdentityProvider,
) -> None:
    checks = scheme(provider, introspection=IntrospectionSettings("armory", "armory-secret"))
    endless = {"active": True, "sub": "ann", "aud": HERE}
    provider.opaque = {"one": endless, "other": {**endless, "exp": None, "nbf": None}}
    for token in provider.opaque:
        found = await checks.identify(token)
        assert found is not None
        assert found.expires_at is not None
        assert found.expires_at > time.time() + 1_800


async def test_a_signed_token_for_another_scheme_is_not_shown_to_the_issuer(
    provider: IdentityProvider,
) -> None:
    """Where it is for another scheme to take."""
    asked = IntrospectionSettings("armory", "armory-secret")
    checks = scheme(provider, introspection=asked, beside_jwt=True)
    async with IdentityProvider() as other:
        assert await checks.identify(other.sign(aud=HERE)) is None
        assert "/idp/introspect" not in provider.fetched
        with pytest.raises(AuthenticationFailed):  # of whom it is, it does not say
            await checks.identify(other.sign(aud=HERE, iss=None))
        assert provider.fetched["/idp/introspect"] == 1
        alone = scheme(provider, introspection=asked)
        with pytest.raises(AuthenticationFailed):
            await alone.identify(other.sign(aud=HERE))
        assert provider.fetched["/idp/introspect"] == 2


async def test_opaque_tokens_are_asked_about_where_the_configuration_says(
    provider: IdentityProvider,
) -> None:
    provider.opaque = {"one": {"active": True, "sub": "ann", "aud": HERE, "exp": 9_999_999_999}}
    provider.metadata = {"introspection_endpoint": None}
    here = IntrospectionSettings("armory", "armory-secret", f"{provider.issuer}/introspect")
    found = await scheme(provider, introspection=here).identify("one")
    assert found is not None
    assert found.expires_at == 9_999_999_999 + 30, "clocks may be so much apart"
    nowhere = IntrospectionSettings("armory", "armory-secret", "http://127.0.0.1:9/introspect")
    with pytest.raises(BackendError, match="the token cannot be checked"):
        await scheme(provider, introspection=nowhere).identify("one")


async def test_introspection_that_fails_refuses_nobody(provider: IdentityProvider) -> None:
    checks = scheme(provider, introspection=IntrospectionSettings("armory", "wrong"))
    with pytest.raises(BackendError, match="401") as failed:
        await checks.identify("a-secret-token")
    assert "a-secret-token" not in str(failed.value)


async def test_made_up_tokens_are_asked_about_so_many_at_a_time(
    provider: IdentityProvider,
) -> None:
    """Each takes a socket, and whoever sends them has no credential."""
    asked, over = 0, asyncio.Event()

    async def introspect(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await over.wait()
        return web.json_response({"active": False})

    app = web.Application()
    app.router.add_post("/introspect", introspect)
    runner, url = await listening(app)
    settings = IntrospectionSettings("armory", "armory-secret", f"{url}/introspect")
    checks = scheme(provider, introspection=settings)
    sent = [asyncio.create_task(checks.identify(f"made-up-{n}")) for n in range(2 * AT_ONCE)]
    await until(lambda: asked == AT_ONCE)
    for _ in range(50):  # no further one comes, whatever the loop does
        await asyncio.sleep(0)
    assert asked == AT_ONCE
    for one in sent[:AT_ONCE]:
        one.cancel()  # who asked has gone, and makes room
    await until(lambda: asked == 2 * AT_ONCE)
    over.set()
    done = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(one, AuthenticationFailed) for one in done[AT_ONCE:])
    await runner.cleanup()
