"""What comes again and again, under another name each time, leaves nothing that stays."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from armory.config import load_file
from armory.http1.pool import Connections, Fields
from armory.runtime.opening import open_runtime
from armory.runtime.running import Runtime
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.upstreams.http import HttpUpstream

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_redirects_to_ever_other_urls_are_not_all_remembered() -> None:
    """The headers of a call are kept for the next one, encoded for the URL that it went to."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = Connections(True, 5.0, 4.0)
    headers = Fields({"Accept": "*/*"})
    kept: list[int] = []
    try:
        for asked in range(200):
            url = URL(f"http://127.0.0.1:{port}/moved?{asked}")
            response = await connections.request("POST", url, headers, None, 5.0)
            response.close()
            kept.append(len(headers.heads))
    finally:
        connections.close()
        server.close()
    assert max(kept[:20]) == max(kept) <= 4


class Reloaded:
    """A gateway whose configuration is read again, always with another name for an upstream."""

    def __init__(self, runtime: Runtime, file: Path, http: aiohttp.ClientSession) -> None:
        assert runtime.listening is not None
        self.url = runtime.listening.url
        self._runtime = runtime
        self._file = file
        self._http = http

    async def read(self, upstreams: dict[str, Any]) -> None:
        self._file.write_text(json.dumps({"upstreams": upstreams}))
        await self._runtime.rereading.read()
        await self._runtime.supervisor.wait_first(None)
        await self._runtime.keeper.settle()

    async def call(self, name: str) -> dict[str, Any]:
        body = modern_body(1, "tools/call", {"name": name, "arguments": {}})
        place, headers = f"{self.url}/mcp", modern_headers(body)
        async with self._http.post(place, json=body, headers=headers) as answered:
            return (await messages(answered))[-1]

    async def series(self) -> int:
        async with self._http.get(f"{self.url}/metrics") as answered:
            lines = (await answered.text()).splitlines()
        return sum(line.startswith("armory_") for line in lines)


async def test_upstreams_that_are_renamed_in_mid_call_leave_no_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path))
    file = tmp_path / "armory.yaml"
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(HttpUpstream(eras="modern"))
        here = {"url": upstream.url}
        off = {"tool_rag": {"enabled": False}, "observability": {"log_level": "error"}}
        file.write_text(json.dumps({"upstreams": {"base": here}, **off}))
        opening = open_runtime(load_file(file), address=("127.0.0.1", 0))
        runtime = await stack.enter_async_context(opening)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        await runtime.searchable()
        gateway = Reloaded(runtime, file, http)
        script = upstream.script
        found: list[int] = []
        for reload in range(9):
            script.release.clear()
            script.started.clear()
            await gateway.read({"base": here, f"up{reload}": here})
            called = asyncio.ensure_future(gateway.call(f"up{reload}__wait"))
            await asyncio.wait_for(script.started.wait(), 30)
            await gateway.read({"base": here})
            script.release.set()
            assert "result" in await called
            found.append(await gateway.series())
        assert found == [found[0]] * 9
