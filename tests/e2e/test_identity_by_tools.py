"""Logging in with the Inspector's own OAuth client, and the conformance suite at the proxy."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from armory.testing.servers import free_port
from tests.e2e.person import Person, gateway

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(200)]
_LINK = re.compile(r"https?://\S+/(?:auth|authorize)\?\S+")


@asynccontextmanager
async def program(home: Path, *command: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A program that runs; its output is one stream."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            "PATH": str(Path(command[0]).parent),  # without any browser
            "HOME": str(home),
            "MCP_INSPECTOR_SECRET_STORE": "memory",
            "MCP_AUTO_OPEN_ENABLED": "true",  # else it wants a terminal
        },
    )
    try:
        async with asyncio.timeout(90):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def link_in(process: asyncio.subprocess.Process) -> str:
    """The first address that it asks a person to visit."""
    assert process.stdout is not None
    said = ""
    while line := await process.stdout.readline():
        said += line.decode()
        if found := _LINK.search(said):
            return found[0]
    raise AssertionError(said)


async def visit(person: Person, link: str) -> None:
    """Log in, and go where the client waits."""
    await person.browse(link)
    async with aiohttp.ClientSession() as browser, browser.get(person.visited[-1]) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("proxied", [False, True])
async def test_the_inspector_registers_and_logs_in(
    tmp_path: Path, issuer: str, closed: str, node: str, node_dir: Path, proxied: bool
) -> None:
    oauth: dict[str, object] = {"scopes": ["mcp:use"], "issuer": issuer}
    if proxied:
        behind = {"issuer": closed, "client_id": "armory"}
        oauth = {
            "scopes": ["mcp:use"],
            "proxy": {**behind, "client_secret": "the-secret-of-the-gateway"},
        }
    inspector = node_dir / ".bin" / "mcp-inspector"
    back = f"http://127.0.0.1:{free_port()}/oauth/callback"
    async with gateway(tmp_path, {"oauth": oauth}) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp"
        command = [node, str(inspector), "--cli", url, "--transport", "http"]
        command += ["--method", "tools/list", "--format", "json", "--callback-url", back]
        async with program(tmp_path, *command) as process:
            await visit(Person("ann", callback=back), await link_in(process))
            assert process.stdout is not None
            said = (await process.stdout.read()).decode()
            assert await process.wait() == 0, said
    assert "notes__add_note" in said


async def test_the_conformance_suite_logs_in_at_the_proxy(
    tmp_path: Path, closed: str, node: str, node_dir: Path
) -> None:
    suite = node_dir / "@modelcontextprotocol" / "conformance" / "dist"
    port = free_port()
    back = f"http://127.0.0.1:{port}/callback"
    behind = {"issuer": closed, "client_id": "armory"}
    behind["client_secret"] = "the-secret-of-the-gateway"
    results = tmp_path / "results"
    async with gateway(tmp_path, {"oauth": {"proxy": behind, "scopes": ["mcp:use"]}}) as runtime:
        assert runtime.listening is not None
        url = runtime.listening.url
        asked = {"redirect_uris": [back], "token_endpoint_auth_method": "none"}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{url}/oauth/register", json=asked) as answer,
        ):
            client = (await answer.json())["client_id"]
        command = [node, str(suite / "index.js"), "authorization", "--url", url, "-p", str(port)]
        command += ["--client-id", client, "--resource", f"{url}/mcp", "-o", str(results)]
        async with program(tmp_path, *command) as process:
            await visit(Person("ann", callback=back), await link_in(process))
            assert process.stdout is not None
            said = (await process.stdout.read()).decode()
            assert await process.wait() == 0, said
    found = [
        check for path in results.rglob("checks.json") for check in json.loads(path.read_text())
    ]
    assert {check["status"] for check in found} == {"SUCCESS"}, said
    assert {check["id"] for check in found} == {
        "authorization-server-metadata",
        "authorization-server-metadata-cimd",
        "authorization-code-grant",
    }
