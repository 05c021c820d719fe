"""An upstream where people have accounts: each token's subject sees its own notes.

Owns: `AccountsServer`. Never imports the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from armory.testing.listening import listening

META = "io.modelcontextprotocol/"
_COMPLETE = {"resultType": "complete"}


@dataclass
class AccountsServer:
    """A modern upstream at /mcp on its own port.

    Attributes:
        verified: gives the claims of a token, None for one that does not hold.
        issuer: the authorization server that it names.
        url: its endpoint.
        notes: what each subject has noted.
        seen: (subject, method) of every request that came with a token that holds.
        bare: how many came without.
        listens: each subject's open stream of updates, with the id of its request.
        held: set when a tool is called, and waited for before the answer; None: it comes at once.
    """

    verified: Callable[[str], Mapping[str, Any] | None]
    issuer: str
    url: str = ""
    notes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    seen: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    bare: int = 0
    listens: dict[str, tuple[web.StreamResponse, Any]] = field(
        default_factory=dict[str, tuple[web.StreamResponse, Any]]
    )
    held: tuple[asyncio.Event, asyncio.Event] | None = None

    async def __aenter__(self) -> AccountsServer:
        app = web.Application()
        app.router.add_get("/.well-known/oauth-protected-resource/mcp", self._metadata)
        app.router.add_post("/mcp", self._mcp)
        self._ended = asyncio.Event()
        self._runner, origin = await listening(app)
        self.url = f"{origin}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await self._runner.cleanup()

    async def updated(self, who: str, what: str) -> None:
        """Notify those who listen with a token of this subject that `notes` or `name` changed."""
        stream, id = self.listens[who]
        params = {"uri": f"me://{what}", "_meta": {META + "subscriptionId": id}}
        await _tell(stream, "notifications/resources/updated", params)

    async def _listen(
        self, request: web.Request, who: str, body: Mapping[str, Any]
    ) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        id, wanted = body["id"], body["params"]["notifications"]
        meta = {META + "subscriptionId": id}
        params = {"notifications": wanted, "_meta": meta}
        await _tell(stream, "notifications/subscriptions/acknowledged", params)
        if wanted.get("resourceSubscriptions"):
            self.listens[who] = stream, id
        await self._ended.wait()
        return stream

    async def _metadata(self, _request: web.Request) -> web.Response:
        found = {"resource": self.url, "authorization_servers": [self.issuer]}
        return web.json_response(found)

    async def _mcp(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        claims = self.verified(token) if token else None
        if claims is None or claims.get("aud") != self.url:
            self.bare += 1
            origin = self.url.removesuffix("/mcp")
            place = f"{origin}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{place}"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        body = await request.json()
        who = str(claims["sub"])
        self.seen.append((who, body["method"]))
        if body["method"] == "subscriptions/listen":
            return await self._listen(request, who, body)
        if self.held is not None and body["method"] == "tools/call":
            self.held[0].set()
            await self.held[1].wait()
        result = self._result(who, body["method"], body.get("params") or {})
        answer = {"jsonrpc": "2.0", "id": body.get("id"), "result": {**_COMPLETE, **result}}
        return web.json_response(answer)

    def _result(  # noqa: C901 one case a method
        self, who: str, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        mine = self.notes.setdefault(who, [])
        match method:
            case "server/discover":
                return {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {
                        "tools": {},
                        "prompts": {},
                        "resources": {"subscribe": True},
                        "completions": {},
                    },
                    "_meta": {META + "serverInfo": {"name": "accounts", "version": "1"}},
                }
            case "tools/list":
                names = ["note", f"only_{who}"]
                return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
            case "prompts/list":
                return {"prompts": [{"name": "me"}]}
            case "resources/list":
                names = ("notes", "name")
                return {"resources": [{"uri": f"me://{name}", "name": name} for name in names]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "tools/call":
                text = (params.get("arguments") or {}).get("text")
                if text is not None:
                    mine.append(text)
                content = [{"type": "text", "text": f"{who}: {' '.join(mine)}"}]
                return {"content": content}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": who}}]}
            case "resources/read":
                return {"contents": [{"uri": "me://notes", "text": f"{who}: {' '.join(mine)}"}]}
            case "completion/complete":
                return {"completion": {"values": [who]}}
            case _:
                return {}


async def _tell(stream: web.StreamResponse, method: str, params: Mapping[str, Any]) -> None:
    said = json.dumps({"jsonrpc": "2.0", "method": method, "params": params})
    await stream.write(f"data: {said}\n\n".encode())
