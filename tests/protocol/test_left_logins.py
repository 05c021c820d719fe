"""A browser that leaves in the middle of a login, or comes again, loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from armory.testing.oauth_client import App
from armory.testing.people import TOKENS, Browser, World
from armory.testing.waiting import eventually

pytestmark = pytest.mark.anyio


async def loaded_again(
    world: World, get: Callable[[str], Coroutine[Any, Any, tuple[int, str]]], back: str
) -> tuple[int, str]:
    """What a page says that is loaded again after it was left while the provider was asked."""
    asked, may_answer = world.provider.held = asyncio.Event(), asyncio.Event()
    leaving = asyncio.create_task(get(back))
    await asked.wait()
    leaving.cancel()
    await asyncio.wait([leaving])
    again = asyncio.create_task(get(back))
    answered, _ = await asyncio.wait([again], timeout=0.5)
    assert not answered
    may_answer.set()
    return await again


async def test_a_login_whose_page_is_loaded_again_is_finished_once(world: World) -> None:
    """A code works once, and what it was exchanged for would be nobody's."""
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        world.provider.user = "ann"
        await browser.click("identify", credential=TOKENS["ann"])
        _, login = await browser.click("connect", follow=False)
        async with world.http.get(login, allow_redirects=False) as sent:
            back = sent.headers["Location"]
        async with asyncio.timeout(20):
            status, text = await loaded_again(world, browser.get, back)
            assert (status, "Connected" in text) == (200, True), text
            assert (await browser.get(back))[0] == 400
            assert "docs__note" in await world.names(url, TOKENS["ann"])
        assert len(world.provider.forms) == 1


async def test_a_login_that_nobody_waits_for_is_finished(world: World) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    async with world.gateway() as (url, _), Browser(world, url) as browser:
        world.provider.user = "ann"
        await browser.click("identify", credential=TOKENS["ann"])
        _, login = await browser.click("connect", follow=False)
        world.provider.held = asked, may_answer
        leaving = asyncio.create_task(browser.get(login))
        await asyncio.wait_for(asked.wait(), 20)
        leaving.cancel()
        await asyncio.wait([leaving])
        may_answer.set()

        async def connected() -> bool:
            return "docs__note" in await world.names(url, TOKENS["ann"])

        await eventually(connected)


async def test_a_login_at_the_gateway_whose_page_is_loaded_again_is_finished_once(
    world: World,
) -> None:
    async with world.gateway(oauth={"proxy": world.client}) as (url, _), App(url) as app:
        world.provider.user = "ann"
        await app.register()
        _, login = await app.press((await app.authorize())[1])
        _, back = await app.get(login)
        async with asyncio.timeout(20):
            status, place = await loaded_again(world, app.get, back)
        assert (status, "code=" in place) == (303, True), place
        assert len(world.provider.forms) == 1
