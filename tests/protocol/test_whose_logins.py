"""Logins of people at upstreams, as they and whoever administers the gateway see and end them."""

from __future__ import annotations

import asyncio
import json

import pytest
from yarl import URL

from armory.runtime.logins import log_in, log_out
from armory.testing.people import TOKENS, Browser, World

pytestmark = pytest.mark.anyio


async def test_everybody_sees_and_ends_its_own_logins_over_rest(world: World) -> None:
    async with world.gateway() as (url, _):
        async with Browser(world, url) as browser:
            await browser.connect("ann")

        async def logins(name: str) -> list[bool]:
            headers = {"Authorization": f"Bearer {TOKENS[name]}"}
            async with world.http.get(f"{url}/v1/logins", headers=headers) as response:
                found = (await response.json())["logins"]
            assert "access_token" not in json.dumps(found)
            return [login["connected"] for login in found]

        assert (await logins("ann"), await logins("bob")) == ([True], [False])
        statuses: list[int] = []
        for name in ("bob", "ann", "ann"):
            headers = {"Authorization": f"Bearer {TOKENS[name]}"}
            async with world.http.delete(f"{url}/v1/logins/docs", headers=headers) as response:
                statuses.append(response.status)
        assert statuses == [404, 204, 404]
        assert await logins("ann") == [False]
        assert world.provider.refresh_tokens == []
        assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]


async def test_an_administrator_sees_and_ends_anybodys_logins_over_rest(world: World) -> None:
    named = {name: {"token": token, "user": name} for name, token in TOKENS.items()}
    root = {"token": "the-token-of-the-operator", "scopes": ["admin"]}
    async with world.gateway(tokens={**named, "root": root}) as (url, _):
        async with Browser(world, url) as browser:
            await browser.connect("ann")

        async def asked(method: str, token: str, place: str, user: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"}
            where = URL(f"{url}/v1/logins{place}").with_query(user=user)
            async with world.http.request(method, where, headers=headers) as response:
                return response.status, await response.text()

        for token, status in ((TOKENS["bob"], 403), (TOKENS["ann"], 403), (root["token"], 200)):
            assert (await asked("GET", str(token), "", "ann"))[0] == status
        assert (await asked("DELETE", TOKENS["bob"], "/docs", "ann"))[0] == 403
        operator = str(root["token"])
        for user, connected in (("ann", True), ("bob", False), ("token:root", False)):
            found = json.loads((await asked("GET", operator, "", user))[1])["logins"]
            assert [login["connected"] for login in found] == [connected], user
        statuses = [(await asked("DELETE", operator, "/docs", "ann"))[0] for _ in range(2)]
        assert statuses == [204, 404]
        assert world.provider.refresh_tokens == []
        assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]


async def test_who_is_called_like_somebody_deleted_has_not_the_account(world: World) -> None:
    async with world.gateway() as (url, runtime):
        accounts = runtime.accounts
        assert accounts is not None
        await accounts.users.create("ann")
        for name in TOKENS:
            async with Browser(world, url) as browser:
                await browser.connect(name)
        assert await accounts.users.delete("ann")
        await accounts.users.create("ann")
        async with asyncio.timeout(20):
            while "docs__only_ann" in await world.names(url, TOKENS["ann"]):
                pass  # until the lists are those of the login, which is gone
        assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]
        assert "docs__only_bob" in await world.names(url, TOKENS["bob"])


async def test_the_logins_of_a_key_without_a_user_go_with_it(world: World) -> None:
    async with world.gateway(accounts={"enabled": True}, api_keys=True) as (url, runtime):
        accounts = runtime.accounts
        assert accounts is not None
        await accounts.users.create("ann")
        made, key = await accounts.keys.create("robot")
        hers, _ = await accounts.keys.create("laptop", user="ann")
        async with Browser(world, url) as browser:
            await browser.connect("ann")
        async with Browser(world, url) as browser:
            world.provider.user = "bob"
            await browser.click("identify", credential=key)
            assert (await browser.click("connect"))[0] == 200
        for id in (made.id, hers.id):
            assert await accounts.keys.revoke(id)
        assert not await log_out(runtime.loaded, "docs", f"api_key:{made.id}")
        assert await log_out(runtime.loaded, "docs", "user:ann")


async def test_the_operator_connects_somebodys_account(world: World) -> None:
    async with world.gateway() as (url, runtime):

        async def visit(page: str) -> dict[str, str]:
            world.provider.user = "bob"
            async with world.http.get(page, allow_redirects=False) as sent:
                return dict(URL(sent.headers["Location"]).query)

        back = "http://127.0.0.1:9/callback"
        issuer = await log_in(runtime.loaded, "docs", back, visit, "user:bob")
        assert issuer == world.provider.issuer
        async with asyncio.timeout(20):
            while True:  # until this process has heard of what another one would have written
                if "docs__only_bob" in await world.names(url, TOKENS["bob"]):
                    break
        assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]
        assert await log_out(runtime.loaded, "docs", "user:bob")
        assert not await log_out(runtime.loaded, "docs", "user:bob")
