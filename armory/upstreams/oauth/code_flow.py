"""Logging a person in at an authorization server by authorization code (OAuth 2.1, RFC 9207, PKCE).

Owns: beginning and finishing such a login, and who the gateway is there. What becomes of the login
is the caller's business. Never logs a secret.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec
from cachetools import TTLCache
from yarl import URL

from armory.oauth.exchange import json_object
from armory.oauth.metadata import Undiscovered, same_issuer
from armory.oauth.pkce import challenge_of
from armory.upstreams.oauth.client import (
    TokenClient,
    TokenRefused,
    TokenResponse,
    client_authentication,
    error_text,
    secret_method,
)
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, discover
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import Login
from armory.upstreams.oauth.providers import login_parameters, resource_for

_CLIENTS, _CLIENT_S = 1_000, 3_600.0
Clients = MutableMapping[tuple[str, str], Login]
"""Who the gateway registered as, by issuer and redirect URI."""


def no_clients() -> Clients:
    """An empty cache of client registrations, each kept for an hour: a server may have lost one,
    and only the person at its login page would see that.
    """
    return TTLCache[tuple[str, str], Login](_CLIENTS, _CLIENT_S)


class BegunLogin(msgspec.Struct, frozen=True):
    """A login whose person is at the authorization server's page now.

    Attributes:
        client: who the gateway is there, and which server it is.
        verifier, state: secrets of this login.
        redirect_uri: where the person is sent back to.
        login_url: where it is sent.
        says_issuer: whether the answer must name the issuer (RFC 9207).
    """

    client: Login
    verifier: str
    state: str
    redirect_uri: str
    login_url: str
    says_issuer: bool


class CodeFlow(TokenClient):
    """The authorization-code grant at one authorization server.

    Args:
        server: key of the upstream.
        grant: as configured.
        clients: registrations that several logins share.
        more: as for `TokenClient`.
    """

    def __init__(
        self,
        server: str,
        grant: AuthorizationCode,
        clients: Clients | None = None,
        **more: Any,
    ) -> None:
        super().__init__(server, **more)
        self._clients = no_clients() if clients is None else clients
        self._grant = grant

    async def discover_server(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """Discover the authorization server of the upstream.

        Raises:
            NoToken: it cannot be found out.
        """
        try:
            return await discover(url, challenge, self._grant.issuer, "", self.fetch)
        except Undiscovered as error:
            raise self.undiscovered(error) from None

    async def granted_before(self, issuer: str) -> tuple[str, ...]:
        """Scopes of an earlier login at this issuer, to be requested again."""
        del issuer
        return ()

    async def begin(self, url: URL, challenge: Challenge, redirect_uri: str) -> BegunLogin:
        """Find the login page, and the client that the gateway is there.

        Args:
            url: what the token is to be for.
            challenge: what it answered without a token.
            redirect_uri: where the person is sent back to.

        Raises:
            NoToken: nobody can log in there.
        """
        place = await self.discover_server(url, challenge)
        if not place.login_url:
            raise self.failed(f"{place.issuer!r} has no authorization_endpoint")
        if not place.pkce:
            hint = "" if self._grant.issuer else "; if it does, name it as 'auth.issuer'"
            raise self.failed(
                f"{place.issuer!r} does not say that it takes S256 code challenges{hint}"
            )
        scopes = self._scopes(place, challenge, await self.granted_before(place.issuer))
        client = await self._client(place, redirect_uri)
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
            **resource_for(place.token_url, place.resource, self._grant.scopes),
        }
        if scopes:
            query["scope"] = " ".join(scopes)
        page = URL(place.login_url)
        login_url = str(page.update_query({**login_parameters(page), **query}))
        client = msgspec.structs.replace(client, scopes=scopes)
        return BegunLogin(
            client, verifier, state, redirect_uri, login_url, says_issuer=place.says_issuer
        )

    async def finish(self, begun: BegunLogin, back: Mapping[str, str]) -> tuple[Login, str]:
        """Exchange the code of a person who came back: (the login, the ID token or "").

        Raises:
            NoToken: they are not as they must be, or no token was given for them.
        """
        code = self._code(begun, back)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect_uri,
            "code_verifier": begun.verifier,
        }
        client = begun.client
        form |= resource_for(client.token_url, client.resource, self._grant.scopes)
        given = await self.given_to(client, form)
        return with_tokens(client, given), given.id_token

    async def given_to(self, login: Login, form: dict[str, str]) -> TokenResponse:
        """Request tokens for an existing login, such as by its refresh token.

        Raises:
            NoToken: nothing. Where it does not know the gateway any more, which had registered
                itself there, the next login registers anew.
        """
        headers = self.proof(login, form)
        try:
            return await self.request_token(AuthServerMetadata(login.token_url), headers, form)
        except TokenRefused as error:
            if error.what == "client":
                for key, known in list(self._clients.items()):
                    if known.client_id == login.client_id:
                        del self._clients[key]
            raise

    def proof(self, login: Login, form: dict[str, str]) -> dict[str, str]:
        """Headers (and members of `form`) of the client authentication for a login, with the client
        secret as it is configured now.
        """
        grant, secret = self._grant, login.client_secret
        same = not grant.issuer or same_issuer(grant.issuer, login.issuer)
        if secret and grant.client_secret and grant.client_id == login.client_id and same:
            secret = grant.client_secret
        return client_authentication(login.method, login.client_id, secret, form)

    def is_over(self, login: Login, error: Exception) -> bool:
        """Whether a login that got no token is lost, so that the person must log in again. Not so
        where the configured client was refused, or the failure may be temporary.
        """
        if not isinstance(error, TokenRefused) or error.what == "now":
            return False
        configured = (self._grant.client_id, self._grant.client_metadata_url)
        return error.what == "shown" or login.client_id not in configured

    def _scopes(
        self, place: AuthServerMetadata, challenge: Challenge, before: tuple[str, ...]
    ) -> tuple[str, ...]:
        scopes = self._grant.scopes
        if not scopes:
            scopes = tuple(dict.fromkeys((*before, *challenge.scopes))) or place.scopes
        if place.refreshes and scopes and "offline_access" not in scopes:
            scopes = (*scopes, "offline_access")
        return scopes

    def _code(self, begun: BegunLogin, back: Mapping[str, str]) -> str:
        """The authorization code, once everything that came with it was checked."""
        issuer = begun.client.issuer
        if not secrets.compare_digest(back.get("state", "").encode(), begun.state.encode()):
            raise self.refused("the answer does not belong to this login (its state differs)")
        named = back.get("iss")
        if named is None and begun.says_issuer:
            raise self.refused("the answer names no issuer, though the server says that it does")
        if named is not None and issuer and named != issuer:  # only its URLs may be configured
            raise self.refused(f"the answer is of issuer {named[:200]!r}, not {issuer!r}")
        if "error" in back:
            said = back.get("error_description") or back["error"]
            raise self.refused(f"the login was refused: {said[:200]}")
        code = back.get("code", "")
        if not code:
            raise self.refused("the answer has no code")
        return code

    async def _client(self, place: AuthServerMetadata, redirect_uri: str) -> Login:
        """The client that the gateway is at an authorization server: as configured, else
        registered.
        """
        grant = self._grant
        bare = Login(
            place.issuer,
            place.token_url,
            place.resource,
            grant.client_id,
            revoke_url=place.revoke_url,
        )
        if grant.client_id:
            method = secret_method(place) if grant.client_secret else "none"
            return msgspec.structs.replace(bare, client_secret=grant.client_secret, method=method)
        if grant.client_metadata_url and place.takes_documents:
            return msgspec.structs.replace(bare, client_id=grant.client_metadata_url)
        known = self._clients.get((place.issuer, redirect_uri))
        if known is None:
            known = await self._registered(bare, place, redirect_uri)
            self._clients[place.issuer, redirect_uri] = known
        return known

    async def _registered(self, bare: Login, place: AuthServerMetadata, redirect_uri: str) -> Login:
        """Register the gateway as a client (RFC 7591)."""
        if not place.register_url:
            raise self.failed(
                f"{place.issuer!r} registers no clients by itself; register one and give its "
                "'client_id'"
            )
        method = "none" if "none" in place.methods else secret_method(place)
        asked = {
            "client_name": "Armory",
            "application_type": "web" if redirect_uri.startswith("https:") else "native",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        status, body = await self.request("POST", place.register_url, {}, None, asked)
        answer = json_object(body) or {}
        id, secret = answer.get("client_id"), answer.get("client_secret")
        if status not in (200, 201) or not isinstance(id, str):
            raise self.failed(
                f"{place.register_url} registered no client: {error_text(status, answer)}"
            )
        decided = answer.get("token_endpoint_auth_method")
        return msgspec.structs.replace(
            bare,
            client_id=id,
            client_secret=secret if isinstance(secret, str) else "",
            method=decided if isinstance(decided, str) else method,
        )


class GatewayLogin(CodeFlow):
    """The same for people who log in at the gateway itself; messages name no upstream.

    Args:
        issuer: where they log in.
        grant: who the gateway is there.
        named: URLs that the configuration names.
    """

    def __init__(self, issuer: str, grant: AuthorizationCode, named: tuple[str, ...]) -> None:
        super().__init__("the gateway", grant, named=named)
        self.issuer = issuer
        self.registers_itself = not grant.client_id

    async def begin_here(self, redirect_uri: str) -> BegunLogin:
        """Begin to log somebody in; the browser comes back to `redirect_uri`.

        Raises:
            NoToken: it cannot be found out where.
        """
        return await self.begin(URL(self.issuer), Challenge(), redirect_uri)

    def _message(self, reason: str) -> str:
        return f"the login at {self.issuer} did not work: {reason}"


def with_tokens(login: Login, given: TokenResponse) -> Login:
    """A login with the tokens of a token response."""
    expires = None
    if given.lifetime_s != float("inf"):
        expires = time.time() + given.fresh_s
    return msgspec.structs.replace(
        login,
        access_token=given.token,
        refresh_token=given.refresh or login.refresh_token,
        expires_at=expires,
        scopes=tuple(dict.fromkeys((*login.scopes, *given.scopes))),
    )
