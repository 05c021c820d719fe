"""The OAuth endpoints without a browser: metadata, registration, tokens, revocation.

Owns: these routes. Never shows a page.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import unquote_plus

from aiohttp import web

from armory.authserver.assertions import JWT_BEARER
from armory.authserver.client_keys import KIND, claimed
from armory.authserver.clients import Client
from armory.authserver.errors import OAuthError, UnusableClient
from armory.authserver.grants import TokenResponse
from armory.authserver.metadata import document
from armory.errors import ArmoryError
from armory.logger import Logger
from armory.oauth.exchange import json_object
from armory.oauth.metadata import resource_id
from armory.web.oauth.urls import (
    ANYBODY,
    BODY_BYTES,
    GatewayUrls,
    OAuthServices,
    as_json,
    form_of,
    refusal,
)

_log = Logger(__name__)
_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_Handler = Callable[[web.Request], Awaitable[web.Response]]


class Endpoints:
    """The endpoints of the authorization server."""

    def __init__(self, services: OAuthServices) -> None:
        self._s = services
        self._server = services.server
        self._urls = GatewayUrls(services)

    def register(self, app: web.Application) -> None:
        """Register the routes: metadata at the root, as RFC 8414 has it, and below `base_path`."""
        base = self._s.base_path
        found = [f"{known}{tail}" for known in (_SERVER, _OPENID) for tail in ("", base)]
        found += [f"{base}{known}" for known in (_SERVER, _OPENID)]
        for path in dict.fromkeys(found):
            self._add(app, "GET", path, self._metadata)
        self._add(app, "GET", f"{base}/oauth/jwks", self._keys)
        self._add(app, "POST", f"{base}/oauth/register", self._registered)
        self._add(app, "POST", f"{base}/oauth/token", self._token)
        self._add(app, "POST", f"{base}/oauth/revoke", self._revoked)

    def _add(self, app: web.Application, method: str, path: str, handler: _Handler) -> None:
        async def guarded(request: web.Request) -> web.Response:
            try:
                if not self._urls.is_allowed(request):
                    raise OAuthError("access_denied", "this Host is not allowed here", 403)
                return await handler(request)
            except OAuthError as error:
                _log.rate_limited(
                    "info",
                    "oauth_refused",
                    path=request.path,
                    error=error.code,
                    reason=error.description,
                )
                return refusal(error)
            except ArmoryError as error:
                _log.rate_limited("warning", "oauth_failed", path=request.path, error=error.message)
                return refusal(OAuthError("temporarily_unavailable", "try again later", 503))

        app.router.add_route(method, path, guarded)
        app.router.add_route("OPTIONS", path, _preflight)

    async def _metadata(self, request: web.Request) -> web.Response:
        found = document(
            self._urls.issuer(request),
            self._server.settings.granted,
            id_jags=self._server.assertions.enabled,
        )
        return as_json(found, headers={"Cache-Control": "max-age=300"})

    async def _keys(self, _request: web.Request) -> web.Response:
        return as_json({"keys": []})

    async def _registered(self, request: web.Request) -> web.Response:
        if (request.content_length or 0) > BODY_BYTES:
            raise OAuthError("invalid_client_metadata", f"at most {BODY_BYTES} bytes", 413)
        body = await request.read()
        asked = json_object(body) if len(body) <= BODY_BYTES else None
        if asked is None:
            raise OAuthError("invalid_client_metadata", "send a JSON object")
        return as_json(self._server.registrations.register(asked), 201)

    async def _token(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        client = await self._client(request, form)
        kind = form.get("grant_type")
        grants, resource = self._server.grants, resource_id(form.get("resource", ""))
        if kind == "authorization_code":
            code, verifier = form.get("code", ""), form.get("code_verifier", "")
            uri = form.get("redirect_uri", "")
            return self._token_response(await grants.redeem(code, client, uri, verifier, resource))
        if kind == "refresh_token":
            token = form.get("refresh_token", "")
            return self._token_response(await grants.refresh(token, client, resource))
        if kind == JWT_BEARER and self._server.assertions.enabled:
            return await self._vouched(request, form, client)
        raise OAuthError("unsupported_grant_type", "expected authorization_code or refresh_token")

    async def _vouched(
        self, request: web.Request, form: Mapping[str, str], client: Client
    ) -> web.Response:
        """The token response for a client with an ID-JAG of its person's identity provider."""
        issuer, assertion = self._urls.issuer(request), form.get("assertion", "")
        asked = form.get("scope", "").split()
        said = await self._server.assertions.read(assertion, client, issuer, asked, time.time())
        wanted = resource_id(form.get("resource", ""))
        resource = resource_id(said.resource) or wanted or f"{issuer}/mcp"
        if (wanted and wanted != resource) or not self._urls.is_resource(request, resource):
            raise OAuthError(
                "invalid_target",
                f"resource must be the URL of an endpoint of this gateway, e.g. {issuer}/mcp, and "
                "the one that the assertion names",
            )
        return self._token_response(
            await self._server.grants.vouched(said, client, resource), said.scopes
        )

    def _token_response(
        self, given: TokenResponse, scopes: Sequence[str] | None = None
    ) -> web.Response:
        found = {
            "access_token": given.access,
            "token_type": "Bearer",
            "expires_in": given.lifetime_s,
            "scope": " ".join(self._server.settings.granted if scopes is None else scopes),
        }
        if given.refresh:
            found["refresh_token"] = given.refresh
        return as_json(found)

    async def _revoked(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        client = await self._client(request, form)
        await self._server.grants.revoke(form.get("token", ""), client)
        return as_json({})

    async def _client(self, request: web.Request, form: dict[str, str]) -> Client:
        """The client of a request, authenticated.

        Raises:
            UnusableClient: the client is unknown, or its credentials do not match.
        """
        id, secret = form.get("client_id", ""), form.get("client_secret", "")
        header = request.headers.get("Authorization", "")
        if header[:6].lower() == "basic ":
            said = _basic(header[6:])
            if said is None or (id and id != said[0]):
                raise UnusableClient("the Authorization header names another client, or none")
            id, secret = said
        assertion = form.get("client_assertion", "")
        if assertion and form.get("client_assertion_type") != KIND:
            raise UnusableClient(f"expected client_assertion_type {KIND}")
        if assertion and not id:
            id = claimed(assertion)
        client = await self._server.client(id, self._urls.asker(request))
        await self._server.check(client, secret, assertion, self._urls.issuer(request))
        return client


def _basic(said: str) -> tuple[str, str] | None:
    """(id, secret) of HTTP Basic authentication (RFC 6749, 2.3.1); None where it is malformed."""
    try:
        id, colon, secret = base64.b64decode(said, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (unquote_plus(id), unquote_plus(secret)) if colon else None


async def _preflight(_request: web.Request) -> web.Response:
    headers = {
        **ANYBODY,
        "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
        "Access-Control-Max-Age": "600",
    }
    return web.Response(status=204, headers=headers)
