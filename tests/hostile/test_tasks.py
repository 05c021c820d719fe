"""A task belongs to the principal who made it; to everybody else it does not exist."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway, Services
from armory.gateway.tasks.register import TaskRegister
from armory.protocol.capabilities import TASKS_EXTENSION
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.session_events import Notified
from armory.protocol.versions import Era
from armory.security.authentication import Authenticator, StaticToken
from armory.security.policy import Policy, Rule
from armory.storage.cache import Cache, MemoryCache
from armory.storage.redis_cache import RedisCache
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import (
    ScriptedPool,
    ScriptedUpstream,
    plain,
    raws,
    refused,
    result,
    serving,
    tool,
)
from armory.testing.processes import GatewayProcess
from armory.testing.servers import RedisServer

pytestmark = pytest.mark.anyio
NAMES = ("alice", "bob", "carol")
TOKENS = {name: f"{name}-{'t' * 40}" for name in NAMES}
SERVERS: dict[str, Era] = {"new": "modern", "old": "legacy"}
TAKES_TASKS = {"extensions": {TASKS_EXTENSION: {}}}
NEWS = {"new": "notifications/tasks", "old": "notifications/tasks/status"}


class SharedPool(ScriptedPool):
    """Every principal is served by the same upstream session (`isolation: shared`)."""

    def key(self, server: str, owner: Owner) -> str:
        del server, owner
        return ""


@dataclass
class Upstream:
    """A server whose every call becomes a task; it knows no principals."""

    era: Era
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    made: int = 0
    before: Callable[[str], None] | None = None

    async def __call__(self, call: Call, owner: Owner) -> Reply:
        params = plain(call.params)
        if call.method == "tools/call":
            self.made += 1
            task = {"taskId": f"t{self.made}", "status": "working", "ttl": 60_000}
            if self.before is not None:
                self.before(f"t{self.made}")
            made = {"task": task} if self.era == "legacy" else {"resultType": "task", **task}
            return result(made, self.era)
        self.asked.append((owner.principal.subject, call.method))
        if call.method == "tasks/list":
            known = [{"taskId": f"t{n + 1}", "status": "working"} for n in range(self.made)]
            return result({"tasks": known}, self.era)
        if call.method == "subscriptions/listen":
            assert call.client is not None
            await call.client.notify("notifications/subscriptions/acknowledged", call.params)
            await asyncio.Event().wait()
        if "taskId" not in params:
            return result({"secret": True}, self.era)
        if params["taskId"] not in {f"t{n + 1}" for n in range(self.made)}:
            return refused(-32602, "no such task", era=self.era)
        return result({"taskId": params["taskId"], "status": "completed"}, self.era)


@dataclass
class House:
    """A gateway for three principals, on one or several replicas."""

    urls: list[str]
    gateways: list[Gateway]
    upstreams: dict[str, Upstream]
    http: aiohttp.ClientSession
    count: int = 0

    async def modern(self, who: str, method: str, params: Any, path: str = "/mcp", at: int = 0):
        self.count += 1
        body = modern_body(self.count, method, params, None, TAKES_TASKS)
        headers = {**modern_headers(body), "Authorization": f"Bearer {TOKENS[who]}"}
        if "taskId" in params:
            headers["Mcp-Name"] = params["taskId"]
        async with self.http.post(self.urls[at] + path, json=body, headers=headers) as response:
            return (await messages(response))[-1]

    async def legacy(self, who: str, path: str = "/mcp", at: int = 0) -> LegacyClient:
        url = self.urls[at] + path
        client = LegacyClient(url, self.http, "2025-11-25", token=TOKENS[who])
        await client.initialize({})
        return client

    async def make(self, who: str, server: str, at: int = 0) -> str:
        """A task of somebody's, by its exposed id."""
        params = {"name": f"{server}__work", "arguments": {}}
        made = (await self.modern(who, "tools/call", params, at=at))["result"]
        return made.get("taskId") or made["task"]["taskId"]

    def tell(self, server: str, id: str, status: str = "working") -> None:
        params = raws({"taskId": id.removeprefix(f"{server}:"), "status": status})
        self.gateways[0].on_session_event(Notified(server, "", NEWS[server], params))


async def housed(stack: AsyncExitStack, stores: list[Cache | None], pool_of: Any) -> House:
    upstreams = {key: Upstream(era) for key, era in SERVERS.items()}
    tokens = [StaticToken(name, TOKENS[name], frozenset((name,))) for name in NAMES]
    urls: list[str] = []
    gateways: list[Gateway] = []
    for store in stores:
        lists = ServerLists(tools=[tool("work", "works")], capabilities={"tools": {}, "tasks": {}})
        pool = pool_of(
            {key: ScriptedUpstream(lists, upstreams[key], SERVERS[key]) for key in SERVERS}
        )
        gateway = Gateway(pool, services=Services(tasks=TaskRegister(store)))
        gateway.publish(pool.catalog())
        checks = Authenticator(tokens, allow_anonymous=False)
        url, _ = await stack.enter_async_context(serving(gateway, checks))
        urls.append(url)
        gateways.append(gateway)
    http = await stack.enter_async_context(aiohttp.ClientSession())
    return House(urls, gateways, upstreams, http)


@pytest.fixture(params=[SharedPool, ScriptedPool], ids=["shared", "principal"])
async def house(request: Any) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        yield await housed(stack, [None], request.param)


@pytest.fixture
async def shared() -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        yield await housed(stack, [None], SharedPool)


def unknown(answer: dict[str, Any], id: str) -> bool:
    error = answer["error"]
    told = (error["code"], error["message"], error["data"])
    return told == (-32602, f"unknown task: {id}", {"taskId": id})


@pytest.mark.parametrize("server", SERVERS)
async def test_nobody_else_reaches_a_task(house: House, server: str) -> None:
    id = await house.make("alice", server)
    original = id.removeprefix(f"{server}:")
    for path, name in (("/mcp", id), (f"/mcp/{server}", original)):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert unknown(await house.modern("bob", method, {"taskId": name}, path), name)
        bob = await house.legacy("bob", path)
        for method in ("tasks/get", "tasks/cancel", "tasks/result"):
            assert unknown(await bob.request(method, {"taskId": name}), name)
            assert unknown(await bob.request(method, {"taskId": name + "x"}), name + "x")
    assert house.upstreams[server].asked == []
    for path, name in (("/mcp", id), (f"/mcp/{server}", original)):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            answer = await house.modern("alice", method, {"taskId": name}, path)
            assert answer["result"]["taskId"] == name
        alice = await house.legacy("alice", path)
        for method in ("tasks/get", "tasks/cancel", "tasks/result"):
            answer = await alice.request(method, {"taskId": name})
            assert answer["result"]["taskId"] == name
    assert {who for who, _ in house.upstreams[server].asked} == {"alice"}


@pytest.mark.parametrize("server", SERVERS)
async def test_a_task_of_a_server_that_policy_bars_does_not_exist(
    shared: House, server: str
) -> None:
    id = await shared.make("alice", server)
    original = id.removeprefix(f"{server}:")
    clients = [
        (await shared.legacy(who, path), name)
        for who in ("alice", "bob")
        for path, name in (("/mcp", id), (f"/mcp/{server}", original))
    ]
    rules = [Rule(who=("alice",), allow=("*",), deny=(f"{server}__*",)), Rule(who=("bob",))]
    shared.gateways[0].reconfigure(policy=Policy(rules))
    for who in ("alice", "bob"):
        assert unknown(await shared.modern(who, "tasks/get", {"taskId": id}), id)
        path, params = f"/mcp/{server}", {"taskId": original}
        assert "error" in await shared.modern(who, "tasks/get", params, path)
    for client, name in clients:
        for method in ("tasks/get", "tasks/cancel", "tasks/result"):
            assert "error" in await client.request(method, {"taskId": name})
        for method in ("tasks/list", "vendor/secrets"):
            assert "error" in await client.request(method)
    assert shared.upstreams[server].asked == []
    shared.gateways[0].reconfigure(policy=Policy())
    assert "result" in await shared.modern("alice", "tasks/get", {"taskId": id})


async def test_lists_of_tasks_hold_ones_own(shared: House) -> None:
    await shared.make("alice", "old")
    await shared.make("bob", "old")
    for who, own in (("alice", ["t1"]), ("bob", ["t2"]), ("carol", [])):
        client = await shared.legacy(who, "/mcp/old")
        listed = (await client.request("tasks/list"))["result"]["tasks"]
        assert [task["taskId"] for task in listed] == own
    bob = await shared.legacy("bob", "/mcp/old")
    assert unknown(await bob.request("tasks/pause", {"taskId": "t1"}), "t1")


async def stream(house: House, who: str, **request: Any) -> aiohttp.ClientResponse:
    headers = {
        "Authorization": f"Bearer {TOKENS[who]}",
        "Accept": "application/json, text/event-stream",
        **request.pop("headers"),
    }
    url = house.urls[0] + "/mcp"
    response = await house.http.request(request.pop("method"), url, headers=headers, **request)
    assert response.status == 200
    return response


async def frame(response: aiohttp.ClientResponse) -> Any:
    """The next message of a stream."""
    async with asyncio.timeout(10):
        while True:
            line = (await response.content.readline()).decode().strip()
            if line.startswith("data:") and len(line) > 5:
                return msgspec.json.decode(line[5:])


@pytest.mark.parametrize("server", SERVERS)
async def test_only_its_maker_hears_of_a_task(shared: House, server: str) -> None:
    hers, his = await shared.make("alice", server), await shared.make("bob", server)
    heard: dict[str, list[aiohttp.ClientResponse]] = {"alice": [], "bob": []}
    for who, own in (("alice", hers), ("bob", his)):
        client = await shared.legacy(who)
        session = {"Mcp-Session-Id": client.session, "MCP-Protocol-Version": client.version}
        heard[who].append(await stream(shared, who, method="GET", headers=session))
        wanted = {"notifications": {"taskIds": [hers, his, "none:1"]}}
        body = modern_body(f"{who}-sub", "subscriptions/listen", wanted, None, TAKES_TASKS)
        listening = await stream(
            shared, who, method="POST", headers=modern_headers(body), json=body
        )
        assert (await frame(listening))["params"]["notifications"]["taskIds"] == [own]
        heard[who].append(listening)
    shared.tell(server, hers)
    shared.tell(server, "nobody's")
    shared.tell(server, his)
    for who, own in (("alice", hers), ("bob", his)):
        for response in heard[who]:
            told = await frame(response)
            assert (told["method"], told["params"]["taskId"]) == (NEWS[server], own)
    rules = [Rule(who=("alice",), allow=("*",)), Rule(who=("bob",), allow=("none__*",))]
    shared.gateways[0].reconfigure(policy=Policy(rules))
    shared.tell(server, his, "barred")
    shared.tell(server, hers, "completed")
    shared.gateways[0].reconfigure(policy=Policy())
    shared.tell(server, his, "completed")
    for who in ("alice", "bob"):
        assert (await frame(heard[who][1]))["params"]["status"] == "completed"
        for response in heard[who]:
            response.close()


async def test_news_that_comes_before_the_result_is_heard(shared: House) -> None:
    client = await shared.legacy("alice")
    session = {"Mcp-Session-Id": client.session, "MCP-Protocol-Version": client.version}
    response = await stream(shared, "alice", method="GET", headers=session)
    shared.upstreams["old"].before = lambda id: shared.tell("old", id)
    id = await shared.make("alice", "old")
    assert (await frame(response))["params"]["taskId"] == id
    response.close()


def caches(stack: AsyncExitStack, redis: RedisServer, prefix: str) -> list[Cache | None]:
    made = [RedisCache(redis.url, prefix=prefix) for _ in range(2)]
    for cache in made:
        stack.push_async_callback(cache.aclose)
    return [*made]


@pytest.mark.redis
@pytest.mark.parametrize("server", SERVERS)
async def test_a_replica_knows_whose_a_task_is(redis: RedisServer, server: str) -> None:
    async with AsyncExitStack() as stack:
        house = await housed(stack, caches(stack, redis, server), SharedPool)
        id = await house.make("alice", server, at=0)
        assert unknown(await house.modern("bob", "tasks/cancel", {"taskId": id}, at=1), id)
        client = await house.legacy("bob", at=1)
        assert unknown(await client.request("tasks/result", {"taskId": id}), id)
        assert "result" in await house.modern("alice", "tasks/get", {"taskId": id}, at=1)
        client = await house.legacy("alice", at=1)
        assert "result" in await client.request("tasks/result", {"taskId": id})


@pytest.mark.redis
async def test_while_the_store_is_away_a_replica_knows_its_own(redis: RedisServer) -> None:
    async with AsyncExitStack() as stack:
        house = await housed(stack, caches(stack, redis, "away"), SharedPool)
        id = await house.make("alice", "old")
        redis.pause()
        try:
            assert "result" in await house.modern("alice", "tasks/get", {"taskId": id})
            assert unknown(await house.modern("bob", "tasks/get", {"taskId": id}), id)
            answer = await house.modern("alice", "tasks/get", {"taskId": id}, at=1)
            assert answer["error"]["code"] == 1004
        finally:
            redis.resume()


async def test_replicas_in_one_process_share_a_store() -> None:
    async with AsyncExitStack() as stack:
        store = MemoryCache()
        house = await housed(stack, [store, store], SharedPool)
        id = await house.make("alice", "new", at=0)
        assert unknown(await house.modern("bob", "tasks/get", {"taskId": id}, at=1), id)
        assert "result" in await house.modern("alice", "tasks/get", {"taskId": id}, at=1)


SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked["method"], asked.get("id")
    if id is None:
        continue
    task = {"taskId": "t1", "status": "working", "ttl": None}
    answer = {
        "initialize": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "x"},
            "capabilities": {"tools": {}}},
        "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
        "tools/call": {"task": task},
        "tasks/get": task,
    }.get(method)
    result = {"result": answer} if answer else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": id, **result}), flush=True)
"""


@pytest.mark.redis
async def test_gateways_on_one_redis_know_whose_a_task_is(
    redis: RedisServer, tmp_path: Path
) -> None:
    config = {
        "upstreams": {
            "old": {"command": sys.executable, "args": ["-c", SERVER], "isolation": "shared"}
        },
        "storage": {"redis": f"{redis.url}/3"},
        "tool_rag": {"enabled": False},
        "security": {
            "allow_anonymous": False,
            "tokens": {name: {"token": token} for name, token in TOKENS.items()},
        },
    }
    with ExitStack() as processes:
        urls: list[str] = []
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            gateway = processes.enter_context(GatewayProcess(config, folder))
            assert isinstance(gateway, GatewayProcess)
            urls.append(gateway.url)
        async with aiohttp.ClientSession() as http:
            house = House(urls, [], {}, http)
            id = await house.make("alice", "old", at=0)
            assert unknown(await house.modern("bob", "tasks/get", {"taskId": id}, at=1), id)
            answer = await house.modern("alice", "tasks/get", {"taskId": id}, at=1)
            assert answer["result"]["taskId"] == id
