"""A resource that policy bars is barred however its URI is written, whatever is asked of it."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving

pytestmark = pytest.mark.anyio
BARRED = (
    "files+file:///public/../etc/passwd",
    "files+file:///public/%2e%2e/etc/passwd",
    "files+file:///public/%73ecret",
    "files+FILE:///public/secret",
    "files+file:///etc/passwd",
)


async def opens_everything(call: Call, _owner: Owner) -> Reply:
    contents = [{"uri": "file:///x", "text": "what was in it"}]
    return result({"contents": contents, "completion": {"values": []}})


async def test_other_spellings_open_nothing() -> None:
    lists = ServerLists(
        resources=[{"uri": "file:///public/a", "name": "a"}],
        capabilities={"resources": {"subscribe": True}, "completions": {}},
    )
    pool = ScriptedPool({"files": ScriptedUpstream(lists, opens_everything)})
    rule = Rule(allow=("files+*///public/*",), deny=("files+file:///public/secret",))
    gateway = Gateway(pool, policy=Policy([rule]))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            body = modern_body(1, method, params)
            async with http.post(f"{url}/mcp", json=body, headers=modern_headers(body)) as answer:
                return (await messages(answer))[-1]

        client = LegacyClient(f"{url}/mcp", http, "2025-11-25")
        await client.initialize({})
        assert "what was in it" in str(await ask("resources/read", uri="files+file:///public/a"))
        asked = len(pool.calls)
        for uri in BARRED:
            for answer in (
                await ask("resources/read", uri=uri),
                await ask("completion/complete", ref={"type": "ref/resource", "uri": uri}),
                await client.request("resources/read", {"uri": uri}),
                await client.request("resources/subscribe", {"uri": uri}),
            ):
                assert answer["error"]["message"] == f"unknown resource: {uri}"
        assert len(pool.calls) == asked
        assert not pool.subscriptions
