"""Who cancels says why: that passes through, from clients to upstreams and back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from armory.tasks import spawn
from armory.testing.clients.raw import LegacyClient
from armory.testing.upstreams.exchange import (
    Json,
    Request,
    ScriptState,
    definition,
    notification,
    text,
)
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.wire.sessions import asking
from tests.protocol.gateways import running

pytestmark = pytest.mark.anyio
CANCELLED = "notifications/cancelled"
WHY: Json = {
    "reason": "typed by mistake",
    "org.example/undo": [1, {"steps": 2}],
    "_meta": {"org.example/by": "ann"},
}
FORM: Json = {"message": "which?", "requestedSchema": {"type": "object", "properties": {}}}


async def unsure(script: ScriptState, request: Request) -> Json:
    """Asks something, and withdraws the question."""
    asking = spawn(request.wire.ask("elicitation/create", FORM), "question")
    await script.release.wait()
    script.release.clear()
    await request.wire.send(notification(CANCELLED, {"requestId": "ask-0", **WHY}))
    await script.release.wait()
    asking.cancel()
    return text("never mind")


async def waiting(_script: ScriptState, request: Request) -> Json:
    """Asks something, and waits for the answer."""
    answer = await request.wire.ask("elicitation/create", FORM)
    return text(answer["error"]["message"])


@asynccontextmanager
async def front(home: Path) -> AsyncGenerator[tuple[LegacyClient, HttpUpstream]]:
    """A client that can be asked, at a legacy upstream with these tools."""
    async with HttpUpstream(eras="legacy") as upstream:
        upstream.script.behaviour |= {"unsure": unsure, "waiting": waiting}
        upstream.script.tools += [definition("unsure"), definition("waiting")]
        config = {"upstreams": {"up": {"url": upstream.url}}, "tool_rag": {"enabled": False}}
        async with running(home, config) as gateway:
            client = LegacyClient(f"{gateway.url}/mcp/up", gateway.http, "2025-11-25")
            await client.initialize({"elicitation": {}})
            yield client, upstream


async def test_a_client_that_cancels_is_quoted_with_what_it_says_besides(tmp_path: Path) -> None:
    async with front(tmp_path) as (client, upstream):
        call = spawn(client.request("tools/call", {"name": "hang", "arguments": {}}), "call")
        await asyncio.wait_for(upstream.script.started.wait(), 15)
        meta = {**WHY["_meta"], "progressToken": 1}
        params = {"requestId": client.count, **WHY, "_meta": meta, "RequestID": 1, "Reason": "x"}
        await client.send(notification(CANCELLED, params))
        await until(lambda: bool(upstream.script.cancelled))
        (told,) = [m["params"] for m in upstream.script.received if m.get("method") == CANCELLED]
        assert {key: told[key] for key in told if key != "requestId"} == WHY
        call.cancel()


async def asked(client: LegacyClient, upstream: HttpUpstream, tool: str) -> list[Any]:
    """What comes during a call; its server goes on when the client was asked."""
    params = {"name": tool, "arguments": {}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    came: list[Any] = []
    async with (
        asyncio.timeout(30),
        client.http.post(client.url, json=call, headers=client.headers) as response,
    ):
        async for line in response.content:
            if line.startswith(b"data: {"):
                came.append(json.loads(line[6:]))
                upstream.script.release.set()
    return came


async def test_a_question_that_its_server_withdraws_is_withdrawn_with_its_reason(
    tmp_path: Path,
) -> None:
    async with front(tmp_path) as (client, upstream):
        question, withdrawn, result = await asked(client, upstream, "unsure")
        assert withdrawn["method"] == CANCELLED
        assert withdrawn["params"] == {"requestId": question["id"], **WHY}
        assert result["result"]["content"][0]["text"] == "never mind"


async def test_a_question_that_is_waited_for_no_longer_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ASK_TIMEOUT_S", 0.05)
    async with front(tmp_path) as (client, upstream):
        question, withdrawn, result = await asked(client, upstream, "waiting")
        why = "there was no answer within 0.05 s"
        assert withdrawn["params"] == {"requestId": question["id"], "reason": why}
        assert "gone" in result["result"]["content"][0]["text"]
