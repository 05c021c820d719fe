"""Somebody who logs in with the Python SDK's own client, at a certified provider, by a browser.

Owns: `provider`, `gateway` and `Person`, for the end-to-end tests of identity.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import aiohttp
import httpx2
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from armory.config import load_text
from armory.runtime.opening import open_runtime
from armory.runtime.running import Runtime
from armory.testing.waiting import until

HERE = Path(__file__).with_name("identity")
CALLBACK = "http://127.0.0.1:9/callback"
_LOGIN = re.compile(r'name="id" value="([^"]+)"')
_CONSENT = re.compile(r'name="request" value="([^"]+)"')


@contextmanager
def provider(node: str, node_dir: Path, *more: str) -> Generator[str]:
    """A certified provider that runs; gives its issuer."""
    process = subprocess.Popen(
        [node, str(HERE / "provider.mjs"), str(node_dir), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def gateway(tmp_path: Path, security: dict[str, Any]) -> AsyncGenerator[Runtime]:
    config = {
        "upstreams": {"notes": {"command": sys.executable, "args": ["-m", "armory.demo"]}},
        "security": security,
        "tool_rag": {"enabled": False},
        "observability": {"log_level": "error"},
    }
    loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(tmp_path)})
    async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
        await until(lambda: bool(runtime.gateway.view.catalog.tools), 60.0)
        yield runtime


class Person:
    """Somebody with a browser, and a Python client that remembers what it is given."""

    def __init__(
        self,
        name: str,
        client: OAuthClientInformationFull | None = None,
        *,
        callback: str = CALLBACK,
        document: str | None = None,
        password: str = "",
    ) -> None:
        self.name = name
        self.password = password
        self.callback = callback
        self.document = document
        self.client = client
        self.tokens: OAuthToken | None = None
        self.back: dict[str, str] = {}
        self.visited: list[str] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def browse(self, url: str) -> None:
        """Follow redirects, and let the client in where that is asked, until one leads there."""
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as browser:
            for _ in range(20):
                self.visited.append(url)
                if url.startswith(self.callback):
                    self.back = {
                        name: texts[0] for name, texts in parse_qs(urlsplit(url).query).items()
                    }
                    return
                headers = {"X-Person": self.name}
                async with browser.get(url, headers=headers, allow_redirects=False) as answer:
                    text = await answer.text()
                if (page := _LOGIN.search(text)) is not None:
                    said = {"id": page[1], "username": self.name, "password": self.password}
                    async with browser.post(url, data=said, allow_redirects=False) as answer:
                        text = await answer.text()
                form = _CONSENT.search(text)
                if form is not None:
                    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
                    async with browser.post(
                        urljoin(url, "consent"),
                        data={"request": form[1], "action": "allow"},
                        headers={"Origin": origin},
                        allow_redirects=False,
                    ) as answer:
                        text = await answer.text()
                assert answer.status in (302, 303), text
                url = urljoin(url, answer.headers["Location"])
        raise AssertionError("redirected without end")

    async def returned(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=self.back["code"], state=self.back["state"], iss=self.back.get("iss")
        )

    async def tools(self, url: str) -> list[str]:
        """Connect, log in where that is asked for, and list tools."""
        metadata = OAuthClientMetadata(
            client_name="a Python client",
            redirect_uris=[AnyUrl(self.callback)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        )
        login = OAuthClientProvider(
            url,
            metadata,
            self,
            self.browse,
            self.returned,
            client_metadata_url=self.document,
        )
        async with (
            httpx2.AsyncClient(auth=login, timeout=30) as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(*streams) as session,
        ):
            await session.initialize()
            return [tool.name for tool in (await session.list_tools()).tools]
