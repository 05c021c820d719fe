"""What is said where there is nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from armory.testing.serving import listen
from armory.web.app import make_app
from armory.web.binding import bind

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    listening = await listen(make_app(body_bytes=1_000), bind("127.0.0.1", 0))
    async with aiohttp.ClientSession(listening.url) as session:
        yield session
    await listening.close()


async def test_who_looks_for_a_login_is_told_what_to_do_instead(
    http: aiohttp.ClientSession,
) -> None:
    """Claude Code 2.1.332 shows the answer as it is, where it has no token: "Dynamic Client
    Registration rejected (HTTP 404): ..."
    """
    asked = {
        "client_name": "Claude Code (armory)",
        "redirect_uris": ["http://localhost:3118/callback"],
        "token_endpoint_auth_method": "none",
    }
    async with http.post("/register", json=asked) as answer:
        assert answer.status == 404
        assert "configure a token of this gateway in the client" in await answer.text()


async def test_elsewhere_it_is_said_where_things_are(http: aiohttp.ClientSession) -> None:
    async with http.get("/elsewhere") as answer:
        assert answer.status == 404
        assert "MCP clients connect to /mcp" in await answer.text()
