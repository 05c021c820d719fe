"""People's own accounts at upstreams: asked for, connected by whoever is in the browser, used."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from armory.testing.clients.raw import LegacyClient
from armory.testing.people import KEY, TOKENS, URLS, Browser, World

pytestmark = pytest.mark.anyio
FORM = "application/x-www-form-urlencoded"
CALLS = int(os.environ.get("ARMORY_TEST_PEOPLE_CALLS", "120"))
"""Calls of two people together."""


async def long_form() -> AsyncGenerator[bytes]:
    """One in chunks, whose length nothing says before its end."""
    for part in (b"action=leave", *[b"&a=1" * 1_000] * 20):
        yield part


async def test_a_person_is_asked_connects_and_goes_on(world: World) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]
        call = {"name": "docs__log_in", "arguments": {}}
        asked = (await world.ask(url, TOKENS["ann"], params=call, capabilities=URLS))["result"]
        assert asked["resultType"] == "input_required"
        (question,) = asked["inputRequests"].values()
        assert question["params"]["mode"] == "url"
        assert question["params"]["url"] == f"{url}/connect/docs"
        assert "ann" not in json.dumps(question)
        assert "Connected" in await browser.connect("ann")
        again = {**call, "requestState": asked["requestState"], "inputResponses": {}}
        done = await world.ask(url, TOKENS["ann"], params=again, capabilities=URLS)
        assert "logged in" in done["result"]["content"][0]["text"]
        assert await world.names(url, TOKENS["ann"]) == ["docs__note", "docs__only_ann"]
        assert await world.names(url, TOKENS["bob"]) == ["docs__log_in"]
        said = await world.ask(url, TOKENS["ann"])
        assert said["result"]["content"][0]["text"] == "ann: "


async def test_clients_of_every_era_are_told_where(world: World) -> None:
    async with world.gateway() as (url, _):
        page = f"{url}/connect/docs"
        call = {"name": "docs__log_in", "arguments": {}}
        plain = (await world.ask(url, TOKENS["ann"], params=call))["result"]
        assert plain["isError"]
        assert page in plain["content"][0]["text"]
        assert plain["_meta"]["dev.armory/error"]["url"] == page
        async with aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {TOKENS['ann']}"}
        ) as http:
            for version, capabilities in (("2025-11-25", URLS), ("2025-06-18", URLS)):
                client = LegacyClient(f"{url}/mcp", http, version)
                await client.initialize(capabilities)
                answer = await client.request("tools/call", call)
                if version == "2025-11-25":
                    assert answer["error"]["code"] == -32042
                    (elicitation,) = answer["error"]["data"]["elicitations"]
                    assert elicitation["url"] == page
                    assert elicitation["elicitationId"]
                else:
                    assert page in answer["result"]["content"][0]["text"]


@pytest.mark.timeout(120 + CALLS // 10)
async def test_each_sees_only_what_is_its_own_over_two_replicas(world: World) -> None:
    async with AsyncExitStack() as stack:
        first, _ = await stack.enter_async_context(world.gateway())
        second, _ = await stack.enter_async_context(world.gateway())
        for name in TOKENS:
            async with Browser(world, first) as browser:
                await browser.connect(name)
        for url in (first, second):
            for name, token in TOKENS.items():
                assert f"docs__only_{name}" in await world.names(url, token)
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("prompts/get", {"name": "docs__me"}),
            ("resources/read", {"uri": "docs+me://notes"}),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": "docs__me"},
                                     "argument": {"name": "a", "value": ""}}),
        ]  # fmt: skip

        async def use(name: str, count: int) -> None:
            for number in range(count):
                url = (first, second)[number % 2]
                arguments = {"text": f"{name}{number}"}
                note = {"name": "docs__note", "arguments": arguments}
                said = await world.ask(url, TOKENS[name], params=note)
                assert said["result"]["content"][0]["text"].startswith(f"{name}: {name}0")
                method, params = kinds[number % 3]
                answer = json.dumps(await world.ask(url, TOKENS[name], method, params))
                assert name in answer
                assert ("bob" if name == "ann" else "ann") not in answer

        await asyncio.gather(*(use(name, CALLS // 4) for name in TOKENS))
        for name in TOKENS:
            assert world.upstream.notes[name] == [f"{name}{number}" for number in range(CALLS // 4)]
        async with Browser(world, second) as browser:
            await browser.click("identify", credential=TOKENS["bob"])
            status, _text = await browser.click("disconnect")
            assert status == 200
        said = await world.ask(first, TOKENS["ann"])
        assert said["result"]["content"][0]["text"].startswith("ann: ann0")
        gone = (await world.ask(second, TOKENS["bob"], params={"name": "docs__log_in"}))["result"]
        assert gone["isError"]


async def test_an_upstream_that_policy_hides_is_no_login(world: World) -> None:
    policies = [{"who": ["*"], "allow": ["notes__*"]}]
    async with world.gateway(policies=policies) as (url, _):
        headers = {"Authorization": f"Bearer {TOKENS['bob']}"}
        async with world.http.get(f"{url}/v1/logins", headers=headers) as response:
            assert (response.status, await response.json()) == (200, {"logins": []})


async def test_a_provider_that_is_down_costs_new_logins_alone_and_the_page_says_why(
    world: World,
) -> None:
    oauth = world.client
    async with world.gateway(oauth=oauth) as (url, _), Browser(world, url) as browser:
        token = world.provider.sign(sub="ann", aud=f"{url}/mcp")
        await browser.connect("ann")
        assert "docs__only_ann" in await world.names(url, token)
        world.provider.away = True
        later = world.provider.sign(sub="ann", aud=f"{url}/mcp", jti="2")  # by keys that are kept
        assert "docs__only_ann" in await world.names(url, later)
        assert (await world.ask(url, later))["result"]["content"][0]["text"] == "ann: "
        async with Browser(world, url) as other:
            await other.click("identify", credential=TOKENS["bob"])
            status, text = await other.click("connect")
            assert status == 502
            assert f"{world.provider.url}/" in text
            assert "503" in text


async def test_what_rests_in_the_database_is_of_no_use_without_the_key(world: World) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        await browser.connect("ann")
        await world.ask(url, TOKENS["ann"])
    with sqlite3.connect(world.home / "armory.db") as database:
        (row,) = database.execute("SELECT * FROM logins").fetchall()
    database.close()
    raw = b" ".join(str(part).encode() if not isinstance(part, bytes) else part for part in row)
    (refresh,) = world.provider.refresh_tokens
    for secret in (refresh.encode(), b"ann", b"eyJ"):
        assert secret not in raw
    assert (world.home / "key").exists() is False
    for keys in (["another-key-of-sixteen", KEY], ["another-key-of-sixteen"]):  # a rotation
        async with world.gateway(encryption_key=keys) as (url, _):
            assert "docs__note" in await world.names(url, TOKENS["ann"])
    async with world.gateway(encryption_key="a-third-key-of-sixteen") as (url, _):
        with capture_logs() as logs:
            for _ in range(2):
                assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]
                await world.ask(url, TOKENS["ann"])
            assert await world.names(url, TOKENS["bob"]) == ["docs__log_in"]
        told = [entry["upstream"] for entry in logs if entry["event"] == "logins_not_readable"]
        assert told == ["docs"]  # once, however often it is met


async def test_a_refused_token_is_refreshed_once_by_one_replica(world: World) -> None:
    async with AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(world.gateway()))[0] for _ in range(2)]
        world.provider.lifetime = 0
        async with Browser(world, urls[0]) as browser:
            await browser.connect("ann")
        world.provider.lifetime = 600
        await asyncio.gather(*(world.names(url, TOKENS["ann"]) for url in urls for _ in range(3)))
        await asyncio.gather(*(world.ask(url, TOKENS["ann"]) for url in urls for _ in range(5)))
        refreshed = [f for f in world.provider.forms if f["grant_type"] == "refresh_token"]
        assert len({form["refresh_token"] for form in refreshed}) == len(refreshed)
        assert 1 <= len(refreshed) <= 2


# -- attacks --------------------------------------------------------------------------------------


async def test_a_link_sent_to_somebody_else_connects_that_ones_account_to_that_one(
    world: World,
) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as victim:
        await victim.connect("bob")  # on a link that ann was given
        assert await world.names(url, TOKENS["ann"]) == ["docs__log_in"]
        assert "docs__only_bob" in await world.names(url, TOKENS["bob"])


async def test_a_login_belongs_to_the_browser_that_began_it_and_counts_once(world: World) -> None:
    async with (
        world.gateway() as (url, _),
        Browser(world, url) as ann,
        Browser(world, url) as bob,
    ):
        world.provider.user = "ann"
        await ann.click("identify", credential=TOKENS["ann"])
        await bob.click("identify", credential=TOKENS["bob"])
        _, away = await ann.click("connect", follow=False)
        async with world.http.get(away, allow_redirects=False) as sent:
            back = sent.headers["Location"]
        status, _ = await bob.get(back)  # ann's code in bob's browser
        assert status == 400
        await bob.click("connect", follow=False)
        status, _ = await bob.get(back)
        assert status == 400
        status, _ = await ann.get(back.replace("state=", "state=x"))
        assert status == 400
        await ann.click("connect", follow=False)
        status, _ = await ann.get(back)  # a state of an earlier login
        assert status == 400
        assert await world.names(url, TOKENS["bob"]) == ["docs__log_in"]


async def test_the_person_in_the_browser_may_not_change_meanwhile(world: World) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        await browser.click("identify", credential=TOKENS["ann"])
        _, away = await browser.click("connect", follow=False)
        async with world.http.get(away, allow_redirects=False) as sent:
            back = sent.headers["Location"]
        await browser.click("identify", credential=TOKENS["bob"])
        status, _ = await browser.get(back)
        assert status == 403
        for token in TOKENS.values():
            assert await world.names(url, token) == ["docs__log_in"]


async def test_another_issuers_answer_is_not_taken(world: World) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        await browser.click("identify", credential=TOKENS["ann"])
        _, away = await browser.click("connect", follow=False)
        async with world.http.get(away, allow_redirects=False) as sent:
            back = sent.headers["Location"]
        mixed = re.sub(r"iss=[^&]+", "iss=https://evil.example", back)
        status, text = await browser.get(mixed)
        assert status == 502
        assert "evil.example" in text
        assert not [f for f in world.provider.forms if f["grant_type"] == "authorization_code"]


async def test_other_sites_can_press_no_button_and_frame_no_page(world: World) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        page = f"{url}/connect/docs"
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {}):
            form = {"action": "identify", "credential": TOKENS["ann"]}
            async with browser.http.post(page, data=form, headers=headers) as response:
                assert response.status == 403
                assert "Set-Cookie" not in response.headers
        async with browser.http.get(page) as response:
            assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
            assert response.headers["Cache-Control"] == "no-store"
        async with browser.http.get(page, headers={"Host": "evil.example"}) as response:
            assert response.status == 403
        for data, kind in ((long_form(), FORM), (b"{}", "application/json")):
            headers = {"Origin": url, "Content-Type": kind}
            async with browser.http.post(page, data=data, headers=headers) as response:
                assert response.status == 413
        status, text = await browser.click("identify", credential="no-such-credential")
        assert status == 403
        assert "no-such-credential" not in text
        status, location = await browser.click("leave", follow=False)
        assert (status, location) == (200, "")


async def test_which_servers_there_are_is_told_to_nobody_unknown(world: World) -> None:
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        pages = [await browser.get(f"{url}/connect/{name}") for name in ("docs", "nothing")]
        assert pages[0] == (200, pages[1][1].replace("nothing", "docs"))
        forms: list[Any] = []
        for name in ("docs", "nothing"):
            form = {"action": "identify", "credential": "no-such-credential"}
            to, headers = f"{url}/connect/{name}", {"Origin": url}
            async with browser.http.post(to, data=form, headers=headers) as response:
                forms.append((response.status, (await response.text()).replace(name, "docs")))
        assert forms[0] == forms[1]
        for name in ("Docs", "a%0d%0ab", "docs__x"):
            assert (await browser.get(f"{url}/connect/{name}"))[0] == 404
        await browser.connect("ann")
        assert (await browser.get(f"{url}/connect/nothing"))[0] == 404


async def test_whoever_logs_in_at_the_gateways_issuer_is_that_one_in_the_browser(
    world: World,
) -> None:
    oauth = world.client
    async with world.gateway(oauth=oauth) as (url, _), Browser(world, url) as browser:
        token = world.provider.sign(sub="ann", aud=f"{url}/mcp")
        assert await world.names(url, token) == ["docs__log_in"]
        world.provider.user = "ann"
        status, text = await browser.click("sign-in")
        assert status == 200
        assert "You are <b>ann</b>" in text
        assert "Connected" in (await browser.click("connect"))[1]
        newer = world.provider.sign(sub="ann", aud=f"{url}/mcp", jti="2")
        assert "docs__only_ann" in await world.names(url, newer)


# -- tokens of the caller -------------------------------------------------------------------------
