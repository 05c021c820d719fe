"""A grant outlives what goes wrong on the way, and its end is told of all that it opened."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from sqlalchemy import select, update

from armory.authserver.clients import Client
from armory.authserver.errors import OAuthError
from armory.authserver.grants import Grants
from armory.authserver.settings import ProxySettings
from armory.errors import AuthenticationFailed
from armory.storage.tables import oauth_grants
from armory.testing.identity import IdentityProvider
from armory.upstreams.oauth.logins import Login
from tests.unit.authserver.granting import CLIENT, VERIFIER, WHERE, aged, gateway, rotating

pytestmark = pytest.mark.anyio


async def test_a_provider_that_cannot_be_asked_ends_no_grant(tmp_path: Path) -> None:
    async with IdentityProvider() as provider:
        settings = ProxySettings("armory", issuer=provider.issuer)
        login = Login(provider.issuer, f"{provider.issuer}/token", "", "armory", access_token="a")
        async with gateway(tmp_path, settings) as found:
            _, refresh = await found.logged_in(login)
            provider.away = True
            with pytest.raises(OAuthError) as refused:
                await found.grants.refresh(refresh, CLIENT, "")
            assert refused.value.code == "temporarily_unavailable"
        provider.away = False
        async with gateway(tmp_path, settings) as found:
            assert await found.grants.refresh(refresh, CLIENT, "")


@pytest.mark.parametrize(
    ("status", "answer", "ends"),
    [
        (429, {}, False),
        (401, {"error": "invalid_client"}, False),
        (400, {"error": "invalid_grant"}, True),
        (200, {"error": "bad_refresh_token"}, True),
    ],
)
async def test_a_grant_ends_where_the_provider_refuses_its_person(
    tmp_path: Path, status: int, answer: dict[str, str], ends: bool
) -> None:
    """Not where it refuses the gateway, whose secret has expired, or whoever comes too often."""
    async with IdentityProvider() as provider:
        token = f"{provider.issuer}/token"
        login = Login(
            provider.issuer, token, "", "armory", "armory-secret", "client_secret_post",
            access_token="a", refresh_token="r",
        )  # fmt: skip
        settings = ProxySettings("armory", "armory-secret", issuer=provider.issuer)
        async with gateway(tmp_path, settings) as found:
            _, refresh = await found.logged_in(login)
            provider.refusal = status, answer
            with pytest.raises(OAuthError) as refused:
                await found.grants.refresh(refresh, CLIENT, "")
            assert refused.value.code == ("invalid_grant" if ends else "temporarily_unavailable")
            provider.refusal = None
            with pytest.raises(OAuthError) as refused:  # it does not know this token
                await found.grants.refresh(refresh, CLIENT, "")
            says = "this grant has ended" if ends else "does not let this person in"
            assert says in refused.value.description


def login_as(provider: IdentityProvider, client_id: str, secret: str) -> Login:
    """One that the gateway got as this client."""
    return Login(
        provider.issuer, f"{provider.issuer}/token", "", client_id, secret,
        "client_secret_post", access_token="a", refresh_token="r",
    )  # fmt: skip


async def test_a_client_that_is_not_configured_any_more_ends_its_grants(tmp_path: Path) -> None:
    async with IdentityProvider() as provider:
        login = login_as(provider, "the-one-before", "a-secret")
        settings = ProxySettings("armory", "armory-secret", issuer=provider.issuer)
        async with gateway(tmp_path, settings) as found:
            _, refresh = await found.logged_in(login)
            with pytest.raises(OAuthError, match="does not let this person in"):
                await found.grants.refresh(refresh, CLIENT, "")


async def test_the_secret_of_now_is_shown_to_the_provider(tmp_path: Path) -> None:
    async with IdentityProvider() as provider:
        login = login_as(provider, "armory", "expired")
        settings = ProxySettings("armory", "armory-secret", issuer=provider.issuer)
        async with gateway(tmp_path, settings) as found:
            _, refresh = await found.logged_in(login)
            with pytest.raises(OAuthError):
                await found.grants.refresh(refresh, CLIENT, "")
            assert provider.forms[-1]["client_secret"] == "armory-secret"


async def test_who_refresh_at_once_are_given_the_same(tmp_path: Path) -> None:
    """Two windows of a program, at one replica or two; and who asks again shortly after."""
    async with rotating(tmp_path) as (found, login, provider):
        _, refresh = await found.logged_in(login)
        other = Grants(found.store, found.seal, found.provider)
        asking = [
            asyncio.create_task(grants.refresh(refresh, CLIENT, ""))
            for grants in (found.grants, found.grants, other)
        ]
        await provider.is_asked.wait()
        provider.goes_on.set()
        given = await asyncio.gather(*asking)
        given.append(await other.refresh(refresh, CLIENT, ""))
        assert provider.asked == ["r0"]
        for one in given:
            assert await found.scheme.identify(one.access) is not None
        assert (await other.refresh(given[2].refresh, CLIENT, "")).refresh
        assert (await found.grants.refresh(given[0].refresh, CLIENT, "")).refresh
        assert provider.asked == ["r0", "r1"]


async def test_a_used_refresh_token_is_answered_again_for_half_a_minute(tmp_path: Path) -> None:
    async with rotating(tmp_path) as (found, login, provider):
        provider.goes_on.set()
        _, refresh = await found.logged_in(login)
        given = await found.grants.refresh(refresh, CLIENT, "")
        await aged(found, 25)
        assert (await found.grants.refresh(refresh, CLIENT, "")).refresh
        await aged(found, 6)
        with pytest.raises(OAuthError, match="used before"):
            await found.grants.refresh(refresh, CLIENT, "")
        with pytest.raises(OAuthError, match="has ended"):
            await found.grants.refresh(given.refresh, CLIENT, "")


@pytest.mark.parametrize("passed_s", [61, -3_600], ids=["a minute on", "the clock was set back"])
async def test_a_replica_that_dies_while_it_refreshes_ends_no_login(
    tmp_path: Path, passed_s: int
) -> None:
    async with rotating(tmp_path) as (found, login, provider):
        _, refresh = await found.logged_in(login)
        begun = asyncio.create_task(found.grants.refresh(refresh, CLIENT, ""))
        await provider.is_asked.wait()
        for task in asyncio.all_tasks():
            if task.get_name() == "renew a grant":
                task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        provider.asked.clear()
        provider.goes_on.set()
        await aged(found, passed_s)
        async with asyncio.timeout(10):
            assert (await found.grants.refresh(refresh, CLIENT, "")).refresh


async def test_a_client_that_does_not_wait_for_its_refresh_may_ask_again(tmp_path: Path) -> None:
    async with rotating(tmp_path) as (found, login, provider):
        _, refresh = await found.logged_in(login)
        leaves = asyncio.create_task(found.grants.refresh(refresh, CLIENT, ""))
        await provider.is_asked.wait()
        leaves.cancel()
        await asyncio.wait((leaves,))
        again = asyncio.create_task(found.grants.refresh(refresh, CLIENT, ""))
        await asyncio.sleep(0)
        provider.goes_on.set()
        given = await again
        assert provider.asked == ["r0", "r1"]
        assert (await found.grants.refresh(given.refresh, CLIENT, "")).access
        assert provider.asked == ["r0", "r1", "r2"]
        with pytest.raises(OAuthError, match="used before"):
            await found.grants.refresh(refresh, CLIENT, "")


async def test_the_end_of_a_grant_is_told_of_what_was_opened_long_ago(tmp_path: Path) -> None:
    settings = ProxySettings("armory", authorize_url="http://x/a", token_url="http://x/t")
    async with gateway(tmp_path, settings) as found:
        access, _ = await found.logged_in(Login("", "", "", "armory"))
        who = await found.scheme.identify(access)
        assert who is not None
        found.now = 1_700.0  # a stream is open since, and nothing else was asked
        await found.grants.revoke(access, CLIENT)
        assert found.ended == [who.key]


async def test_a_grant_that_ends_while_it_is_read_is_not_believed(tmp_path: Path) -> None:
    settings = ProxySettings("armory", authorize_url="http://x/a", token_url="http://x/t")
    async with gateway(tmp_path, settings) as found:
        access, _ = await found.logged_in(Login("", "", "", "armory"))
        load = found.store.load

        async def loaded(id: str) -> tuple[int, bytes, float] | None:
            """The grant as it was just before it ended."""
            kept = await load(id)
            if kept is not None and not found.ended:
                await found.store.end(id)
            return kept

        found.store.load = loaded
        for _ in range(2):
            with pytest.raises(AuthenticationFailed):
                await found.scheme.identify(access)


@pytest.mark.parametrize(
    ("login_ends_s", "lifetime_s"), [(None, 1_800), (600, 600), (5, 60), (-5, 60), (90_000, 1_800)]
)
async def test_tokens_end_with_their_time(
    tmp_path: Path, login_ends_s: int | None, lifetime_s: int
) -> None:
    """An access token with the login behind it, though never at once."""
    ends = None if login_ends_s is None else time.time() + login_ends_s
    login = Login("idp", "", "", "armory", access_token="a", expires_at=ends)
    async with gateway(tmp_path, ProxySettings("armory", issuer="https://idp.example")) as found:
        given = await found.grants.redeem(await found.code(login), CLIENT, "", VERIFIER, "")
        assert lifetime_s - 20 < given.lifetime_s <= lifetime_s

        def after(seconds: float) -> Grants:
            now = time.time() + seconds
            return Grants(found.store, found.seal, found.provider, clock=lambda: now)

        assert after(lifetime_s - 30).access(given.access) is not None
        assert after(lifetime_s + 1).access(given.access) is None
        assert after(0).access(given.refresh) is None
        for token in (given.access, ""):
            with pytest.raises(OAuthError, match="not valid here"):
                await after(0).refresh(token, CLIENT, "")
        with pytest.raises(OAuthError, match="it has expired"):
            await after(30 * 86_400 + 1).refresh(given.refresh, CLIENT, "")


async def test_what_was_agreed_to_is_all_that_is_given(tmp_path: Path) -> None:
    other = Client("another", "another", CLIENT.redirects)
    async with gateway(tmp_path, ProxySettings("armory", issuer="https://idp.example")) as found:
        code = await found.code(Login("idp", "", "", "armory", access_token="a"))
        back = CLIENT.redirects[0]
        for client, uri, verifier, resource, error in (
            (other, back, VERIFIER, WHERE, "invalid_grant"),
            (CLIENT, "http://127.0.0.1/other", VERIFIER, WHERE, "invalid_grant"),
            (CLIENT, back, "w" * 43, WHERE, "invalid_grant"),
            (CLIENT, back, VERIFIER, f"{WHERE}/other", "invalid_target"),
        ):
            with pytest.raises(OAuthError) as refused:
                await found.grants.redeem(code, client, uri, verifier, resource)
            assert refused.value.code == error
        given = await found.grants.redeem(code, CLIENT, back, VERIFIER, WHERE)
        for client, resource, error in (
            (other, WHERE, "invalid_grant"), (CLIENT, f"{WHERE}/other", "invalid_target")
        ):  # fmt: skip
            with pytest.raises(OAuthError) as refused:
                await found.grants.refresh(given.refresh, client, resource)
            assert refused.value.code == error
        await found.grants.revoke(given.access, other)
        assert await found.scheme.identify(given.access) is not None
        with pytest.raises(OAuthError, match="used before"):
            await found.grants.redeem(code, CLIENT, back, VERIFIER, WHERE)
        with pytest.raises(AuthenticationFailed):
            await found.scheme.identify(given.access)
        await found.grants.revoke(given.access, CLIENT)  # it has ended already


@pytest.mark.parametrize("apart_s", [-90.0, 90.0])
async def test_replicas_whose_clocks_are_apart_redeem_each_others_codes(
    tmp_path: Path, apart_s: float
) -> None:
    async with gateway(tmp_path, ProxySettings("armory", issuer="https://idp.example")) as found:
        code = await found.code(Login("idp", "", "", "armory", access_token="a"))
        other = Grants(found.store, found.seal, found.provider, clock=lambda: time.time() + apart_s)
        assert (await other.redeem(code, CLIENT, "", VERIFIER, "")).access


async def test_a_code_expires_by_the_clock_of_the_store(tmp_path: Path) -> None:
    async with gateway(tmp_path, ProxySettings("armory", issuer="https://idp.example")) as found:
        code = await found.code(Login("idp", "", "", "armory", access_token="a"))
        async with found.database.write() as connection:
            row = (await connection.execute(select(oauth_grants.c.expires_at_ms))).one()
            now_ms = (await connection.execute(select(found.database.now_ms))).scalar_one()
            assert 0 < row.expires_at_ms - now_ms <= 60_000
            await connection.execute(update(oauth_grants).values(expires_at_ms=now_ms - 1))
        with pytest.raises(OAuthError) as refused:
            await found.grants.redeem(code, CLIENT, "", VERIFIER, "")
        assert refused.value.code == "invalid_grant"
