"""What becomes of a login at the gateway while its client refreshes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from armory.testing.oauth_client import App
from armory.testing.people import World
from tests.protocol.test_authorization_server import allowed, proxied

pytestmark = pytest.mark.anyio


async def test_windows_that_refresh_at_once_stay_logged_in_at_either_replica(world: World) -> None:
    async with proxied(world) as (one, _), proxied(world) as (other, _), App(one) as app:
        tokens = await app.tokens()

        async def refreshed(at: str, token: str) -> dict[str, Any]:
            headers = {"Host": one.removeprefix("http://")}
            form = {"grant_type": "refresh_token", "refresh_token": token}
            form["client_id"] = app.client_id
            async with world.http.post(f"{at}/oauth/token", data=form, headers=headers) as got:
                assert got.status == 200, await got.text()
                return await got.json()

        for asked in (1, 2):
            token = tokens["refresh_token"]
            given = await asyncio.gather(*(refreshed(at, token) for at in (one, other) * 3))
            forms = [form["grant_type"] for form in world.provider.forms]
            assert forms.count("refresh_token") == asked
            for each in given:
                assert await allowed(world, one, each["access_token"])
            tokens = given[asked]


def by_groups(world: World) -> dict[str, object]:
    """`security.oauth` in front of the provider, whose groups are what people may do."""
    return {"scopes_claim": "groups", "proxy": world.client}


async def test_who_leaves_a_group_has_its_rights_no_longer_than_its_token(world: World) -> None:
    world.provider.says = {"groups": ["finance", "staff"]}
    oauth, policies = by_groups(world), [{"who": ["finance"], "allow": ["docs__*"]}]
    async with world.gateway(oauth=oauth, policies=policies) as (url, _), App(url) as app:
        tokens = await app.tokens()
        assert await world.names(url, tokens["access_token"]) == ["docs__log_in"]
        _, tokens = await app.refresh(tokens["refresh_token"])
        assert await world.names(url, tokens["access_token"]) == ["docs__log_in"]
        world.provider.says = {"groups": ["staff"]}
        _, tokens = await app.refresh(tokens["refresh_token"])
        assert await world.names(url, tokens["access_token"]) == []
        world.provider.says = {"groups": ["staff", "finance"]}
        _, tokens = await app.refresh(tokens["refresh_token"])
        assert await world.names(url, tokens["access_token"]) == ["docs__log_in"]


OVERAGE = {"_claim_names": {"groups": "src1"}}


async def test_who_is_in_too_many_groups_to_say_is_logged_in_no_longer(world: World) -> None:
    """By then a policy that bars one of the groups could not know that it does."""
    world.provider.says = {"groups": ["staff", "interns"]}
    policies = [{"who": [], "allow": ["*"]}, {"who": ["interns"], "deny": ["docs__*"]}]
    world.provider.metadata["userinfo_endpoint"] = f"{world.provider.issuer}/userinfo"
    world.provider.tells, oauth = None, by_groups(world)
    async with world.gateway(oauth=oauth, policies=policies) as (url, _), App(url) as app:
        tokens = await app.tokens()
        assert "docs__log_in" not in await world.names(url, tokens["access_token"])
        world.provider.says = OVERAGE
        status, refused = await app.refresh(tokens["refresh_token"])
        assert (status, refused["error"]) == (400, "invalid_grant")
        world.provider.tells = {"groups": ["interns"]}  # it has them there after all
        tokens = await app.tokens()
        assert "docs__log_in" not in await world.names(url, tokens["access_token"])


async def test_groups_may_be_in_userinfo_alone(world: World) -> None:
    """As OpenID Connect has it where an access token is given, too (Core, 5.4); Okta does so."""
    world.provider.metadata["userinfo_endpoint"] = f"{world.provider.issuer}/userinfo"
    world.provider.tells = {"groups": ["finance"]}
    oauth, policies = by_groups(world), [{"who": ["finance"], "allow": ["docs__*"]}]
    async with world.gateway(oauth=oauth, policies=policies) as (url, _), App(url) as app:
        tokens = await app.tokens()
        assert await world.names(url, tokens["access_token"]) == ["docs__log_in"]
        world.provider.tells = None  # it has nothing to say, which is no reason to refuse a login
        _, tokens = await app.refresh(tokens["refresh_token"])
        assert await world.names(url, tokens["access_token"]) == []
        tokens = await app.tokens()
        assert await world.names(url, tokens["access_token"]) == []


@pytest.mark.parametrize(
    ("first", "then"),
    [((), ("id_token",)), (("refresh_token",), ())],
    ids=["refreshed", "no refresh token"],
)
async def test_groups_in_userinfo_are_those_of_now_without_another_id_token(
    world: World, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    world.provider.metadata["userinfo_endpoint"] = f"{world.provider.issuer}/userinfo"
    world.provider.tells, world.provider.withholds = {"groups": ["finance", "staff"]}, first
    oauth, policies = by_groups(world), [{"who": ["finance"], "allow": ["docs__*"]}]
    async with world.gateway(oauth=oauth, policies=policies) as (url, _), App(url) as app:
        tokens = await app.tokens()
        world.provider.withholds = then
        for groups, names in ((["finance"], ["docs__log_in"]), (["staff"], [])):
            world.provider.tells = {"groups": groups}
            _, tokens = await app.refresh(tokens["refresh_token"])
            assert await world.names(url, tokens["access_token"]) == names


async def test_a_login_ends_when_its_person_is_called_otherwise(world: World) -> None:
    """The name may be somebody else's next."""
    world.provider.says = {"email": "ann@example.org"}
    oauth = {"user_claim": "email", "proxy": world.client}
    async with world.gateway(oauth=oauth) as (url, _), App(url) as app:
        tokens = await app.tokens()
        world.provider.says = {"email": "ann.b@example.org"}
        status, said = await app.refresh(tokens["refresh_token"])
        assert (status, said["error"]) == (400, "invalid_grant")
        assert not await allowed(world, url, tokens["access_token"])
