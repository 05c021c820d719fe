"""A call that its client gives up is neither a success nor a failure of its tool."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from armory.config import load_text
from armory.runtime import open_runtime
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.upstreams.http import HttpUpstream

pytestmark = pytest.mark.anyio


async def test_a_call_that_is_given_up_counts_as_cancelled(tmp_path: Path) -> None:
    async with HttpUpstream() as upstream:
        config = {
            "upstreams": {"web": {"url": upstream.url}},
            "tool_rag": {"enabled": False},
            "security": {"pinning": "off"},
        }
        loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(tmp_path)})
        async with (
            open_runtime(loaded, address=("127.0.0.1", 0)) as runtime,
            aiohttp.ClientSession() as http,
        ):
            await runtime.ready()
            assert runtime.listening is not None
            url = runtime.listening.url
            body = modern_body(1, "tools/call", {"name": "web__wait", "arguments": {}})
            for path, sent, headers in (
                ("/mcp", body, modern_headers(body)),
                ("/v1/tools/web__wait/call", {"arguments": {}}, {}),
            ):
                upstream.script.started.clear()
                asking = asyncio.ensure_future(http.post(url + path, json=sent, headers=headers))
                await asyncio.wait_for(upstream.script.started.wait(), 60)
                asking.cancel()
                await asyncio.wait([asking])

            cancelled = 'armory_tool_calls_total{outcome="cancelled",server="web"} 2.0'
            rest = 'method="POST",route="/v1/tools/{name}/call",status="499"'
            rest = f"armory_rest_requests_total{{{rest}}} 1.0"
            found: list[str] = []
            async with asyncio.timeout(60):  # it is told a moment after the client has left
                while not {cancelled, rest} <= set(found):
                    async with http.get(f"{url}/metrics") as answer:
                        found = (await answer.text()).splitlines()
            assert 'armory_tool_calls_total{outcome="error",server="web"} 0.0' in found

            async with http.get(f"{url}/v1/activity") as answer:
                entries = (await answer.json())["entries"]
            assert [(entry["what"], entry["ok"]) for entry in entries] == [("web__wait", None)] * 2
            async with http.get(f"{url}/v1/activity/minutes") as answer:
                minutes = (await answer.json())["minutes"]
            assert sum(minute["calls"] for minute in minutes) == 2
            assert sum(minute["errors"] for minute in minutes) == 0

            assert runtime.accounts is not None
            await runtime.accounts.flush()
            await runtime.accounts.usage.refresh()
            assert runtime.accounts.usage.tool("web__wait") is None
