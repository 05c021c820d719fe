"""A gateway with an upstream where people have accounts, and their browsers.

Owns: `World` and `Browser`, for tests. Never used by the gateway itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from armory.config import load_text
from armory.runtime.opening import open_runtime
from armory.runtime.running import Runtime
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.identity import IdentityProvider
from armory.testing.upstreams.accounts import AccountsServer

KEY = "a-key-of-sixteen-or-more"
TOKENS = {"ann": "the-token-of-ann", "bob": "the-token-of-bob"}
URLS = {"elicitation": {"url": {}}}


class World:
    """An identity provider, an upstream with accounts, and gateways in front of it."""

    def __init__(self, provider: IdentityProvider, upstream: AccountsServer, home: Path) -> None:
        self.provider = provider
        self.upstream = upstream
        self.home = home
        self.http = aiohttp.ClientSession()

    @property
    def client(self) -> dict[str, Any]:
        """Who the gateway is at the provider: keys of `security.oauth`, its `proxy`, and `auth`."""
        known = {"client_id": "armory", "client_secret": "armory-secret"}
        return {"issuer": self.provider.issuer, **known}

    @asynccontextmanager
    async def gateway(
        self,
        auth: Mapping[str, Any] | None = None,
        *,
        server: Mapping[str, Any] | None = None,
        accounts: Mapping[str, Any] | None = None,
        **security: Any,
    ) -> AsyncGenerator[tuple[str, Runtime]]:
        """A running gateway; yields its URL and the gateway."""
        people = {"type": "authorization_code", "per": "principal", "client_id": "armory"}
        people["client_secret"] = "armory-secret"
        config = {
            "upstreams": {"docs": {"url": self.upstream.url, "auth": dict(auth or people)}},
            "security": {
                "tokens": {name: {"token": t, "user": name} for name, t in TOKENS.items()},
                "allow_anonymous": False,
                "encryption_key": KEY,
                **security,
            },
            "server": dict(server or {}),
            "accounts": dict(accounts or {}),
            "tool_rag": {"enabled": False},
            "observability": {"log_level": "error"},
        }
        loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(self.home)})
        async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
            assert runtime.listening is not None
            yield runtime.listening.url, runtime

    def later(self, by_s: float) -> None:
        """Let this many seconds pass for the grants that the gateway has given to clients."""
        with sqlite3.connect(self.home / "armory.db") as database:
            database.execute(
                f"UPDATE oauth_grants SET expires_at_ms = expires_at_ms - {by_s * 1000}"
            )
        database.close()

    async def ask(
        self,
        url: str,
        token: str,
        method: str = "tools/call",
        params: dict[str, Any] | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send one modern request."""
        if params is None:
            params = {"name": "docs__note", "arguments": {}}
        body = modern_body(1, method, params, capabilities=capabilities)
        headers = {**modern_headers(body), "Authorization": f"Bearer {token}"}
        async with self.http.post(f"{url}/mcp", json=body, headers=headers) as response:
            return (await messages(response))[-1]

    async def names(self, url: str, token: str) -> list[str]:
        """The tools that a token's owner is shown."""
        listed = await self.ask(url, token, "tools/list", {})
        return [tool["name"] for tool in listed["result"]["tools"]]


class Browser:
    """A person's browser."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def click(self, action: str, follow: bool = True, **form: str) -> tuple[int, str]:
        """Click a button of the page: (status, text)."""
        headers = {"Origin": self.url}
        data = {"action": action, **form}
        page = f"{self.url}/connect/docs"
        async with self.http.post(page, data=data, headers=headers, allow_redirects=follow) as got:
            return got.status, await got.text() if follow else got.headers.get("Location", "")

    async def get(self, url: str) -> tuple[int, str]:
        """(status, text) of a page."""
        async with self.http.get(url) as response:
            return response.status, await response.text()

    async def connect(self, name: str) -> str:
        """Log in under a name, and connect the upstream account of the same name."""
        self.world.provider.user = name
        status, text = await self.click("identify", credential=TOKENS[name])
        assert status == 200
        assert f"You are <b>{name}</b>" in text
        status, text = await self.click("connect")
        assert status == 200, text
        return text
