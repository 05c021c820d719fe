"""Requests that are no UTF-8 deep inside, at a server that ends at the first such line, as those
of many SDKs do.

Bounded: what goes to an upstream is UTF-8, so that no caller takes it from the others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.processes import GatewayProcess

pytestmark = pytest.mark.anyio
BOUND_S = 40.0
STRICT = """
import io, json, sys
about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
         "serverInfo": {"name": "x", "version": "1"}}
results = {"initialize": about, "tools/call": {"content": [{"type": "text", "text": "fine"}]},
           "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}
for line in io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"):
    asked = json.loads(line)
    if "id" in asked:
        result = results.get(asked["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
MANY = 6
"""One more than failures in a row open the breaker."""


@pytest.mark.parametrize("size", [1, 100_000])
async def test_what_is_no_utf8_ends_no_upstream(tmp_path: Path, size: int) -> None:
    server = tmp_path / "server.py"
    server.write_text(STRICT, encoding="utf-8")
    upstream = {"command": sys.executable, "args": [str(server)], "isolation": "shared"}
    tokens = {name: {"token": name * 40} for name in ("a", "b")}
    config = {
        "upstreams": {"strict": upstream},
        "security": {"tokens": tokens},
        "tool_rag": {"enabled": False},
    }
    call = modern_body(1, "tools/call", {"name": "strict__echo", "arguments": {"x": "y" * size}})
    good = json.dumps(call).encode()
    with GatewayProcess(config, tmp_path) as gateway:
        assert isinstance(gateway, GatewayProcess)
        url = f"{gateway.url}/mcp"
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(BOUND_S)) as http:

            async def called(who: str, body: bytes) -> tuple[int, Any]:
                headers = {
                    **modern_headers(call),
                    "Authorization": f"Bearer {who * 40}",
                    "Content-Type": "application/json",
                }
                async with http.post(url, data=body, headers=headers) as response:
                    return response.status, await response.json()

            for _ in range(MANY):
                status, said = await called("a", good.replace(b"y", b"\xff"))
                assert (status, said["error"]["code"]) == (400, -32700)
            status, said = await called("b", good)
            assert (status, said["result"]["content"][0]["text"]) == (200, "fine")
