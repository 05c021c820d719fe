"""An upstream that the configuration dropped while a snapshot still shows it."""

from __future__ import annotations

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.errors import UpstreamUnavailable
from armory.gateway.gateway import Gateway
from armory.gateway.settings import GatewaySettings
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool

pytestmark = pytest.mark.anyio


class Emptied(ScriptedPool):
    """A pool that knows none of its upstreams any more."""

    def key(self, server: str, owner: Owner) -> str:
        raise UpstreamUnavailable(f"there is no upstream {server!r}", upstream=server)


async def test_a_call_to_it_is_answered_from_the_table_of_errors() -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        return result({"content": []})

    pool = Emptied({"up": ScriptedUpstream(ServerLists(tools=[tool("t", "")]), answer)})
    gateway = Gateway(pool, settings=GatewaySettings(personal={"up": "always"}))
    gateway.publish(pool.catalog())
    body = modern_body(1, "tools/call", {"name": "up__t", "arguments": {}})
    async with (
        serving(gateway) as (url, _),
        aiohttp.ClientSession() as http,
        http.post(url + "/mcp", json=body, headers=modern_headers(body)) as response,
    ):
        assert response.status == 200
        message = (await messages(response))[-1]
    assert message["id"] == 1
    assert message["error"]["code"] == 1001
    assert message["error"]["data"] == {"code": "upstream_unavailable", "upstream": "up"}
