"""Headless Chromium logs in: an MCP client through the gateway, and an account at an upstream."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from aiohttp import web

from armory.testing.identity import IdentityProvider
from armory.testing.listening import listening
from armory.testing.people import TOKENS, World
from armory.testing.upstreams.accounts import AccountsServer
from tests.e2e.person import Person, gateway, provider

pytestmark = [pytest.mark.anyio, pytest.mark.node]
DRIVER = Path(__file__).parents[1] / "node" / "login.mjs"


@pytest.fixture(scope="module")
def packages() -> Path:
    """Where playwright-core is; Chromium is there, too."""
    found = os.environ.get("ARMORY_TEST_CONSOLE_NODE")
    if not found or shutil.which("chromium") is None:
        pytest.skip("no ARMORY_TEST_CONSOLE_NODE with playwright-core, or no chromium")
    return Path(found)


async def clicked(packages: Path, url: str, *steps: dict[str, str]) -> dict[str, Any]:
    """What the browser shows in the end."""
    given = json.dumps({"url": url, "steps": steps})
    done = await anyio.run_process(["node", str(DRIVER), str(packages), given], check=False)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report.get("failed") is None, report
    return report


@pytest.fixture
async def callback() -> AsyncGenerator[str]:
    """The client's own page, to which people come back."""

    async def back(_request: web.Request) -> web.Response:
        return web.Response(text="You may close this page.", content_type="text/html")

    app = web.Application()
    app.router.add_get("/callback", back)
    runner, origin = await listening(app)
    yield f"{origin}/callback"
    await runner.cleanup()


class Clicking(Person):
    """Somebody who uses a real browser."""

    def __init__(self, packages: Path, callback: str) -> None:
        super().__init__("ann", callback=callback)
        self.packages = packages

    async def browse(self, url: str) -> None:
        """Let the client in, log in at the provider, come back."""
        report = await clicked(
            self.packages,
            url,
            {"see": "a Python client"},
            {"see": self.callback},
            {"press": "Allow"},
            {"fill": "Who are you?", "with": "ann"},
            {"press": "Log in"},
            {"until": self.callback},
        )
        assert report["errors"] == []
        self.visited.append(report["url"])
        query = parse_qs(urlsplit(report["url"]).query)
        self.back = {name: texts[0] for name, texts in query.items()}


@pytest.mark.timeout(300)
async def test_a_client_is_let_in_by_clicks(
    tmp_path: Path, packages: Path, node: str, node_dir: Path, callback: str
) -> None:
    with provider(node, node_dir, "closed") as issuer:
        proxy = {"issuer": issuer, "client_id": "armory"}
        proxy["client_secret"] = "the-secret-of-the-gateway"
        async with gateway(tmp_path, {"oauth": {"proxy": proxy}}) as runtime:
            assert runtime.listening is not None
            ann = Clicking(packages, callback)
            assert "notes__add_note" in await ann.tools(f"{runtime.listening.url}/mcp")
            assert len(ann.visited) == 1


@pytest.mark.timeout(300)
async def test_an_account_is_connected_by_clicks(tmp_path: Path, packages: Path) -> None:
    async with (
        IdentityProvider() as scripted,
        AccountsServer(scripted.verified, scripted.issuer) as upstream,
    ):
        world = World(scripted, upstream, tmp_path)
        async with world.gateway() as (url, _):
            report = await clicked(
                packages,
                f"{url}/connect/docs",
                {"fill": "The token or API key", "with": TOKENS["ann"]},
                {"press": "Continue"},
                {"see": "You are ann"},
                {"press": "Connect"},
                {"see": "You may close this page"},
            )
            assert report["errors"] == []
            assert TOKENS["ann"] not in report["url"]
            assert "docs__only_ann" in await world.names(url, TOKENS["ann"])
            assert await world.names(url, TOKENS["bob"]) == ["docs__log_in"]
        await world.http.close()
