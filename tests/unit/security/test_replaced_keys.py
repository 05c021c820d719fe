"""Providers whose new key has the id of the old one, as those that give their keys no id."""

from __future__ import annotations

import pytest

from armory.errors import AuthenticationFailed
from armory.security.issuer import Issuer
from armory.security.jwt import JwtScheme
from armory.security.oauth import OAuthScheme
from armory.security.settings import JwtSettings, OAuthSettings
from armory.testing.clock import FakeClock
from armory.testing.identity import IdentityProvider
from tests.unit.security.jwt_provider import AUDIENCE, ISSUER, Provider, claims

pytestmark = pytest.mark.anyio
HERE = "https://gateway.example/mcp"


def session_tokens(provider: Provider, clock: FakeClock) -> JwtScheme:
    """Who checks the session tokens of a provider."""
    settings = JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url="https://id.example/jwks")
    return JwtScheme(settings, fetch=provider.fetch, clock=clock.now)


async def test_an_access_token_of_the_new_key_is_taken_and_none_of_the_old_one_any_more(
    provider: IdentityProvider,
) -> None:
    clock = FakeClock()
    issuer = Issuer(provider.issuer, clock=clock.now)
    checks = OAuthScheme(OAuthSettings([provider.issuer]), [issuer])
    before = provider.sign(aud=HERE)
    assert await checks.identify(before)
    provider.add_key("one")
    after = provider.sign(aud=HERE)
    await clock.advance(11)
    assert await checks.identify(after)
    with pytest.raises(AuthenticationFailed):  # though it was checked a moment ago
        await checks.identify(before)


async def test_a_session_token_of_the_new_key_is_taken() -> None:
    provider, clock = Provider(), FakeClock()
    provider.add("one")
    checks = session_tokens(provider, clock)
    before = provider.sign("one", claims())
    assert await checks.identify(before)
    provider.add("one")
    await clock.advance(11)
    assert await checks.identify(provider.sign("one", claims()))
    with pytest.raises(AuthenticationFailed):
        await checks.identify(before)


async def test_forged_signatures_have_the_keys_fetched_no_more_often_than_unknown_ids() -> None:
    provider, forger, clock = Provider(), Provider(), FakeClock()
    provider.add("one")
    forger.add("one")
    checks = session_tokens(provider, clock)
    kept = provider.sign("one", claims())
    assert await checks.identify(kept)
    for wait_s, fetched in ((1, 1), (11, 2), (1, 2), (1, 2)):
        await clock.advance(wait_s)
        with pytest.raises(AuthenticationFailed):
            await checks.identify(forger.sign("one", claims()))
        assert provider.fetched == fetched
    assert await checks.identify(kept)


async def test_a_token_is_checked_again_though_the_machines_clock_stood_still() -> None:
    provider, clock = Provider(), FakeClock()
    provider.add("one")
    checks = session_tokens(provider, clock)
    token = provider.sign("one", claims())
    assert await checks.identify(token)
    provider.add("one")
    await clock.advance(700)
    with pytest.raises(AuthenticationFailed):
        await checks.identify(token)
