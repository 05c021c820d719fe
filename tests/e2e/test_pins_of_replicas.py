"""A definition that is approved at one replica is approved at all that share a database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from armory.config import load_text
from armory.runtime import open_runtime
from armory.runtime.running import Runtime
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until

pytestmark = pytest.mark.anyio
ROOT = "the-token-of-the-operator"


@asynccontextmanager
async def replica(folder: Path, home: str, upstream: str) -> AsyncGenerator[Runtime]:
    config = {
        "upstreams": {"up": {"url": upstream}},
        "storage": {"url": f"sqlite:///{folder / 'shared.db'}"},
        "security": {
            "pinning": "block",
            "tokens": {"root": {"token": ROOT, "scopes": ["admin"]}},
        },
        "tool_rag": {"enabled": False},
    }
    loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(folder / home)})
    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await runtime.ready()
        yield runtime


def withheld(runtime: Runtime) -> list[str]:
    pinning = runtime.keeper.pinning
    assert pinning is not None
    return sorted(pinning.withheld)


async def status(runtime: Runtime, method: str, path: str, **body: str) -> int:
    assert runtime.listening is not None
    url = f"{runtime.listening.url}/v1/{path}"
    headers = {"Authorization": f"Bearer {ROOT}"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.request(method, url, json=body or None) as response,
    ):
        return response.status


async def approve(runtime: Runtime, name: str) -> int:
    pinning = runtime.keeper.pinning
    assert pinning is not None
    now = pinning.withheld[name].now
    return await status(runtime, "POST", f"changes/{name}/approve", now=now)


async def test_what_is_approved_at_one_comes_back_at_all(tmp_path: Path) -> None:
    async with (
        HttpUpstream() as upstream,
        replica(tmp_path, "one", upstream.url) as one,
        replica(tmp_path, "two", upstream.url) as two,
    ):
        for definition in upstream.script.tools:
            if definition["name"] in ("echo", "who"):
                definition["description"] = "now says something else"
        for runtime in (one, two):
            await runtime.relist("up")
            assert withheld(runtime) == ["up__echo", "up__who"]
        assert await approve(one, "up__echo") == 204
        await until(lambda: withheld(two) == ["up__who"], 30)
        assert withheld(one) == ["up__who"]  # and nothing else is
        async with asyncio.timeout(30):
            while await status(two, "GET", "tools/up__echo") != 200:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)
        assert await status(two, "GET", "tools/up__who") == 404
