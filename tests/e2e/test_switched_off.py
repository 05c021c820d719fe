"""A user that is switched off hears no more, whatever credential it came with."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
import yaml

from armory.config import load_text
from armory.runtime import open_runtime
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.upstreams.http import HttpUpstream

pytestmark = pytest.mark.anyio
ROOT, TOKENS = "the-token-of-root", {name: f"the-token-of-{name}" for name in ("ann", "bob")}


async def test_its_streams_end_and_those_of_others_do_not(tmp_path: Path) -> None:
    tokens = {name: {"token": token, "user": name} for name, token in TOKENS.items()}
    listen = modern_body(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(HttpUpstream())
        config = {
            "upstreams": {"web": {"url": upstream.url}},
            "tool_rag": {"enabled": False},
            "accounts": {"enabled": True},
            "security": {"tokens": tokens | {"root": {"token": ROOT, "scopes": ["admin"]}}},
        }
        loaded = load_text(
            yaml.safe_dump(config),
            path=tmp_path / "armory.yaml",
            environ={"ARMORY_HOME": str(tmp_path / "home")},
        )
        runtime = await stack.enter_async_context(open_runtime(loaded, address=("127.0.0.1", 0)))
        await runtime.ready()
        assert runtime.listening is not None
        url = runtime.listening.url
        http = await stack.enter_async_context(aiohttp.ClientSession())
        await stack.enter_async_context(asyncio.timeout(30))
        streams: dict[str, aiohttp.StreamReader] = {}
        for name, token in TOKENS.items():
            headers = {**modern_headers(listen), "Authorization": f"Bearer {token}"}
            answer = await stack.enter_async_context(
                http.post(f"{url}/mcp", json=listen, headers=headers)
            )
            streams[name] = answer.content
            assert b"acknowledged" in await answer.content.readuntil(b"\n\n")
        admin = {"Authorization": f"Bearer {ROOT}"}
        async with http.post(f"{url}/v1/users", json={"id": "ann"}, headers=admin) as made:
            assert made.status == 201
        off = {"is_active": False}
        async with http.patch(f"{url}/v1/users/ann", json=off, headers=admin) as done:
            assert done.status == 200
        await streams["ann"].read()
        assert not streams["bob"].at_eof()
