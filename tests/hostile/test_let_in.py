"""What a program does that somebody let in ends with the login: nothing of it stays."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from armory.testing.oauth_client import App
from armory.testing.people import TOKENS, World

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
_KEY: dict[str, Any] = {"method": "POST", "path": "/v1/keys", "name": "mine"}
_FILE: dict[str, Any] = {"method": "PUT", "path": "/v1/configuration", "text": "upstreams: {}"}
_APPROVAL: dict[str, Any] = {"method": "POST", "path": "/v1/changes/up__see/approve", "now": "x"}


async def asked(
    world: World, url: str, token: str, *, method: str, path: str, **body: str
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    send = world.http.request(method, f"{url}{path}", json=body or None, headers=headers)
    async with send as answer:
        return answer.status, await answer.json()


async def console_token(world: World, url: str, app: App) -> str:
    """What a login to the console gives."""
    _, begun = await asked(world, url, "", method="POST", path="/v1/login/begin")
    place = begun["url"]
    while not place.startswith(f"{url}/console/"):
        _, place = await app.get(place)
    back = dict(parse_qsl(urlsplit(place).query))
    back["kept"] = begun["kept"]
    _, done = await asked(world, url, "", method="POST", path="/v1/login/finish", **back)
    return done["token"]


async def test_a_program_that_was_let_in_makes_no_key_that_stays(world: World) -> None:
    behind = {"issuer": world.provider.issuer, "client_id": "armory"}
    oauth = {"proxy": {**behind, "client_secret": "armory-secret"}}
    keys: dict[str, Any] = {"accounts": {"enabled": True}, "api_keys": True}
    async with world.gateway(oauth=oauth, **keys) as (url, _), App(url) as app:
        made = await asked(world, url, (await app.tokens())["access_token"], **_KEY)
        assert (made[0], made[1]["code"]) == (403, "access_denied")
        assert (await asked(world, url, await console_token(world, url, app), **_KEY))[0] == 201


@pytest.mark.parametrize("says", [{"client_id": "an-app"}, {"azp": "an-app"}, {}])
async def test_nor_does_one_that_the_issuer_let_in(world: World, says: dict[str, str]) -> None:
    """Of the issuer's tokens, only those that the gateway's own console asked for make keys."""
    secret = {"client_id": "armory", "client_secret": "armory-secret"}
    oauth = {"issuer": world.provider.issuer, "scopes": ["admin"], **secret}
    keys: dict[str, Any] = {"accounts": {"enabled": True}, "api_keys": True}
    async with world.gateway(oauth=oauth, **keys) as (url, _), App(url) as app:
        token = world.provider.sign(aud=f"{url}/mcp", scope="admin", **says)
        assert (await asked(world, url, token, method="GET", path="/v1/keys"))[0] == 200
        for what in (_KEY, _FILE, _APPROVAL):
            made = await asked(world, url, token, **what)
            assert (made[0], made[1]["code"]) == (403, "access_denied")
        assert (await asked(world, url, await console_token(world, url, app), **_KEY))[0] == 201


async def test_a_program_that_was_let_in_by_an_administrator_saves_no_configuration(
    world: World,
) -> None:
    behind = {"issuer": world.provider.issuer, "client_id": "armory"}
    proxy = {**behind, "client_secret": "armory-secret"}
    oauth = {"scopes": ["admin"], "proxy": proxy}
    async with world.gateway(oauth=oauth) as (url, _), App(url) as app:
        token = (await app.tokens())["access_token"]
        assert (await asked(world, url, token, method="GET", path="/v1/audit"))[0] == 404
        saved = await asked(world, url, token, **_FILE)
        assert (saved[0], saved[1]["code"]) == (403, "access_denied")
        saved = await asked(world, url, await console_token(world, url, app), **_FILE)
        assert saved[1]["code"] == "no_configuration"  # this gateway was started from no file


async def test_nor_does_it_approve_a_definition(world: World) -> None:
    behind = {"issuer": world.provider.issuer, "client_id": "armory"}
    oauth = {"scopes": ["admin"], "proxy": {**behind, "client_secret": "armory-secret"}}
    async with world.gateway(oauth=oauth) as (url, _), App(url) as app:
        refused = await asked(world, url, (await app.tokens())["access_token"], **_APPROVAL)
        assert (refused[0], refused[1]["code"]) == (403, "access_denied")
        let = await asked(world, url, await console_token(world, url, app), **_APPROVAL)
        assert let[1]["code"] == "unknown_tool"  # none is withheld


async def test_a_program_of_somebody_who_is_switched_off_is_out(world: World) -> None:
    behind = {"issuer": world.provider.issuer, "client_id": "armory"}
    proxy = {**behind, "client_secret": "armory-secret"}
    async with world.gateway(oauth={"proxy": proxy}) as (url, runtime), App(url) as app:
        assert runtime.accounts is not None
        users, token = runtime.accounts.users, (await app.tokens())["access_token"]
        await users.create("ann")
        assert "result" in await world.ask(url, token, "tools/list", {})
        await users.change("ann", is_active=False)  # no packs narrow anything: accounts are off
        assert "switched off" in (await world.ask(url, token, "tools/list", {}))["error"]["message"]
        await users.change("ann", is_active=True)
        assert "result" in await world.ask(url, token, "tools/list", {})


async def test_who_is_switched_off_is_out_where_nothing_else_asks_the_database(
    world: World,
) -> None:
    """Accounts are off; people come with static tokens, and with those of an issuer."""
    async with world.gateway(oauth={"issuer": world.provider.issuer}) as (url, runtime):
        assert runtime.accounts is not None
        users, issued = runtime.accounts.users, world.provider.sign(aud=f"{url}/mcp")
        await users.create("ann")
        for token in (TOKENS["ann"], issued):
            assert "result" in await world.ask(url, token, "tools/list", {})
        await users.change("ann", is_active=False)
        for token in (TOKENS["ann"], issued):
            said = await world.ask(url, token, "tools/list", {})
            assert "switched off" in said["error"]["message"]
        assert "result" in await world.ask(url, TOKENS["bob"], "tools/list", {})
        await users.change("ann", is_active=True)
        assert "result" in await world.ask(url, issued, "tools/list", {})
