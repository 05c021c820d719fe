"""Logging in at the gateway with the SDKs' own OAuth clients, at a certified provider."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import aiohttp
import anyio
import httpx2
import jwt
import pytest
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from armory.config import load_text
from armory.runtime.opening import open_runtime
from armory.runtime.running import Runtime

pytestmark = [pytest.mark.anyio, pytest.mark.node]
HERE = Path(__file__).with_name("identity")
CALLBACK = "http://127.0.0.1:9/callback"


@pytest.fixture(scope="module")
def issuer(node: str, node_dir: Path) -> Generator[str]:
    """A certified provider that runs."""
    process = subprocess.Popen(
        [node, str(HERE / "provider.mjs"), str(node_dir)],
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
        yield runtime


class Person:
    """Somebody with a browser, and a Python client that remembers what it is given."""

    def __init__(self, name: str, client: OAuthClientInformationFull | None = None) -> None:
        self.name = name
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
        """Follow redirects until one leads to the client."""
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as browser:
            for _ in range(20):
                self.visited.append(url)
                if url.startswith(CALLBACK):
                    self.back = {
                        name: texts[0] for name, texts in parse_qs(urlsplit(url).query).items()
                    }
                    return
                headers = {"X-Person": self.name}
                async with browser.get(url, headers=headers, allow_redirects=False) as answer:
                    assert answer.status in (302, 303), await answer.text()
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
            redirect_uris=[AnyUrl(CALLBACK)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        )
        login = OAuthClientProvider(url, metadata, self, self.browse, self.returned)
        async with (
            httpx2.AsyncClient(auth=login, timeout=30) as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(*streams) as session,
        ):
            await session.initialize()
            return [tool.name for tool in (await session.list_tools()).tools]


async def test_the_python_client_registers_and_logs_in(tmp_path: Path, issuer: str) -> None:
    security = {"oauth": {"issuer": issuer, "scopes": ["mcp:use"]}}
    async with gateway(tmp_path, security) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp"
        ann = Person("ann")
        assert "notes__add_note" in await ann.tools(url)
        assert ann.client is not None
        assert ann.tokens is not None
        claims = jwt.decode(ann.tokens.access_token, options={"verify_signature": False})
        assert (claims["sub"], claims["aud"], claims["iss"]) == ("ann", url, issuer)
        seen = len(ann.visited)
        assert await ann.tools(url)
        assert len(ann.visited) == seen


async def test_the_python_client_uses_a_registration_by_hand(tmp_path: Path, issuer: str) -> None:
    known = OAuthClientInformationFull(
        client_id="known",
        client_secret="a-secret-that-was-given-by-hand",
        redirect_uris=[AnyUrl(CALLBACK)],
        token_endpoint_auth_method="client_secret_post",
        issuer=issuer,
    )
    policies = [{"who": ["bob"], "allow": ["notes__list_notes"]}]
    async with gateway(tmp_path, {"oauth": {"issuer": issuer}, "policies": policies}) as runtime:
        assert runtime.listening is not None
        url = f"{runtime.listening.url}/mcp/notes"
        assert await Person("bob", known).tools(url) == ["list_notes"]
        assert await Person("ann", known).tools(f"{runtime.listening.url}/mcp") == []


async def test_the_typescript_client_registers_and_logs_in(
    tmp_path: Path, issuer: str, node: str, node_dir: Path
) -> None:
    security = {"oauth": {"issuer": issuer, "scopes": ["mcp:use"]}}
    async with gateway(tmp_path, security) as runtime:
        assert runtime.listening is not None
        command = [
            node,
            str(HERE / "client.mjs"),
            str(node_dir),
            f"{runtime.listening.url}/mcp",
            "ann",
        ]
        done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3_000:]
    assert "notes__add_note" in json.loads(done.stdout)
