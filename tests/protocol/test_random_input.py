"""Random bodies and headers: always exactly one answer, and the gateway lives on."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import PREFIX, VERSION, messages
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool
from armory.testing.waiting import until

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
METHODS = st.sampled_from(
    [
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "completion/complete",
        "tasks/get",
        "logging/setLevel",
        "notifications/cancelled",
        "nope",
    ]
)
META = st.fixed_dictionaries(
    {},
    optional={
        f"{PREFIX}protocolVersion": st.sampled_from([VERSION, "2025-06-18", 3, None]),
        f"{PREFIX}clientCapabilities": st.just({"elicitation": {}}) | VALUES,
        "dev.armory/query": VALUES,
        "progressToken": VALUES,
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": META | VALUES,
        "name": st.sampled_from(["up__t", "call_tool", "search_tools", "x"]) | VALUES,
        "arguments": VALUES,
        "uri": VALUES,
        "requestState": VALUES,
        "inputResponses": VALUES,
        "protocolVersion": VALUES,
    },
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.integers() | st.text(max_size=4) | VALUES,
        "method": METHODS | VALUES,
        "params": PARAMS | VALUES,
    },
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "MCP-Protocol-Version": st.sampled_from([VERSION, "2025-06-18", "junk"]),
        "Mcp-Method": st.sampled_from(["tools/list", "tools/call", "x"]),
        "Mcp-Name": st.sampled_from(["up__t", "=?base64?!?=", "x"]),
        "Mcp-Session-Id": st.sampled_from(["nope", ""]),
        "Accept": st.sampled_from(["application/json", "text/event-stream", "*/*"]),
    },
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(BODIES | st.lists(BODIES, max_size=2), HEADERS), max_size=20))
def test_every_post_is_answered_once(posts: list[tuple[Any, dict[str, str]]]) -> None:
    asyncio.run(_post_all(posts))


async def _post_all(posts: list[tuple[Any, dict[str, str]]]) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        return result({"content": []})

    pool = ScriptedPool({"up": ScriptedUpstream(ServerLists(tools=[tool("t", "")]), answer)})
    gateway = Gateway(pool)
    gateway.publish(pool.catalog())
    async with serving(gateway) as (url, edge), aiohttp.ClientSession() as http:

        async def post(body: Any, headers: dict[str, str]) -> None:
            async with http.post(
                url + "/mcp",
                data=msgspec.json.encode(body),
                headers={**headers, "Content-Type": "application/json"},
            ) as response:
                assert response.status < 500
                if response.status != 202:
                    message: Any = (await messages(response))[0]
                    many: list[Any] = message if isinstance(message, list) else [message]
                    for one in many:
                        assert ("result" in one) != ("error" in one)
                        if isinstance(body, dict) and one["id"] is not None:
                            assert one["id"] == body["id"]

        async with asyncio.timeout(30):
            await asyncio.gather(*(post(body, headers) for body, headers in posts))
        await post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Mcp-Session-Id": "x"})
        assert edge.interactions.parked == 0
        assert len(edge.streams) == 0
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
