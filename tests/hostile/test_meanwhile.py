"""What has changed meanwhile holds for what comes next: scopes of a caller, rules, a spent rate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import Principal
from armory.errors import RateLimited
from armory.gateway.gateway import Gateway, Services
from armory.gateway.ports import Hold
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.session_events import Notified
from armory.security.authentication import Authenticator, StaticToken
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import (
    FORM,
    Answering,
    ScriptedPool,
    ScriptedUpstream,
    raws,
    result,
    serving,
    tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
WIDE, NARROW = "a-token-with-all-scopes", "a-token-with-one-scope"
TOKENS = (
    StaticToken("ann", WIDE, frozenset(("read", "write"))),
    StaticToken("ann", NARROW, frozenset(("read",))),
)
RULES = [Rule(("read",), ("up__see", "up+*")), Rule(("write",), ("up__change",))]
UPDATED = "notifications/resources/updated"


async def answer(_call: Call, _owner: Owner) -> Reply:
    return result({"content": [{"type": "text", "text": "done"}]})


async def asks(call: Call, _owner: Owner) -> Reply:
    assert call.client is not None
    await call.client.ask("elicitation/create", raws(FORM))
    return result({"content": [{"type": "text", "text": "a secret"}], "messages": []})


@asynccontextmanager
async def gateway_of(
    services: Services | None = None, answer: Answering = answer
) -> AsyncGenerator[tuple[Gateway, str, Any]]:
    lists = ServerLists(
        tools=[tool("see", "shows"), tool("change", "changes"), tool("other", "is another one")],
        prompts=[{"name": "greet"}],
        resources=[{"uri": "mem://one", "name": "one"}],
        capabilities={"tools": {}, "resources": {"subscribe": True}},
    )
    pool = ScriptedPool({"up": ScriptedUpstream(lists, answer)})
    gateway = Gateway(pool, policy=Policy(RULES), services=services)
    gateway.publish(pool.catalog())
    checks = Authenticator(TOKENS, allow_anonymous=False)
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(serving(gateway, checks))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield gateway, url, http


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_message_over_sse_has_the_scopes_that_it_comes_with() -> None:
    async with (
        gateway_of() as (_, url, http),
        http.get(f"{url}/sse", headers=bearer(WIDE)) as stream,
    ):

        async def data() -> str:
            async with asyncio.timeout(20):
                while not (line := await stream.content.readline()).startswith(b"data: "):
                    pass
            return line[6:].decode().strip()

        to = url + await data()

        async def ask(token: str, method: str, **params: Any) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with http.post(to, json=body, headers=bearer(token)) as taken:
                assert taken.status == 202
            return json.loads(await data())

        async def listed(token: str) -> list[str]:
            answered = await ask(token, "tools/list")
            return [one["name"] for one in answered["result"]["tools"]]

        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
        await ask(WIDE, "initialize", **hello)
        assert await listed(WIDE) == ["up__see", "up__change"]
        assert await listed(NARROW) == ["up__see"]
        refused = await ask(NARROW, "tools/call", name="up__change", arguments={})
        assert refused["error"]["code"] == -32602
        assert "result" in await ask(WIDE, "tools/call", name="up__change", arguments={})


async def test_who_may_not_read_a_resource_any_more_hears_nothing_of_it() -> None:
    async with gateway_of() as (gateway, url, http):
        client = LegacyClient(f"{url}/mcp", http, "2025-11-25", token=WIDE)
        await client.initialize({})
        await client.request("resources/subscribe", {"uri": "up+mem://one"})
        headers = {**client.headers, "Accept": "text/event-stream"}
        async with http.get(client.url, headers=headers) as stream:
            key = gateway.pool.key("up", Owner(Principal("ann")))

            def announce() -> None:
                gateway.on_session_event(Notified("up", key, UPDATED, raws({"uri": "mem://one"})))

            async def heard() -> str:
                async with asyncio.timeout(20):
                    while b"method" not in (line := await stream.content.readline()):
                        pass
                return json.loads(line[6:])["method"]

            announce()
            assert await heard() == UPDATED
            rules = [Rule(("read",), ("up__see",))]
            gateway.reconfigure(policy=Policy(rules))
            announce()
            gateway.reconfigure(policy=Policy([*rules, Rule(("read",), ("up__change",))]))
            since: list[str] = []
            while since.count("notifications/tools/list_changed") < 2:
                since.append(await heard())
            assert UPDATED not in since


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    ("path", "method", "params"),
    [
        ("/mcp", "tools/call", {"name": "up__see", "arguments": {}}),
        ("/mcp", "tools/call", {"name": "call_tool", "arguments": {"name": "up__see"}}),
        ("/mcp/up", "tools/call", {"name": "see", "arguments": {}}),
        ("/mcp", "prompts/get", {"name": "up__greet"}),
        ("/mcp/up", "prompts/get", {"name": "greet"}),
        ("/mcp", "resources/read", {"uri": "up+mem://one"}),
        ("/mcp/up", "resources/read", {"uri": "mem://one"}),
    ],
)
async def test_a_call_that_waits_for_its_client_ends_where_it_is_not_allowed_any_more(
    path: str, method: str, params: dict[str, Any], listed: bool
) -> None:
    before = Rule(("read",), ("up__see", "up__greet", "up+*", "up__last"))
    rest = {"up": ServerLists(tools=[tool("last", "is left"), tool("other", "is another one")])}
    after = Rule(("read",), ("up__other",))
    async with gateway_of(answer=asks) as (gateway, url, http):
        gateway.reconfigure(policy=Policy([before]))

        async def ask(**more: Any) -> Any:
            capabilities = {"elicitation": {"form": {}}}
            body = modern_body(1, method, {**params, **more}, capabilities=capabilities)
            headers = {**modern_headers(body), **bearer(NARROW)}
            async with http.post(f"{url}{path}", json=body, headers=headers) as answered:
                return (await messages(answered))[-1]

        async def waits() -> dict[str, Any]:
            asked = (await ask())["result"]
            answers = {key: {"action": "accept", "content": {}} for key in asked["inputRequests"]}
            return {"requestState": asked["requestState"], "inputResponses": answers}

        back = await waits()
        gateway.reconfigure(policy=Policy([before, Rule(("write",), ("up__change",))]))
        assert "result" in await ask(**back)
        back, whole = await waits(), gateway.view.catalog
        if not listed:
            gateway.publish(build_catalog(rest, previous=whole)[0])
            assert "result" in await ask(**back), "what is not listed any more goes on"
            gateway.publish(whole)
            back = await waits()
            gateway.publish(build_catalog(rest, previous=whole)[0])
        gateway.reconfigure(policy=Policy([after, Rule((), ("up__other",))]))
        assert (await ask(**back))["error"]["message"] == "Invalid or expired requestState"
        gateway.publish(whole)
        gateway.reconfigure(policy=Policy([before]))
        assert "error" in await ask(**back)  # it has ended


class Spent:
    """A rate that is used up."""

    async def acquire(self, principal: Principal, method: str, name: str) -> Hold | None:
        raise RateLimited("slow down", retry_after_s=1.0)

    async def take(self, principal: Principal) -> None:
        raise RateLimited("slow down", retry_after_s=1.0)


async def test_a_spent_rate_is_spent_for_subscriptions_as_well() -> None:
    async with gateway_of(Services(limiter=Spent())) as (gateway, url, http):
        client = LegacyClient(f"{url}/mcp", http, "2025-11-25", token=WIDE)
        await client.initialize({})
        refused = await client.request("resources/subscribe", {"uri": "up+mem://one"})
        assert refused["error"]["code"] == 1003
        wanted = {"notifications": {"resourceSubscriptions": ["up+mem://one"]}}
        body = modern_body(1, "subscriptions/listen", wanted)
        headers = {**modern_headers(body), **bearer(WIDE)}
        async with http.post(f"{url}/mcp", json=body, headers=headers) as answered:
            assert (await messages(answered))[-1]["error"]["code"] == 1003
        assert not gateway.pool.subscriptions  # pyright: ignore
