"""An upstream that the configuration dropped while a snapshot still shows it."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.gateway.settings import GatewaySettings
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool

pytestmark = pytest.mark.anyio


async def test_a_call_to_it_is_answered_from_the_table_of_errors() -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        return result({"content": []})

    lists = ServerLists(tools=[tool("t", "")], prompts=[{"name": "p"}])
    pool = ScriptedPool({key: ScriptedUpstream(lists, answer) for key in ("up", "other")})
    gateway = Gateway(pool, settings=GatewaySettings(personal={"up": "always"}))
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, _), aiohttp.ClientSession() as http:

        async def asked(method: str, name: str) -> Any:
            body = modern_body(1, method, {"name": name, "arguments": {}})
            headers = modern_headers(body)
            async with http.post(url + "/mcp", json=body, headers=headers) as response:
                assert response.status == 200
                return (await messages(response))[-1]

        await asked("tools/call", "up__t")  # its lists are there
        del pool.upstreams["up"]
        message = await asked("prompts/get", "up__p")
        assert message["error"]["code"] == 1001
        assert message["error"]["data"] == {"code": "upstream_unavailable", "upstream": "up"}
        told = (await asked("tools/call", "up__t"))["result"]
        assert told["isError"]
        assert told["_meta"]["dev.armory/error"]["code"] == "upstream_unavailable"
        assert "isError" not in (await asked("tools/call", "other__t"))["result"]
