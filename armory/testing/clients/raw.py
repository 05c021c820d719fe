"""MCP clients that send single messages, for tests of the wire format.

Owns: building modern requests, a legacy client, and reading answers. Never imports a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


def modern_body(
    id: int | str,
    method: str,
    params: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    capabilities: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A modern request with all members that the revision requires in its `_meta`."""
    stamped = {
        f"{PREFIX}protocolVersion": VERSION,
        f"{PREFIX}clientCapabilities": capabilities or {},
        f"{PREFIX}clientInfo": {"name": "test", "version": "0"},
        **(meta or {}),
    }
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": method,
        "params": {**(params or {}), "_meta": stamped},
    }


def modern_headers(body: dict[str, Any]) -> dict[str, str]:
    """The HTTP headers of a modern request."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": body["method"],
    }
    field_name = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    name = body["params"].get(field_name.get(body["method"], ""))
    if name is not None:
        headers["Mcp-Name"] = name
    return headers


async def messages(response: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    """All messages of a response, whether JSON or a stream."""
    if response.content_type == "application/json":
        return [msgspec.json.decode(await response.read())]
    text = (await response.read()).decode()
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ") and line[6:]]
    return [msgspec.json.decode(line) for line in data]


@dataclass
class LegacyClient:
    """A low-level client of the legacy (handshake) era.

    Attributes:
        url, http: where it sends, and with what.
        version: the revision that it asks for.
        session: the id of its session; "" before the handshake.
        count: requests sent so far; the next id is one higher.
        hello: the result of its handshake.
        token: the bearer token of every message; "": none.
    """

    url: str
    http: aiohttp.ClientSession
    version: str
    session: str = ""
    count: int = 0
    hello: dict[str, Any] = field(default_factory=dict[str, Any])
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every message in the session."""
        return {
            **self._always,
            "Mcp-Session-Id": self.session,
            "MCP-Protocol-Version": self.version,
        }

    @property
    def _always(self) -> dict[str, str]:
        said = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"Accept": "application/json, text/event-stream", **said}

    async def initialize(self, capabilities: dict[str, Any]) -> None:
        """Shake hands."""
        params = {
            "protocolVersion": self.version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "0"},
        }
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        async with self.http.post(self.url, json=body, headers=self._always) as response:
            assert response.status == 200
            self.session = response.headers["Mcp-Session-Id"]
            self.hello = (await messages(response))[-1]["result"]
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, body: Any) -> tuple[int, list[dict[str, Any]]]:
        """POST a message; returns the status and the answer."""
        async with self.http.post(self.url, json=body, headers=self.headers) as response:
            if response.status == 202:
                return 202, []
            return response.status, await messages(response)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request; returns the last message of its answer."""
        self.count += 1
        body = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params or {}}
        return (await self.send(body))[1][-1]
