"""How long a browser is known at `/connect`: as long as what it proved itself by holds."""

from __future__ import annotations

import pytest

from armory.testing.identity import IdentityProvider
from armory.testing.oauth_client import App
from armory.testing.people import TOKENS, Browser, World

pytestmark = pytest.mark.anyio
ACCOUNTS = {"enabled": True}
ASKED = "who are you here?"


async def test_a_browser_is_known_no_longer_than_its_key_holds(world: World) -> None:
    async with world.gateway(accounts=ACCOUNTS, api_keys=True) as (url, runtime):
        assert runtime.accounts is not None
        await runtime.accounts.users.create("ann")
        made, key = await runtime.accounts.keys.create("laptop", user="ann")
        async with Browser(world, url) as browser, Browser(world, url) as away:
            world.provider.user = "ann"
            for one in (browser, away):
                assert "You are <b>ann</b>" in (await one.click("identify", credential=key))[1]
            assert "Connected" in (await browser.click("connect"))[1]
            _, login = await away.click("connect", follow=False)
            async with world.http.get(login, allow_redirects=False) as sent:
                back = sent.headers["Location"]
            await runtime.accounts.keys.revoke(made.id)
            assert ASKED in (await browser.get(f"{url}/connect/docs"))[1]
            for action in ("connect", "disconnect"):
                answer = await browser.click(action, follow=False)
                assert answer == (303, "/connect/docs"), action
            status, _ = await away.get(back)
            assert status == 403
            assert len(world.provider.refresh_tokens) == 1  # neither given back nor a second one


async def test_a_browser_is_known_no_longer_than_its_user_is_active(world: World) -> None:
    oauth = world.client
    async with world.gateway(accounts=ACCOUNTS, oauth=oauth) as (url, runtime):
        assert runtime.accounts is not None
        users = runtime.accounts.users
        await users.create("ann")
        async with Browser(world, url) as by_token, Browser(world, url) as signed_in:
            world.provider.user = "ann"
            assert "<b>ann</b>" in (await by_token.click("identify", credential=TOKENS["ann"]))[1]
            assert "<b>ann</b>" in (await signed_in.click("sign-in"))[1]
            await users.change("ann", is_active=False)
            for browser in (by_token, signed_in):
                assert ASKED in (await browser.get(f"{url}/connect/docs"))[1]
            status, text = await signed_in.click("sign-in")
            assert (status, "switched off" in text) == (403, True)
            await users.change("ann", is_active=True)
            assert "<b>ann</b>" in (await by_token.get(f"{url}/connect/docs"))[1]


async def test_nobody_in_particular_connects_an_account(world: World) -> None:
    async with world.gateway(allow_anonymous=True) as (url, _), Browser(world, url) as browser:
        world.provider.user = "ann"
        assert "Connected" in (await browser.click("connect"))[1]


async def test_the_token_of_an_mcp_client_says_who_it_is(world: World) -> None:
    """Also of an issuer whose page is not the one that is offered; not one for another endpoint."""
    async with IdentityProvider() as second:
        issuers = [world.provider.issuer, second.issuer]
        async with world.gateway(oauth={"issuer": issuers}) as (url, _):
            for path in ("/mcp", "/mcp/docs"):
                async with Browser(world, url) as browser:
                    token = second.sign(sub="ann", aud=f"{url}{path}")
                    status, text = await browser.click("identify", credential=token)
                    assert (status, f"You are <b>{second.issuer}|ann</b>" in text) == (200, True)
            async with Browser(world, url) as browser:
                for path in ("/mcp/other", "/mcp/set/docs", "", "/connect/docs"):
                    token = second.sign(sub="ann", aud=f"{url}{path}")
                    status, text = await browser.click("identify", credential=token)
                    assert (status, "for another resource" in text) == (403, True), path
                assert ASKED in (await browser.get(f"{url}/connect/docs"))[1]


async def test_a_program_that_was_let_in_connects_no_account(world: World) -> None:
    async with (
        world.gateway(oauth={"proxy": world.client}) as (url, _),
        App(url) as app,
        Browser(world, url) as browser,
    ):
        token = (await app.tokens())["access_token"]
        assert await world.names(url, token) == ["docs__log_in"]
        status, text = await browser.click("identify", credential=token)
        assert (status, "that you let in connects no account" in text) == (403, True), text
        assert ASKED in (await browser.get(f"{url}/connect/docs"))[1]
        assert (await browser.click("connect", follow=False))[1] == "/connect/docs"  # who are you?


async def test_the_gateway_registers_nowhere_under_a_name_that_somebody_chose(world: World) -> None:
    """Who has the name would have the code, and be whoever followed the link."""
    oauth = {"issuer": world.provider.issuer, "audience": ["https://tools.example/mcp"]}
    registered = f"{world.provider.issuer}/register"
    world.provider.metadata = {"registration_endpoint": registered}
    server = {"host": "0.0.0.0"}
    async with world.gateway(server=server, oauth=oauth) as (url, _), Browser(world, url) as here:
        world.provider.fetched.clear()
        status, text = await here.click("sign-in", follow=False)
        assert (status, world.provider.fetched) == (403, {})
    known = {"client_id": "armory", "client_secret": "armory-secret"}
    async with (
        world.gateway(server=server, oauth={**oauth, **known}) as (url, _),
        Browser(world, url) as here,
    ):
        status, text = await here.click("sign-in", follow=False)
        assert (status, text.startswith(world.provider.issuer)) == (303, True)
