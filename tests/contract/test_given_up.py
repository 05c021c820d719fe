"""What an upstream asks because of a call that was given up, in a session that principals share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingClient, plain
from armory.upstreams.pool import Pool
from armory.upstreams.session import turns
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
BOUND_S = 20.0
# It never answers `slow`, whatever is cancelled, until `finish` says so; `ask` asks, because of
# `slow` as far as it is concerned, and tells what it was answered.
SERVER = """
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def text(id, value):
    say(id=id, result={"content": [{"type": "text", "text": json.dumps(value)}]})

slow, asking = [], None
for line in sys.stdin:
    said = json.loads(line)
    method, id = said.get("method"), said.get("id")
    if method == "initialize":
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"}})
    elif method is None and id == "q":
        text(asking, said.get("result") or said.get("error"))
    elif method != "tools/call":
        if id is not None:
            say(id=id, result={})
    elif said["params"]["name"] == "slow":
        slow.append(id)
        say(method="notifications/progress",
            params={"progressToken": said["params"]["_meta"]["progressToken"], "progress": 1})
    elif said["params"]["name"] == "log":
        say(method="notifications/message", params={"level": "error", "data": "a secret of slow"})
        text(id, "logged")
    elif said["params"]["name"] == "ask":
        asking = id
        say(id="q", method="elicitation/create",
            params={"message": "a secret of slow", "requestedSchema": {}})
    else:
        while slow:
            text(slow.pop(), "late")
        text(id, "finished")
"""
ANN, BEN = Owner(Principal("ann")), Owner(Principal("ben"))


class Noticing(RecordingClient):
    """A client that is told when its call has reached the upstream."""

    def __init__(self) -> None:
        answer = {"action": "accept", "content": {}}
        super().__init__(
            {"elicitation": {}},
            log_level="debug",
            progress_token="p",
            answers={"elicitation/create": answer},
        )
        self.reached = asyncio.Event()
        self.told: list[str] = []

    async def notify(self, method: str, params: Any) -> None:
        self.told.append(method)
        self.reached.set()


Tool = Callable[[str, Owner, Noticing], Any]


@pytest.fixture
async def call(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tool]:
    """Calls a tool over the one session."""
    monkeypatch.setattr(turns, "_ABANDONED_S", 0.05)
    spec = UpstreamSpec("up", command=sys.executable, args=("-c", SERVER), isolation="shared")
    pool = Pool([spec])

    async def send(tool: str, owner: Owner, client: Noticing) -> Any:
        params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b"{}")}
        async with asyncio.timeout(BOUND_S):
            reply = await pool.request("up", owner, Call("tools/call", params, client=client))
        assert pool.status()["up"].sessions.open == 1, "one session for all"
        return plain(Raw(plain(reply.result)["content"][0]["text"].encode()))

    yield send
    await pool.close()


async def give_up(call: Tool, owner: Owner) -> None:
    """Call `slow`, and cancel that when the upstream has it."""
    client = Noticing()
    task = asyncio.ensure_future(call("slow", owner, client))
    async with asyncio.timeout(BOUND_S):
        await client.reached.wait()
    task.cancel()
    await asyncio.wait([task])


async def test_it_is_never_put_to_another_principal(call: Tool) -> None:
    await give_up(call, ANN)
    for _ in range(2):  # however long after
        ben = Noticing()
        answered = await call("ask", BEN, ben)
        assert ben.asked == []
        assert "another caller's call on this session was given up" in answered["message"]
        assert "isolation: principal" in answered["message"]


async def test_ones_own_question_still_comes(call: Tool) -> None:
    await give_up(call, ANN)
    ann = Noticing()
    assert (await call("ask", ANN, ann))["action"] == "accept"
    assert len(ann.asked) == 1


async def test_a_call_that_is_answered_after_all_asks_no_more(call: Tool) -> None:
    await give_up(call, ANN)
    assert await call("finish", BEN, Noticing()) == "finished"
    ben = Noticing()
    assert (await call("ask", BEN, ben))["action"] == "accept"
    assert len(ben.asked) == 1


async def test_its_log_is_never_told_to_another_principal(call: Tool) -> None:
    before, ann, ben, after = (Noticing() for _ in range(4))
    await call("log", BEN, before)
    await give_up(call, ANN)
    assert await call("log", BEN, ben) == "logged"
    assert await call("log", ANN, ann) == "logged"
    assert await call("finish", BEN, Noticing()) == "finished"
    await call("log", BEN, after)
    told = ["notifications/message"]
    assert (before.told, ben.told, ann.told, after.told) == (told, [], told, told)
