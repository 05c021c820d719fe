"""`notifications/groups/list_changed`: for whoever declares groups, where they are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest

from armory.gateway.settings import GROUPS
from armory.protocol.capabilities import GROUPS_EXTENSION
from armory.protocol.methods import GROUPS_CHANGED, PROMPTS_CHANGED, TOOLS_CHANGED
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import tool

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
DECLARED: dict[str, Any] = {"extensions": {GROUPS_EXTENSION: {}}}
WANTED = {"groupsListChanged": True, "toolsListChanged": True, "promptsListChanged": True}
CASES = [(True, DECLARED), (True, {}), (False, DECLARED)]


async def said(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The messages of a stream."""
    async for line in response.content:
        if line.startswith(b"data:") and b"{" in line:
            yield msgspec.json.decode(line[5:])


async def heard(front: Front, stream: AsyncIterator[dict[str, Any]]) -> list[str]:
    """What is told of one tool more, until a prompt that goes away is told of."""
    upstream = front.pool.upstreams["new"]
    upstream.lists = replace(upstream.lists, tools=[*upstream.lists.tools, tool("more", "more")])
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
    upstream.lists = replace(upstream.lists, prompts=[])
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
    methods: list[str] = []
    async with asyncio.timeout(30):
        while PROMPTS_CHANGED not in methods:
            methods.append((await anext(stream))["method"])
    return methods


def configured(front: Front, *, served: bool) -> None:
    settings = front.gateway.view.settings
    served_drafts = frozenset({GROUPS}) if served else frozenset[Any]()
    front.gateway.reconfigure(settings=replace(settings, experimental=served_drafts))


@pytest.mark.parametrize(("served", "declared"), CASES)
async def test_a_modern_client_hears_of_groups_that_it_declares_and_that_are_served(
    front: Front, served: bool, declared: dict[str, Any]
) -> None:
    configured(front, served=served)
    body = modern_body(
        "sub", "subscriptions/listen", {"notifications": WANTED}, capabilities=declared
    )
    headers = modern_headers(body)
    async with front.http.post(front.url + "/mcp", json=body, headers=headers) as response:
        stream = said(response)
        honoured = (await anext(stream))["params"]["notifications"]
        methods = await heard(front, stream)
    groups = served and bool(declared)
    assert honoured == {name: True for name in WANTED if groups or not name.startswith("group")}
    assert methods == [TOOLS_CHANGED, *[GROUPS_CHANGED] * groups, PROMPTS_CHANGED]


@pytest.mark.parametrize(("served", "declared"), CASES)
async def test_a_legacy_session_likewise(
    front: Front, served: bool, declared: dict[str, Any]
) -> None:
    configured(front, served=served)
    client = await front.start_legacy(capabilities=declared)
    async with front.http.get(client.url, headers=client.headers) as response:
        methods = await heard(front, said(response))
    groups = served and bool(declared)
    assert methods == [TOOLS_CHANGED, *[GROUPS_CHANGED] * groups, PROMPTS_CHANGED]
