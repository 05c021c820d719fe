"""Questions of an upstream that no client could make sense of."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingClient, plain
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
BOUND_S = 20.0
# Its tools are named as the parameters with which they ask; it tells what it was answered.
SERVER = """
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    said = json.loads(line)
    method, id = said.get("method"), said.get("id")
    if method == "initialize":
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"}})
    elif method is None:
        say(id=asking, result={"said": said})
    elif method == "tools/call":
        asking = id
        say(id="q", method="vendor/ask", params=json.loads(said["params"]["name"]))
    elif id is not None:
        say(id=id, result={})
"""


@pytest.mark.parametrize("asked", [{"a": [1]}, {}, [], None, [1, 2.5], "text", 7])
async def test_parameters_are_named_or_refused(asked: Any) -> None:
    """By position or alone, as MCP has none, they would be lost on the way to the client."""
    client = RecordingClient(answers={"vendor/ask": {"ok": True}})
    call = Call("tools/call", {"name": Raw(json.dumps(json.dumps(asked)).encode())}, client=client)
    pool = Pool([UpstreamSpec("up", command=sys.executable, args=("-c", SERVER))])
    try:
        async with asyncio.timeout(BOUND_S):
            reply = await pool.request("up", Owner(ANONYMOUS), call)
    finally:
        await pool.close()
    answer = plain(reply.result)["said"]
    if isinstance(asked, dict) or not asked:
        assert answer["result"] == {"ok": True}
        assert client.asked == [("vendor/ask", asked or {})]
    else:
        assert answer["error"] == {"code": -32602, "message": "params is no object"}
        assert client.asked == []
