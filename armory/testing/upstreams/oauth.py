"""An authorization server and an upstream that requires its tokens, over real HTTP.

Owns: `World`. Never imports the gateway.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from yarl import URL

from armory.testing.listening import listening

META = "io.modelcontextprotocol/"


@dataclass
class World:
    """Both servers, on one port: the upstream at /mcp, the authorization server at /as.

    Attributes:
        url: of both, without a path.
        issuer_path: where the authorization server says that it is.
        named: the authorization server that the upstream names, None: the one here.
        resource: what the upstream says that it is, None: itself.
        methods: client authentication that the authorization server says that it takes.
        scopes_supported: of the upstream.
        challenge_scope: what the upstream asks for with a 401.
        needed: scopes without which the upstream answers 403.
        lifetime: of tokens in seconds, None: not said.
        refusal: what the token endpoint answers instead of a token.
        refused_with: the status of that.
        metadata: further members of the authorization server's metadata.
        back: members that replace those with which a person is sent back; None takes one away.
        valid: tokens that the upstream takes.
        requests: what the token endpoint was asked.
        registered: what clients registered with.
        tokens: what came with each request to the upstream, None: nothing.
        gate: while cleared, the token endpoint waits.
        tls: serves over https.
    """

    url: str = ""
    issuer_path: str = "/as"
    named: str | None = None
    resource: str | None = None
    methods: list[str] | None = None
    scopes_supported: list[str] | None = None
    challenge_scope: str = ""
    needed: set[str] = field(default_factory=set[str])
    lifetime: int | None = 3600
    refusal: dict[str, Any] | None = None
    refused_with: int = 401
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    back: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    valid: set[str] = field(default_factory=set[str])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    registered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tokens: list[str | None] = field(default_factory=list[str | None])
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: dict[str, str] = field(default_factory=dict[str, str])
    tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> World:
        self.gate.set()
        app = web.Application()
        app.router.add_get("/.well-known/oauth-protected-resource/mcp", self.resource_metadata)
        app.router.add_get("/.well-known/oauth-authorization-server/as", self.server_metadata)
        app.router.add_post("/as/token", self.token)
        app.router.add_post("/as/register", self.register)
        app.router.add_post("/mcp", self.mcp)
        self._runner, self.url = await listening(app, self.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def takes_people(self, **more: Any) -> None:
        """Support logins, client registration and PKCE."""
        self.metadata = {
            "authorization_endpoint": f"{self.url}/as/authorize",
            "registration_endpoint": f"{self.url}/as/register",
            "code_challenge_methods_supported": ["S256"],
            **more,
        }

    @property
    def issuer(self) -> str:
        """The issuer identifier of the authorization server."""
        return f"{self.url}{self.issuer_path}"

    async def resource_metadata(self, request: web.Request) -> web.Response:
        """The upstream's resource metadata."""
        del request
        found: dict[str, Any] = {
            "resource": self.resource or f"{self.url}/mcp",
            "authorization_servers": [self.named or self.issuer],
        }
        if self.scopes_supported is not None:
            found["scopes_supported"] = self.scopes_supported
        return web.json_response(found)

    async def server_metadata(self, request: web.Request) -> web.Response:
        """The authorization server's metadata."""
        del request
        found: dict[str, Any] = {"issuer": self.issuer, "token_endpoint": f"{self.url}/as/token"}
        if self.methods is not None:
            found["token_endpoint_auth_methods_supported"] = self.methods
        return web.json_response({**found, **self.metadata})

    async def register(self, request: web.Request) -> web.Response:
        """Register a client."""
        self.registered.append(await request.json())
        return web.json_response({"client_id": f"client-{len(self.registered)}"}, status=201)

    def sent_back(self, url: str) -> dict[str, str]:
        """The redirect parameters for a person who was sent to `url` and agrees."""
        query = URL(url).query
        self.asked = dict(query)
        back = {"code": "the-code", "state": query["state"], "iss": self.issuer, **self.back}
        return {name: text for name, text in back.items() if text is not None}

    async def token(self, request: web.Request) -> web.Response:
        """Issue a token."""
        form = {name: str(text) for name, text in (await request.post()).items()}
        self.requests.append({**form, "basic": request.headers.get("Authorization")})
        await self.gate.wait()
        if self.refusal is not None:
            return web.json_response(self.refusal, status=self.refused_with)
        token = f"token-{len(self.requests)}"
        self.valid.add(token)
        found = {"access_token": token, "token_type": "Bearer"}
        if "refresh_token" in form or "code" in form:
            found["refresh_token"] = f"refresh-{len(self.requests)}"
        more = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return web.json_response({**found, **more})

    async def mcp(self, request: web.Request) -> web.Response:
        """Answer a modern request that has a token."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tokens.append(given or None)
        scope = f', scope="{self.challenge_scope}"' if self.challenge_scope else ""
        place = f'resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
        if given not in self.valid:
            headers = {"WWW-Authenticate": f"Bearer {place}{scope}"}
            return web.Response(status=401, headers=headers)
        scope = self.requests[-1].get("scope") or self.asked.get("scope", "")
        granted = set(scope.split())
        if not self.needed <= granted:
            wanted = " ".join(sorted(self.needed))
            error = f'Bearer error="insufficient_scope", scope="{wanted}", {place}'
            return web.Response(status=403, headers={"WWW-Authenticate": error})
        body = await request.json()
        result: dict[str, Any] = {"resultType": "complete", "content": []}
        if body["method"] == "server/discover":
            result = {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "_meta": {META + "serverInfo": {"name": "kept", "version": "1"}},
            }
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": result})
