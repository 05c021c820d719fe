"""The console's files as they are served: what a browser may do with them, and where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.resources import files

import aiohttp
import pytest

from armory.testing.serving import listen
from armory.web.app import make_app
from armory.web.binding import bind
from armory.web.console.pages import register_console

pytestmark = pytest.mark.anyio
BROWSER = {"Accept": "text/html,*/*"}


@pytest.fixture
async def base() -> AsyncIterator[str]:
    app = make_app(body_bytes=1)
    register_console(app, "/below")
    listening = await listen(app, bind("127.0.0.1", 0), base_path="/below")
    yield listening.url
    await listening.close()


async def test_a_browser_is_sent_there_and_others_are_not(base: str) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/console"):
            async with session.get(base + path, headers=BROWSER, allow_redirects=False) as answer:
                assert answer.status == 302
                assert answer.headers["Location"] == "/below/console/"
        async with session.get(base + "/") as answer:
            assert answer.status == 404
            assert "MCP clients connect to mcp" in await answer.text()


async def test_pages_may_load_nothing_but_their_own(base: str) -> None:
    async with aiohttp.ClientSession() as session:
        for name in ("", "app.js", "style.css", "icon.svg", "licences.txt"):
            async with session.get(f"{base}/console/{name}", headers=BROWSER) as answer:
                assert answer.status == 200
                policy = answer.headers["Content-Security-Policy"].split("; ")
                assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= {*policy}
                assert {"connect-src 'self'", "require-trusted-types-for 'script'"} <= {*policy}
                assert "unsafe" not in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                tag = answer.headers["ETag"]
                assert "http" not in (await answer.text()) or name not in ("", "style.css")
            again = {"If-None-Match": tag}
            async with session.get(f"{base}/console/{name}", headers=again) as answer:
                assert answer.status == 304
        async with session.get(f"{base}/console/pages.py") as answer:
            assert answer.status == 404


def test_the_build_is_in_the_package() -> None:
    folder = files("armory.web.console") / "static"
    assert {entry.name for entry in folder.iterdir()} == {
        *("index.html", "app.js", "style.css", "icon.svg", "licences.txt")
    }
