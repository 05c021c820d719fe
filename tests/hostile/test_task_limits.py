"""A caller that makes tasks without end.

Bounded: the tasks of each user, whatever credentials it comes with, those that calls under way may
make among them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway, Services
from armory.gateway.tasks.register import TaskRegister
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.versions import Era
from armory.security.authentication import Authenticator, StaticToken
from armory.testing.clients.raw import LegacyClient, messages, modern_body, modern_headers
from armory.testing.front import ScriptedPool, ScriptedUpstream, plain, result, serving, tool
from armory.testing.processes import GatewayProcess

pytestmark = pytest.mark.anyio
NAMES = ("greedy", "second", "other")
USERS = {"greedy": "ann", "second": "ann"}
TOKENS = {name: f"{name}-{'t' * 40}" for name in NAMES}
ERAS: dict[str, Era] = {"new": "modern", "old": "legacy"}
TAKES_TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
MOST = 2


@dataclass
class Upstream:
    """A server whose every call becomes a task, when `go` is set."""

    era: Era
    made: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, call: Call, owner: Owner) -> Reply:
        del owner
        if call.method != "tools/call":
            return result({"taskId": plain(call.params)["taskId"], "status": "working"}, self.era)
        self.made += 1
        task = {"taskId": f"t{self.made}", "status": "working", "ttl": 1_000}
        self.reached.set()
        await self.go.wait()
        made = {"task": task} if self.era == "legacy" else {"resultType": "task", **task}
        return result(made, self.era)


@dataclass
class House:
    """A gateway where each principal may have `MOST` tasks."""

    url: str
    upstreams: dict[str, Upstream]
    http: aiohttp.ClientSession

    async def send(
        self, who: str, method: str, params: Any, capabilities: Any = None, path: str = "/mcp"
    ) -> Any:
        """A modern request's answer."""
        if method.startswith("tasks/"):
            capabilities = TAKES_TASKS
        body = modern_body(1, method, params, capabilities=capabilities)
        headers = {**modern_headers(body), "Authorization": f"Bearer {TOKENS[who]}"}
        if "taskId" in params:
            headers["Mcp-Name"] = params["taskId"]
        async with self.http.post(self.url + path, json=body, headers=headers) as response:
            return (await messages(response))[-1]

    async def ask_for_task(self, who: str, server: str) -> Any:
        """The answer to a call that says that it takes a task, in the server's era."""
        params = {"name": f"{server}__work", "arguments": {}}
        if ERAS[server] == "modern":
            return await self.send(who, "tools/call", params, TAKES_TASKS)
        return await ask_in_session(self.http, self.url, who, params)


async def ask_in_session(http: aiohttp.ClientSession, url: str, who: str, params: Any) -> Any:
    client = LegacyClient(f"{url}/mcp", http, "2025-11-25", token=TOKENS[who])
    await client.initialize({})
    return await client.request("tools/call", {**params, "task": {}})


@pytest.fixture
async def house() -> AsyncIterator[House]:
    upstreams = {key: Upstream(era) for key, era in ERAS.items()}
    lists = ServerLists(tools=[tool("work", "works")], capabilities={"tools": {}, "tasks": {}})
    pool = ScriptedPool(
        {key: ScriptedUpstream(lists, up, ERAS[key]) for key, up in upstreams.items()}
    )
    gateway = Gateway(pool, services=Services(tasks=TaskRegister(per_principal=MOST)))
    gateway.publish(pool.catalog())
    tokens = [
        StaticToken(name, TOKENS[name], frozenset((name,)), USERS.get(name)) for name in NAMES
    ]
    async with AsyncExitStack() as stack:
        checks = Authenticator(tokens, allow_anonymous=False)
        url, _ = await stack.enter_async_context(serving(gateway, checks))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield House(url, upstreams, http)


def task_of(answer: Any) -> str:
    made = answer["result"]
    return made.get("taskId") or made["task"]["taskId"]


def refused(answer: Any) -> bool:
    text = answer["result"]["content"][0]["text"]
    code = answer["result"]["_meta"]["dev.armory/error"]["code"]
    limit = f"remembers {MOST} tasks of yours" in text
    return code == "rate_limited" and limit and "server.limits.tasks_per_principal" in text


@pytest.mark.parametrize("server", ERAS)
async def test_who_has_all_the_tasks_that_it_may_have_makes_no_more(
    house: House, server: str
) -> None:
    upstream = house.upstreams[server]
    upstream.go.set()
    first = task_of(await house.ask_for_task("greedy", server))
    await house.ask_for_task("greedy", server)
    assert refused(await house.ask_for_task("greedy", server))
    assert upstream.made == MOST  # the third call was not forwarded
    assert "result" in await house.send("greedy", "tasks/get", {"taskId": first})
    others = task_of(await house.ask_for_task("other", server))
    assert "result" in await house.send("other", "tasks/get", {"taskId": others})


@pytest.mark.parametrize("server", ERAS)
async def test_another_credential_of_the_same_user_makes_no_more(house: House, server: str) -> None:
    upstream = house.upstreams[server]
    upstream.go.set()
    first = task_of(await house.ask_for_task("greedy", server))
    await house.ask_for_task("second", server)
    assert refused(await house.ask_for_task("second", server))
    assert upstream.made == MOST
    params = {"taskId": first}
    assert "result" in await house.send("greedy", "tasks/get", params)
    assert "error" in await house.send("second", "tasks/get", params)  # not its own


async def test_a_task_that_nobody_asked_for_counts_and_is_not_entered_beyond(house: House) -> None:
    house.upstreams["old"].go.set()
    params = {"name": "old__work", "arguments": {}}
    for _ in range(MOST):
        assert task_of(await house.send("greedy", "tools/call", params))
    assert refused(await house.send("greedy", "tools/call", params))
    error = (await house.send("greedy", "tasks/get", {"taskId": "old:t3"}))["error"]
    assert error["message"] == "unknown task: old:t3"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/new"])
async def test_a_task_is_no_result_for_who_did_not_say_that_it_takes_some(
    house: House, path: str
) -> None:
    house.upstreams["new"].go.set()
    params = {"name": "work" if path == "/mcp/new" else "new__work", "arguments": {}}
    error = (await house.send("other", "tools/call", params, path=path))["error"]
    assert error["code"] == -32603
    assert "made a task" in error["message"]


@pytest.mark.parametrize("server", ERAS)
async def test_calls_under_way_count_as_the_tasks_that_they_may_make(
    house: House, server: str
) -> None:
    upstream = house.upstreams[server]
    calls: list[asyncio.Future[Any]] = []
    for _ in range(MOST):
        upstream.reached.clear()
        calls.append(asyncio.ensure_future(house.ask_for_task("greedy", server)))
        await upstream.reached.wait()
    assert refused(await house.ask_for_task("greedy", server))
    upstream.go.set()
    assert len({task_of(answer) for answer in await asyncio.gather(*calls)}) == MOST
    assert upstream.made == MOST


SERVER = """
import json, sys
made = 0
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked["method"], asked.get("id")
    if id is None:
        continue
    made += method == "tools/call"
    answer = {
        "initialize": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "x"},
            "capabilities": {"tools": {}}},
        "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
        "tools/call": {"task": {"taskId": f"t{made}", "status": "working", "ttl": None}},
    }.get(method)
    result = {"result": answer} if answer else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": id, **result}), flush=True)
"""


async def test_the_limit_is_the_configured_one(tmp_path: Path) -> None:
    config = {
        "upstreams": {"old": {"command": sys.executable, "args": ["-c", SERVER]}},
        "tool_rag": {"enabled": False},
        "server": {"limits": {"tasks_per_principal": MOST}},
        "security": {
            "allow_anonymous": False,
            "tokens": {name: {"token": token} for name, token in TOKENS.items()},
        },
    }
    params = {"name": "old__work", "arguments": {}}
    with GatewayProcess(config, tmp_path) as gateway:
        assert isinstance(gateway, GatewayProcess)
        async with aiohttp.ClientSession() as http:
            for _ in range(MOST):
                assert task_of(await ask_in_session(http, gateway.url, "greedy", params))
            assert refused(await ask_in_session(http, gateway.url, "greedy", params))
            assert task_of(await ask_in_session(http, gateway.url, "other", params)) == "old:t1"
