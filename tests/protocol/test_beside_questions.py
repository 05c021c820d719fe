"""A question that waits for a person holds up no other call of that person's session."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from armory.testing.clients.raw import PREFIX, messages, modern_body, modern_headers
from armory.upstreams.session import lane
from tests.protocol.gateways import GatewayClient, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ELICIT = {"elicitation": {"form": {}}}
PATHS = os.pathsep.join(filter(None, sys.path))
CALL_S = 10.0


def config(**upstream: Any) -> dict[str, Any]:
    args = ["-m", "armory.testing.upstreams.stdio", "--era", "legacy"]
    old = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": PATHS}, **upstream}
    return {
        "security": {"tokens": {name: {"token": f"token-of-{name}"} for name in ("ann", "bob")}},
        "upstreams": {"old": {"call_timeout_s": CALL_S, **old}},
        "tool_rag": {"enabled": False},
    }


async def call(gateway: GatewayClient, tool: str, who: str = "ann", **more: Any) -> dict[str, Any]:
    params = {"name": f"old__{tool}", "arguments": {}, **more}
    return await gateway.result("tools/call", params, capabilities=ELICIT, who=who)


async def answer(gateway: GatewayClient, asked: dict[str, Any], name: str) -> dict[str, Any]:
    """The result of a call whose form is filled in."""
    (key,) = asked["inputRequests"]
    filled = {key: {"action": "accept", "content": {"name": name}}}
    state = asked["requestState"]
    done = await call(gateway, "elicit", requestState=state, inputResponses=filled)
    return done["structuredContent"]["result"]["content"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "OPEN_S", 0.2)


async def test_forms_that_are_open_hold_up_no_call(tmp_path: Path) -> None:
    async with running(tmp_path, config()) as house:
        gateway = GatewayClient(house.url, house.http)
        first = await call(gateway, "elicit")
        report = await call(gateway, "report")
        assert report["structuredContent"]["cancelled"] == []
        second = await call(gateway, "elicit")
        assert first["resultType"] == second["resultType"] == "input_required"
        third, fourth = await asyncio.gather(call(gateway, "elicit"), call(gateway, "echo"))
        assert fourth.get("isError") is not True
        # Each answer goes to its own call, in whatever order they come.
        names = {"second": second, "third": third, "first": first}
        for name, asked in names.items():
            assert await answer(gateway, asked, name) == {"name": name}
        assert (await call(gateway, "echo")).get("isError") is not True


async def test_what_a_call_beside_a_form_logs_reaches_its_client(tmp_path: Path) -> None:
    """Over stdio a log line names no call; the one with the form waits, and logs nothing."""
    async with running(tmp_path, config()) as house:
        gateway = GatewayClient(house.url, house.http)
        asked = await call(gateway, "elicit")
        params = {"name": "old__log", "arguments": {}}
        level = {f"{PREFIX}logLevel": "info"}
        body = modern_body(1, "tools/call", params, level, ELICIT)
        headers = {**modern_headers(body), "Authorization": "Bearer token-of-ann"}
        async with house.http.post(house.url + "/mcp", json=body, headers=headers) as response:
            *before, _ = await messages(response)
        assert [each["params"]["data"] for each in before] == ["at info", "at error"]
        assert await answer(gateway, asked, "ann") == {"name": "ann"}


async def test_a_slow_call_beside_a_form_holds_up_no_answer(tmp_path: Path) -> None:
    async with running(tmp_path, config(call_timeout_s=60.0)) as house:
        gateway = GatewayClient(house.url, house.http)
        asked = await call(gateway, "elicit")
        slow = asyncio.create_task(call(gateway, "hang"))
        assert await answer(gateway, asked, "ann") == {"name": "ann"}
        assert not slow.done()
        slow.cancel()


async def test_on_a_shared_session_only_what_never_asks_goes_on(tmp_path: Path) -> None:
    """What is asked then could be for either, and two people share the session."""
    shared = config(isolation="shared", call_timeout_s=2.0)
    async with running(tmp_path, shared) as house:
        gateway = GatewayClient(house.url, house.http)
        assert (await call(gateway, "echo")).get("isError") is not True
        asked = await call(gateway, "elicit")
        refused, echoed = await asyncio.gather(
            call(gateway, "elicit", who="bob"), call(gateway, "echo", who="bob")
        )
        assert "waits for the answer to a question" in refused["content"][0]["text"]
        assert echoed.get("isError") is not True
        assert await answer(gateway, asked, "ann") == {"name": "ann"}


async def test_who_had_no_turn_behind_a_slow_call_is_told_so(tmp_path: Path) -> None:
    async with running(tmp_path, config(call_timeout_s=2.0)) as house:
        gateway = GatewayClient(house.url, house.http)
        assert await answer(gateway, await call(gateway, "elicit"), "ann") == {"name": "ann"}
        late = await asyncio.gather(call(gateway, "hang"), call(gateway, "hang"))
        first, second = sorted((each["content"][0]["text"] for each in late), key=len)
        assert "did not answer tools/call within 2 s" in first
        assert "had no turn for tools/call within 2 s" in second
        assert "run one at a time" in second
