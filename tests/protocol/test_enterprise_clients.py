"""ID-JAGs at the gateway's own token endpoint: an identity provider vouches, no page is shown."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from armory.testing.identity import BEARER, EXCHANGE, TOKEN_TYPE, IdentityProvider
from armory.testing.oauth_client import CALLBACK, App
from armory.testing.people import World

pytestmark = pytest.mark.anyio
SECRET = "the secret of a desk: 100% & more"
PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"


class Desk(App):
    """A client that an enterprise manages: registered by hand at the provider and the gateway."""

    def __init__(self, url: str, world: World) -> None:
        super().__init__(url)
        self.world = world
        self.client_id = "desk"
        world.provider.clients["desk-at-home"] = "its secret there"
        world.provider.vouched[url] = "desk"

    async def grant(self, name: str = "ann", scope: str = "mcp:use", **form: str) -> str:
        """An ID-JAG that the provider gives for the ID token of somebody's login there."""
        asked = {
            "grant_type": EXCHANGE,
            "requested_token_type": f"{TOKEN_TYPE}id-jag",
            "audience": self.url,
            "resource": f"{self.url}/mcp",
            "scope": scope,
            "subject_token": self.world.provider.sign("JWT", sub=name, aud="desk-at-home"),
            "subject_token_type": f"{TOKEN_TYPE}id_token",
            "client_id": "desk-at-home",
            "client_secret": "its secret there",
            **form,
        }
        where = f"{self.world.provider.issuer}/token"
        async with self.http.post(where, data=asked) as response:
            answer = await response.json()
        assert answer["issued_token_type"] == f"{TOKEN_TYPE}id-jag", answer
        return answer["access_token"]

    def signed(self, typ: str = "oauth-id-jag+jwt", **claims: Any) -> str:
        """An ID-JAG for this client, but for these claims; None takes one away."""
        usual: dict[str, Any] = {
            "sub": "ann",
            "aud": self.url,
            "client_id": self.client_id,
            "jti": str(time.monotonic_ns()),
            "resource": f"{self.url}/mcp",
            "scope": "mcp:use",
        }
        return self.world.provider.sign(typ, **(usual | claims))

    async def bring(self, assertion: str, **form: str) -> tuple[int, dict[str, Any]]:
        """(status, answer) of the gateway's token endpoint."""
        said = {"grant_type": BEARER, "assertion": assertion, "client_secret": SECRET, **form}
        return await self.token(**said)


@asynccontextmanager
async def managed(world: World, **more: Any) -> AsyncGenerator[tuple[str, Desk]]:
    """A gateway that takes the provider's ID-JAGs, and a client that has them."""
    proxy: dict[str, Any] = {"issuer": world.provider.issuer, "client_id": "armory"}
    proxy["client_secret"] = "armory-secret"
    proxy["id_jag_issuers"] = [world.provider.issuer]
    proxy["clients"] = {"desk": {"name": "The desk", "client_secret": SECRET}}
    oauth = {"scopes": ["mcp:use"], "proxy": proxy, **more}
    async with world.gateway(oauth=oauth) as (url, _), Desk(url, world) as desk:
        yield url, desk


async def opens(world: World, url: str, token: str) -> bool:
    """Whether a token opens `/mcp`."""
    return "result" in await world.ask(url, token, "tools/list", {})


async def test_whom_the_provider_vouches_for_is_let_in_without_a_page(world: World) -> None:
    async with managed(world) as (url, desk):
        async with world.http.get(f"{url}/.well-known/oauth-authorization-server") as response:
            metadata = await response.json()
        assert metadata["authorization_grant_profiles_supported"] == [PROFILE]
        assert BEARER in metadata["grant_types_supported"]
        grant = await desk.grant("bob")
        status, answer = await desk.bring(grant, scope="mcp:use", resource=f"{url}/mcp")
        assert status == 200, answer
        assert answer["scope"] == "mcp:use"
        assert answer["token_type"] == "Bearer"
        assert 0 < answer["expires_in"] <= 1_800
        assert "refresh_token" not in answer
        assert await opens(world, url, answer["access_token"])
        status, again = await desk.bring(grant)  # while it holds: it proves who it is
        assert status == 200
        form = {"token": answer["access_token"], "client_id": "desk", "client_secret": SECRET}
        async with desk.http.post(f"{url}/oauth/revoke", data=form) as response:
            assert response.status == 200
        assert not await opens(world, url, answer["access_token"])
        assert await opens(world, url, again["access_token"])


async def test_it_is_the_same_person_as_by_a_login(world: World) -> None:
    async with managed(world) as (url, desk), App(url) as app:
        _, answer = await desk.bring(await desk.grant("ann"))
        me = [answer["access_token"], (await app.tokens())["access_token"]]
        names: list[Any] = []
        for token in me:
            headers = {"Authorization": f"Bearer {token}"}
            async with world.http.get(f"{url}/v1/me", headers=headers) as response:
                names.append((await response.json())["user"])
        assert names == ["ann", "ann"]


async def test_what_is_not_quite_an_id_jag_gives_nothing(world: World) -> None:
    async with managed(world) as (url, desk), IdentityProvider() as other:
        now = int(time.time())
        wrong = [
            desk.signed("at+jwt"),
            desk.signed("JWT"),
            desk.signed(aud="https://elsewhere.example"),
            desk.signed(aud=[url, "https://elsewhere.example"]),
            desk.signed(aud=f"{url}/mcp"),
            desk.signed(aud=None),
            desk.signed(client_id="another"),
            desk.signed(client_id=None),
            desk.signed(jti=None),
            desk.signed(iat=None),
            desk.signed(sub=None),
            desk.signed(exp=now - 300),
            desk.signed(exp=now + 86_400),
            desk.signed(iat=now + 300),
            desk.signed(iss=other.issuer),
            desk.signed(cnf={"jkt": "a key that a bearer does not show"}),
            desk.signed(resource=7),
            desk.signed(resource="\ud800"),
            desk.signed(jti="\ud800"),
            other.sign("oauth-id-jag+jwt", aud=url, client_id="desk", jti="1"),
            "no.jwt.atall",
            "",
        ]
        for assertion in wrong:
            status, answer = await desk.bring(assertion)
            assert (status, answer["error"]) == (400, "invalid_grant"), answer
            assert "access_token" not in answer
        for resource in ("https://evil.example/mcp", f"{url}/v1/tools", url):
            status, answer = await desk.bring(desk.signed(resource=resource))
            assert (status, answer["error"]) == (400, "invalid_target")
        status, answer = await desk.bring(desk.signed(), resource=f"{url}/mcp/docs")
        assert (status, answer["error"]) == (400, "invalid_target")
        for secret in ("", "x", "its secret there"):
            status, answer = await desk.bring(desk.signed(), client_secret=secret)
            assert (status, answer["error"]) == (401, "invalid_client")
        assert (await desk.bring(desk.signed()))[0] == 200  # and nothing else was wrong


async def test_scopes_are_those_asked_for_and_granted(world: World) -> None:
    async with managed(world) as (_, desk):
        status, answer = await desk.bring(desk.signed(scope="mcp:use docs:read docs:write"))
        assert (status, answer["scope"]) == (200, "docs:read docs:write mcp:use")
        asked = {"scope": "mcp:use docs:read admin"}
        status, answer = await desk.bring(desk.signed(scope="mcp:use docs:read"), **asked)
        assert (status, answer["scope"]) == (200, "docs:read mcp:use")
        status, answer = await desk.bring(desk.signed(scope="docs:read"))
        assert (status, answer["error"]) == (400, "invalid_scope")
        assert "mcp:use" in answer["error_description"]
        status, answer = await desk.bring(desk.signed(scope=None))
        assert (status, answer["scope"]) == (200, "mcp:use")


async def test_a_client_that_proves_nothing_brings_each_once(world: World) -> None:
    async with managed(world) as (url, desk), App(url) as app:
        await app.register()
        desk.client_id = app.client_id
        assertion = desk.signed()
        form = {"grant_type": BEARER, "assertion": assertion}
        status, first = await app.token(**form)
        assert status == 200
        revoked = {"token": first["access_token"], "client_id": app.client_id}
        async with app.http.post(f"{url}/oauth/revoke", data=revoked) as response:
            assert response.status == 200
        status, answer = await app.token(**form)
        assert (status, answer["error"]) == (400, "invalid_grant")


async def test_another_providers_people_are_not_the_first_ones(world: World) -> None:
    async with IdentityProvider() as partner:
        behind = {"issuer": world.provider.issuer, "client_id": "armory"}
        behind["client_secret"] = "armory-secret"
        proxy = {**behind, "id_jag_issuers": [partner.issuer]}
        async with managed(world, proxy=proxy) as (url, desk), App(url) as app:
            await app.register()
            desk.client_id = app.client_id
            claims = {"aud": url, "client_id": app.client_id, "sub": "ann", "jti": "1"}
            said = {"grant_type": BEARER, "assertion": partner.sign("oauth-id-jag+jwt", **claims)}
            status, answer = await app.token(**said)
            assert status == 200, answer
            headers = {"Authorization": f"Bearer {answer['access_token']}"}
            async with world.http.get(f"{url}/v1/me", headers=headers) as response:
                assert (await response.json())["user"] == f"{partner.issuer}|ann"
            status, answer = await app.token(grant_type=BEARER, assertion=desk.signed())
            assert (status, answer["error"]) == (400, "invalid_grant")  # logs in, does not vouch


async def test_without_such_providers_there_is_no_such_grant(world: World) -> None:
    proxy: dict[str, Any] = {"issuer": world.provider.issuer, "client_id": "armory"}
    proxy["clients"] = {"desk": {"client_secret": SECRET, "redirects": [CALLBACK]}}
    async with managed(world, proxy=proxy) as (url, desk):
        status, answer = await desk.bring(desk.signed())
        assert (status, answer["error"]) == (400, "unsupported_grant_type")
        async with world.http.get(f"{url}/.well-known/oauth-authorization-server") as response:
            assert "authorization_grant_profiles_supported" not in await response.json()


async def test_a_client_by_hand_logs_people_in(world: World) -> None:
    behind = {"issuer": world.provider.issuer, "client_id": "armory"}
    behind["client_secret"] = "armory-secret"
    known = {"desk": {"name": "The desk", "client_secret": SECRET, "redirects": [CALLBACK]}}
    proxy = {**behind, "clients": known, "redirects": ["https://only.these.example/*"]}
    async with managed(world, proxy=proxy) as (url, desk):
        status, page = await desk.authorize()
        assert (status, "The desk" in page) == (200, True)
        assert "Whoever runs this gateway registered it." in page
        assert "registered itself" not in page
        status, place = await desk.press(page)
        back = await desk.come_back(place)
        assert (await desk.redeem(back["code"], client_secret="x"))[0] == 401
        status, tokens = await desk.redeem(back["code"], client_secret=SECRET)
        assert status == 200
        assert await opens(world, url, tokens["access_token"])
        status, page = await desk.authorize(redirect_uri="https://only.these.example/x")
        assert (status, "has not registered" in page) == (400, True)


async def test_a_provider_that_is_away_is_no_refusal(world: World) -> None:
    async with managed(world) as (_, desk):
        assertion = desk.signed()
        world.provider.away = True
        status, answer = await desk.bring(assertion)
        assert (status, answer["error"]) == (503, "temporarily_unavailable")
