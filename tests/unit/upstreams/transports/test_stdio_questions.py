"""Questions of a stdio server: whose they are, and that calls take turns where that is unknown."""

from __future__ import annotations

import asyncio

import pytest

from armory.testing.clients.recording import RecordingClient
from tests.unit.upstreams.transports.stdio_links import Start, call, inline, scripted

pytestmark = pytest.mark.anyio


def asking() -> RecordingClient:
    return RecordingClient({"elicitation": {}}, answers={"elicitation/create": {"action": "x"}})


async def test_only_the_client_that_declared_it_is_asked(start: Start) -> None:
    link = await start(scripted())
    bystander = RecordingClient({"sampling": {}})
    other = asyncio.create_task(call(link, "wait", client=bystander))
    client = asking()
    answer = await call(link, "elicit", client=client)
    assert answer["structuredContent"]["result"] == {"action": "x"}
    assert bystander.asked == []
    await call(link, "free")
    await other


async def test_a_question_that_could_be_anyones_is_refused_and_then_calls_take_turns(
    start: Start,
) -> None:
    link = await start(scripted())
    first, second = asking(), asking()
    for tool in ("wait", "elicit"):  # they have never asked anybody anything
        link.silent.add("tools/call", f'"{tool}"'.encode())
    waiting = asyncio.create_task(call(link, "wait", client=first))
    await asyncio.sleep(0)  # it is sent before the call that asks
    answer = await call(link, "elicit", client=second)
    assert "cannot be attributed" in answer["structuredContent"]["error"]["message"]
    assert first.asked == second.asked == []
    await call(link, "free")
    await waiting
    # Having seen that this upstream asks, the link lets such calls run one at a time.
    first.hold.clear()
    one = asyncio.create_task(call(link, "elicit", client=first))
    await asyncio.wait_for(first.was_asked.wait(), 30)
    two = asyncio.create_task(call(link, "elicit", client=second))
    assert (await call(link, "echo", client=RecordingClient()))["isError"] is False
    assert not second.asked
    first.hold.set()
    for task in (one, two):
        assert (await task)["structuredContent"]["result"] == {"action": "x"}


async def test_a_question_on_behalf_of_a_cancelled_call_reaches_nobody_else(start: Start) -> None:
    """The upstream heeds no cancellation: it asks when the call is gone and another one waits."""
    link = await start(inline(GHOST), hello=False)
    gone_client, client = asking(), asking()
    cancelled = asyncio.create_task(call(link, "asks-late", client=gone_client))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    answer = await call(link, "other", client=client, timeout_s=30)
    assert answer["late"]["error"]["code"] == -32601
    assert answer["own"]["result"] == {"action": "x"}
    assert gone_client.asked == []
    assert len(client.asked) == 1


async def test_nobody_waits_for_a_cancelled_call_that_could_not_ask(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.upstreams.session.turns._ABANDONED_S", 3_600.0)
    link = await start(scripted())
    hanging = asyncio.create_task(call(link, "hang", client=RecordingClient()))
    await asyncio.sleep(0)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    answer = await call(link, "elicit", client=asking(), timeout_s=30)
    assert answer["structuredContent"]["result"]


async def test_roots_that_changed_are_asked_for_outside_of_calls(start: Start) -> None:
    link = await start(inline(ROOTED), hello=False)
    client = RecordingClient({"roots": {}}, answers={"roots/list": {"roots": []}})
    stranger = RecordingClient({"roots": {}})
    await call(link, "hello", client=stranger)
    await link.roots_changed(client, {})
    assert (await call(link, "told", timeout_s=30))["result"] == {"roots": []}
    assert [method for method, _ in client.asked] == ["roots/list"]
    assert stranger.asked == []


ROOTED = r"""
import sys, json
told = waiting = None
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/roots/list_changed":
        print(json.dumps({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}), flush=True)
    elif message.get("id") == "r":
        told = message
    elif message["params"]["name"] == "told":
        waiting = message["id"]
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
    if told and waiting:
        print(json.dumps({"jsonrpc": "2.0", "id": waiting, "result": told}), flush=True)
"""


GHOST = r"""
import sys, json
def ask(name):
    ask = {"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": {}}
    print(json.dumps(ask), flush=True)
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == name: return answer
late = None
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        late = ask("a")
    if message.get("method") != "tools/call" or message["params"]["name"] != "other": continue
    result = {"late": late, "own": ask("b")}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
