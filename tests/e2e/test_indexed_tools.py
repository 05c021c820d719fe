"""Tools that an administrator tells the index of a gateway that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from armory.testing.processes import GatewayProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
TOKEN = "the-root-token-of-this-test"


async def test_they_are_found_as_soon_as_they_were_told(tmp_path: Path) -> None:
    security = {"tokens": {"root": {"token": TOKEN, "scopes": ["admin"]}}}
    gateway = await asyncio.to_thread(GatewayProcess, {"security": security}, tmp_path)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    tools = [{"name": f"paint_{n}", "description": f"Paint picture {n}"} for n in range(40)]
    tools.append({"name": "orbit", "description": "Launch a satellite into orbit"})
    try:
        async with aiohttp.ClientSession(headers=headers) as http:
            body = {"tools": tools, "server": "space"}
            async with http.post(f"{gateway.url}/v2/index_tools", json=body) as answer:
                assert answer.status == 200
            asked = {"query": "launch a satellite"}
            async with http.get(f"{gateway.url}/retrieve_tools", params=asked) as answer:
                found = await answer.json()
    finally:
        await asyncio.to_thread(gateway.close)
    assert "degraded" not in found
    assert found["tools"][0]["name"] == "space__orbit"
    assert found["tools"][0]["inputSchema"] == {"type": "object"}
