"""Updates of resources: each person hears of its own, which its own token subscribed to."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.people import TOKENS, Browser, World
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("exchanged", [False, True])
async def test_each_hears_of_its_own_resources_with_its_own_token(
    world: World, exchanged: bool
) -> None:
    issuer = world.provider.issuer
    auth, security = None, {}
    if exchanged:
        auth = {"type": "token_exchange", "issuer": issuer, "client_id": "armory"}
        auth |= {"client_secret": "armory-secret", "audience": world.upstream.url}
        security = {"oauth": {"issuer": issuer}}
    async with AsyncExitStack() as stack:
        url, runtime = await stack.enter_async_context(world.gateway(auth, **security))
        streams: dict[str, aiohttp.ClientResponse] = {}
        for name, token in TOKENS.items():
            if exchanged:
                token = world.provider.sign(sub=name, aud=f"{url}/mcp")
            else:
                async with Browser(world, url) as browser:
                    await browser.connect(name)
            assert f"docs__only_{name}" in await world.names(url, token)
            wanted = {
                "notifications": {"resourceSubscriptions": ["docs+me://notes", "docs+me://name"]}
            }
            body = modern_body(name, "subscriptions/listen", wanted)
            headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
            streams[name] = await stack.enter_async_context(
                world.http.post(f"{url}/mcp", json=body, headers=headers)
            )
            said = await news(streams[name])
            assert said["params"]["notifications"] == wanted["notifications"]
        assert set(world.upstream.listens) == set(TOKENS)
        await world.upstream.updated("ann", "notes")
        for name in TOKENS:
            await world.upstream.updated(name, "name")
        heard = {"ann": ["docs+me://notes", "docs+me://name"], "bob": ["docs+me://name"]}
        for name, uris in heard.items():
            for uri in uris:
                said = await news(streams[name])
                assert said["method"] == "notifications/resources/updated"
                assert said["params"]["uri"] == uri
        for stream in streams.values():
            stream.close()
        watches = runtime.gateway.changes.resources
        await until(lambda: len(watches) == 0, 30)  # each is ended with its person's token


async def news(stream: aiohttp.ClientResponse) -> dict[str, Any]:
    """The next message of a stream."""
    async with asyncio.timeout(30):
        async for line in stream.content:
            if line.startswith(b"data:") and b'"method"' in line:
                return json.loads(line[5:])
    raise AssertionError("the stream ended")
