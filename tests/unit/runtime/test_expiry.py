"""Streams end when the session token that opened them does."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest

from armory.config import load_text
from armory.runtime import open_runtime

pytestmark = pytest.mark.anyio
SECRET = "a-secret-of-more-than-thirty-two-bytes"
LEEWAY_S = 30.0
MODERN = "2026-07-28"
BOTH = "application/json, text/event-stream"


def token(left_s: float) -> str:
    """A session token that is taken for valid for so long."""
    claims = {"sub": "ann", "exp": time.time() + left_s - LEEWAY_S}
    return jwt.encode(claims, SECRET, algorithm="HS256")


@pytest.fixture
async def url(tmp_path: Path) -> AsyncGenerator[str]:
    loaded = load_text(
        f"security: {{jwt: {{secret: {SECRET}}}}}\ntool_rag: {{enabled: false}}",
        environ={"ARMORY_HOME": str(tmp_path)},
    )
    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await runtime.ready()
        assert runtime.listening is not None
        yield runtime.listening.url


async def read_to_the_end(answer: aiohttp.ClientResponse) -> bytes:
    assert answer.status == 200, await answer.text()
    assert answer.content_type == "text/event-stream"
    return await answer.read()


@pytest.mark.parametrize("kind", ["legacy", "modern", "sse"])
async def test_a_stream_ends_with_its_token(url: str, kind: str) -> None:
    limit = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=limit) as session:
        short = {"Authorization": f"Bearer {token(5.0)}", "Accept": BOTH}
        if kind == "sse":
            async with session.get(f"{url}/sse", headers=short) as answer:
                assert b"event: endpoint" in await read_to_the_end(answer)
        elif kind == "modern":
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            headers = {
                **short,
                "MCP-Protocol-Version": MODERN,
                "Mcp-Method": "subscriptions/listen",
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
            async with session.post(f"{url}/mcp", json=body, headers=headers) as answer:
                assert b"acknowledged" in await read_to_the_end(answer)
        else:
            fresh = {"Authorization": f"Bearer {token(600)}", "Accept": BOTH}
            hello: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            async with session.post(f"{url}/mcp", json=body, headers=fresh) as answer:
                own = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
            async with session.get(f"{url}/mcp", headers={**short, **own}) as answer:
                await read_to_the_end(answer)
            # the session is there for whoever comes with a new token
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            async with session.post(f"{url}/mcp", json=ping, headers={**fresh, **own}) as answer:
                assert answer.status == 200
