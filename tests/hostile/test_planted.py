"""Cookies that a server of a neighbouring name has planted in somebody's browser.

Such a server can set a cookie for both (`Domain=example.com`), of any name but those that begin
with `__Host-`.
"""

from __future__ import annotations

from collections.abc import Iterable

import aiohttp
import pytest

from armory.testing.oauth_client import App
from armory.testing.people import TOKENS, World

pytestmark = pytest.mark.anyio
OUTER = "https://tools.example"
FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "tools.example"}
SERVER = {"allowed_hosts": ["tools.example"], "trusted_proxies": ["127.0.0.1"]}


def of_answer(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: cookie.value for name, cookie in answer.cookies.items()}


def planted(cookies: dict[str, str]) -> dict[str, str]:
    """A header with the same values under names that anybody may set."""
    bare = ((name.removeprefix("__Host-"), value) for name, value in cookies.items())
    spelt = ((spelling, value) for name, value in bare for spelling in _spellings(name))
    return _header(spelt)


def _spellings(name: str) -> Iterable[str]:
    return name, name.rpartition("_")[0], f"__host-{name}"


def _header(cookies: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies)}


async def test_consent_that_somebody_else_gave_is_none(world: World) -> None:
    proxy = {"issuer": world.provider.issuer, "client_id": "armory"}
    proxy["client_secret"] = "armory-secret"
    async with (
        world.gateway(server=SERVER, oauth={"proxy": proxy}) as (url, _),
        App(url, FORWARDED) as app,
    ):
        await app.register()

        async def asked(cookies: dict[str, str]) -> tuple[int, str, dict[str, str]]:
            query = app.asking(resource=f"{OUTER}/mcp")
            async with app.http.get(
                f"{url}/oauth/authorize", params=query, headers=cookies, allow_redirects=False
            ) as shown:
                return shown.status, await shown.text(), of_answer(shown)

        status, page, browser = await asked({})
        assert status == 200
        sealed = page.partition('name="request" value="')[2].partition('"')[0]
        headers = {"Origin": OUTER, **_header(browser.items())}
        form = {"request": sealed, "action": "allow"}
        async with app.http.post(
            f"{url}/oauth/consent", data=form, headers=headers, allow_redirects=False
        ) as done:
            assert done.status == 303
            mine = of_answer(done)
        assert (await asked(_header(mine.items())))[0] == 303  # the one who agreed is remembered
        status, page, _ = await asked(planted(mine))
        assert (status, "wants to use this gateway" in page) == (200, True)


async def test_nobody_is_made_somebody_else_at_connect(world: World) -> None:
    async with world.gateway(server=SERVER) as (url, _), aiohttp.ClientSession() as http:
        page = f"{url}/connect/docs"
        headers = {**FORWARDED, "Origin": OUTER}
        form = {"action": "identify", "credential": TOKENS["ann"]}
        async with http.post(page, data=form, headers=headers, allow_redirects=False) as known:
            assert known.status == 303
            mine = of_answer(known)

        async def seen(cookies: dict[str, str]) -> str:
            async with http.get(page, headers={**FORWARDED, **cookies}) as shown:
                return await shown.text()

        assert "You are <b>ann</b>" in await seen(_header(mine.items()))
        assert "who are you here?" in await seen(planted(mine))
        headers |= _header(mine.items())
        async with http.post(page, data={"action": "leave"}, headers=headers) as left:
            (gone,) = left.cookies.values()
        assert (gone.key, gone["path"], gone["secure"], gone["max-age"]) == (
            *mine,
            "/",
            True,
            "0",
        )
