"""What neither side of an upstream's own endpoint had Armory know passes there, both ways."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw

from armory.protocol.link import RESOURCE_META, Call, Owner, Reply
from armory.protocol.scanning.taking_apart import MOST_MEMBERS
from armory.security.policy import Policy, Rule
from armory.testing.clients.raw import LegacyClient
from armory.testing.front import plain, raws
from armory.testing.waiting import until

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
ASKED = {"q": [1.5, None], "uri": "file:///readme"}


async def say(client: LegacyClient, method: str, params: dict[str, Any] | None = None) -> None:
    body = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
    assert (await client.send(body))[0] == 202


async def asking(call: Call, owner: Owner) -> Reply:
    del owner
    assert call.client is not None
    answer = await call.client.ask("vendor/ask", raws(ASKED))
    return Reply(answer.result, answer.error, era="legacy")


async def test_what_a_client_says_reaches_the_one_server_of_its_endpoint(front: Front) -> None:
    aggregated = await front.start_legacy()
    await say(aggregated, "notifications/vendor", {"to": "nobody in particular"})
    client = await front.start_legacy(path="/mcp/old")
    await say(client, "notifications/tasks/status", {"taskId": "1"})
    said = {"uri": "file:///a", "n": [1.5], "_meta": {"x/y": 1}}
    await say(client, "notifications/vendor", said)
    wide = {f"k{number}": "x" * 200 for number in range(MOST_MEMBERS + 1)}
    await say(client, "notifications/vendor/wide", wide)  # is not opened, so it cannot be said
    await say(client, "notifications/vendor/more")
    await until(lambda: len(front.pool.notified) == 2)
    told = [
        (server, owner.session_id, method, plain(params))
        for server, owner, method, params in front.pool.notified
    ]
    assert told == [
        ("old", client.session, "notifications/vendor", said),
        ("old", client.session, "notifications/vendor/more", {}),
    ]


async def test_it_is_for_those_who_see_all_of_the_server(front: Front) -> None:
    client = await front.start_legacy(path="/mcp/old")
    front.gateway.reconfigure(policy=Policy([Rule(allow=("old__now",))]))
    await say(client, "notifications/vendor", {"n": 1})
    front.gateway.reconfigure(policy=Policy([Rule(allow=("old*",))]))
    await say(client, "notifications/vendor", {"n": 2})
    await until(lambda: len(front.pool.notified) > 0)
    assert [plain(params) for *_, params in front.pool.notified] == [{"n": 2}]


async def test_what_a_subscription_says_for_its_server_goes_on(front: Front) -> None:
    heard: list[tuple[str, Raw] | None] = []
    usual = front.pool.set_subscriptions

    async def noting(
        server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        heard.append(RESOURCE_META.get())
        await usual(server, owner, uris, again)

    front.pool.set_subscriptions = noting
    client = await front.start_legacy()
    uri = {"uri": "old+file:///readme"}
    meta = {"x/y": {"kept": 1.5}, "progressToken": 3, "dev.armory/query": "q"}
    for method in ("resources/subscribe", "resources/unsubscribe"):
        await client.request(method, {**uri, "_meta": meta})
    await client.request("resources/subscribe", uri)
    said = [None if one is None else (one[0], plain({"": one[1]})[""]) for one in heard]
    assert said == [*2 * [("file:///readme", {"x/y": {"kept": 1.5}})], None]


async def test_a_client_is_asked_what_armory_does_not_know(front: Front) -> None:
    front.pool.upstreams["old"].answer = asking
    client = await front.start_legacy(path="/mcp/old")
    params = {"name": "now", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    found: list[dict[str, Any]] = []
    async with (
        asyncio.timeout(20),
        front.http.post(client.url, json=body, headers=client.headers) as response,
    ):
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            message = msgspec.json.decode(line.removeprefix(b"data: "))
            found.append(message)
            if message.get("method") == "vendor/ask":
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"kept": 1.5}}
                assert (await client.send(answer))[0] == 202
    assert [one.get("method") for one in found] == ["vendor/ask", None]
    assert found[0]["params"] == ASKED
    assert (found[1]["id"], found[1]["result"]) == (7, {"kept": 1.5})


@pytest.mark.parametrize(("path", "method"), [("/mcp", "vendor/ask"), ("/mcp/old", "roots/list")])
async def test_elsewhere_and_of_what_is_known_only_what_was_declared_is_asked(
    front: Front, path: str, method: str
) -> None:
    async def asks(call: Call, owner: Owner) -> Reply:
        del owner
        assert call.client is not None
        answer = await call.client.ask(method, {"a": Raw(b"1")})
        return Reply(answer.result, answer.error, era="legacy")

    front.pool.upstreams["old"].answer = asks
    client = await front.start_legacy(path=path)
    name = "now" if path == "/mcp/old" else "old__now"
    answer = await client.request("tools/call", {"name": name, "arguments": {}})
    assert answer["error"]["code"] == -32601
