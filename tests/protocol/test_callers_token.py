"""A caller's own token, made into one for the upstream: what is asked, what is kept, what fails."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.identity import BEARER, EXCHANGE, TOKEN_TYPE, IdentityProvider
from armory.testing.people import TOKENS, World
from armory.testing.upstreams.accounts import AccountsServer

pytestmark = pytest.mark.anyio


class Enterprise(World):
    """An identity provider, and an upstream with an authorization server of its own."""

    def __init__(
        self,
        provider: IdentityProvider,
        own: IdentityProvider,
        upstream: AccountsServer,
        home: Path,
    ) -> None:
        super().__init__(provider, upstream, home)
        self.own = own
        own.clients = {"armory-at-docs": "another secret: 100% & more"}
        own.trusted = [provider]
        provider.vouched = {own.issuer: "armory-at-docs"}

    @property
    def auth(self) -> dict[str, Any]:
        """The block `auth` of the upstream: two clients, one at each."""
        return {
            "type": "jwt_bearer",
            "issuer": self.provider.issuer,
            "client_id": "armory",
            "client_secret": "armory-secret",
            "audience": self.own.issuer,
            "audience_client_id": "armory-at-docs",
            "audience_client_secret": "another secret: 100% & more",
        }

    @property
    def oauth(self) -> dict[str, Any]:
        """The block `security.oauth`."""
        return {"issuer": self.provider.issuer}

    def token(self, name: str, url: str, **claims: Any) -> str:
        """What somebody comes with."""
        return self.provider.sign(sub=name, aud=f"{url}/mcp", **claims)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[Enterprise]:
    async with (
        IdentityProvider() as provider,
        IdentityProvider() as own,
        AccountsServer(own.verified, own.issuer) as upstream,
    ):
        found = Enterprise(provider, own, upstream, tmp_path)
        yield found
        await found.http.close()


def said(answer: dict[str, Any]) -> str:
    """The text of a call's result."""
    return answer["result"]["content"][0]["text"]


# -- an ID-JAG ------------------------------------------------------------------------------------


async def test_a_grant_is_had_with_one_client_and_redeemed_with_the_other(
    world: Enterprise,
) -> None:
    auth = {**world.auth, "scopes": ["notes:read", "notes:write"]}
    async with world.gateway(auth, oauth=world.oauth) as (url, _):
        ann, bob = (world.token(name, url) for name in TOKENS)
        for _ in range(3):
            assert "docs__only_ann" in await world.names(url, ann)
            assert said(await world.ask(url, ann)) == "ann: "
        assert said(await world.ask(url, bob)) == "bob: "
    kind = f"{TOKEN_TYPE}access_token"
    assert world.provider.forms == [
        {
            "grant_type": EXCHANGE,
            "subject_token": token,
            "subject_token_type": kind,
            "requested_token_type": f"{TOKEN_TYPE}id-jag",
            "audience": world.own.issuer,
            "resource": world.upstream.url,
            "scope": "notes:read notes:write",
        }
        for token in (ann, bob)
    ]
    grants = [form.pop("assertion") for form in world.own.forms]
    same = {"resource": world.upstream.url, "scope": "notes:read notes:write"}
    assert world.own.forms == [{"grant_type": BEARER, **same}] * 2
    for grant, name in zip(grants, TOKENS, strict=True):
        claims = world.provider.verified(grant)
        assert claims is not None
        assert (claims["sub"], claims["client_id"]) == (name, "armory-at-docs")


async def test_a_server_that_names_another_authorization_server_is_given_no_grant(
    world: Enterprise,
) -> None:
    world.upstream.issuer = world.provider.issuer
    async with world.gateway(world.auth, oauth=world.oauth) as (url, _):
        with capture_logs() as logs:
            failed = said(await world.ask(url, world.token("ann", url)))
    assert "its authorization server could not be discovered" in failed
    assert world.own.issuer not in failed
    assert f"not '{world.own.issuer}'" in str(logs)
    assert (world.provider.forms, world.own.forms) == ([], [])


@pytest.mark.parametrize(
    "answer",
    [
        {"issued_token_type": f"{TOKEN_TYPE}access_token", "token_type": "Bearer"},
        {"issued_token_type": f"{TOKEN_TYPE}access_token", "token_type": "N_A"},
        {"token_type": "N_A"},
    ],
)
async def test_what_is_no_grant_is_not_redeemed(world: Enterprise, answer: dict[str, str]) -> None:
    world.provider.refusal = (200, {"access_token": "a-secret-token", **answer})
    async with world.gateway(world.auth, oauth=world.oauth) as (url, _):
        for _ in range(2):
            failed = await world.ask(url, world.token("ann", url))
            assert failed["result"]["isError"]
            assert "a-secret-token" not in json.dumps(failed)
    assert world.own.forms == []
    assert len(world.provider.forms) == 1


async def test_each_refusal_says_whose_it_is_and_is_not_repeated_at_once(
    world: Enterprise,
) -> None:
    async with world.gateway(world.auth, oauth=world.oauth) as (url, _):
        roles = ("the identity provider", "its authorization server")
        for number, place in enumerate((world.provider, world.own)):
            token = world.token(list(TOKENS)[number], url)
            place.refusal = (400, {"error": "invalid_grant", "error_description": "not that one"})
            before = len(place.forms)
            for _ in range(3):
                failed = await world.ask(url, token)
                assert f"no access token: {roles[number]} gave no token" in said(failed)
                assert place.issuer not in said(failed)
                assert "not that one" in said(failed)
                assert token not in json.dumps(failed)
            assert len(place.forms) == before + 1
            place.refusal = None


async def test_a_grant_for_another_client_is_refused_there(world: Enterprise) -> None:
    world.provider.vouched = {world.own.issuer: "somebody-else"}
    async with world.gateway(world.auth, oauth=world.oauth) as (url, _):
        failed = said(await world.ask(url, world.token("ann", url)))
    assert "invalid_grant" in failed
    assert len(world.own.forms) == 1


# -- what expires, and who is away ----------------------------------------------------------------


@pytest.mark.parametrize("type", ["jwt_bearer", "token_exchange"])
async def test_a_kept_token_that_expires_in_mid_call_is_had_anew_once(
    world: Enterprise, type: str
) -> None:
    auth = world.auth
    giver = world.own
    if type == "token_exchange":
        auth = {name: text for name, text in auth.items() if not name.startswith("audience_")}
        auth |= {"type": type, "audience": world.upstream.url}
        world.upstream.verified = world.provider.verified
        giver = world.provider
    async with world.gateway(auth, oauth=world.oauth) as (url, _):
        ann = world.token("ann", url)
        assert said(await world.ask(url, ann)) == "ann: "
        before = len(giver.forms)
        expired: set[str] = set()
        holds = world.upstream.verified

        def verified(token: str) -> Any:
            """Whatever was given out until now has expired."""
            if len(giver.forms) == before:
                expired.add(token)
            return None if token in expired else holds(token)

        world.upstream.verified = verified
        answers = await asyncio.gather(*(world.ask(url, ann) for _ in range(5)))
        assert [said(answer) for answer in answers] == ["ann: "] * 5
        assert len(giver.forms) == before + 1
        assert expired


async def test_a_provider_that_is_away_costs_only_those_who_are_new(world: Enterprise) -> None:
    async with world.gateway(world.auth, oauth=world.oauth) as (url, _):
        ann, other = world.token("ann", url), world.token("ann", url, jti="later")
        bob = world.token("bob", url)
        assert said(await world.ask(url, ann)) == "ann: "
        for away in (world.provider, world.own):
            away.away = True
        assert said(await world.ask(url, ann)) == "ann: "
        # its keys are kept, so the gateway knows who that is; a token for the upstream it has not
        asked = dict(world.provider.fetched)
        for token in (bob, other):
            failed = await asyncio.gather(*(world.ask(url, token) for _ in range(4)))
            for answer in failed:
                assert answer["result"]["isError"]
                assert "the identity provider gave no token: HTTP 503" in said(answer)
        assert world.provider.fetched["/idp/token"] == asked["/idp/token"] + 2
        world.provider.away = world.own.away = False
        assert said(await world.ask(url, world.token("eve", url))) == "eve: "


async def test_a_callers_token_that_expires_in_mid_call_ends_no_call_and_opens_no_other(
    world: Enterprise,
) -> None:
    auth = {"type": "passthrough"}
    world.upstream.verified = lambda _token: {"sub": "ann", "aud": world.upstream.url}
    async with world.gateway(auth, oauth=world.oauth) as (url, _):
        # the clocks may be half a minute apart, so that this one holds for some seconds more
        both = [f"{url}/mcp", world.upstream.url]
        last = world.provider.sign(aud=both, exp=int(time.time()) - 22)
        assert "docs__note" in await world.names(url, last)
        arrived, go_on = world.upstream.held = asyncio.Event(), asyncio.Event()
        call = asyncio.create_task(world.ask(url, last))
        async with asyncio.timeout(30):
            await arrived.wait()
            while True:
                if await status(world, url, last) == 401:
                    break
                await asyncio.sleep(0.1)
        go_on.set()
        assert said(await call) == "ann: "
        assert await status(world, url, last) == 401
        assert said(await world.ask(url, world.provider.sign(aud=both))) == "ann: "


async def status(world: World, url: str, token: str) -> int:
    """Of a request that needs nothing of an upstream."""
    body = modern_body(1, "server/discover")
    headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
    async with world.http.post(f"{url}/mcp", json=body, headers=headers) as response:
        return response.status
