"""The token of a person who logged in, and logging in.

Owns: the authorization-code grant (PKCE, RFC 9207, registration) and refreshing. How a person is
sent to a page is the caller's business. Never imports the protocol's eras; never logs a secret.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from yarl import URL

from armory.oauth.exchange import json_object
from armory.oauth.metadata import Undiscovered
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, discover
from armory.upstreams.oauth.grants import AuthorizationCode, Grant
from armory.upstreams.oauth.logins import Login, Logins
from armory.upstreams.oauth.tokens import (
    LEAD_S,
    MachineTokens,
    NoToken,
    TokenResponse,
    Tokens,
    authenticated,
    secret_method,
    why,
)

Visit = Callable[[str], Awaitable[Mapping[str, str]]]
"""Sends the person to a URL; gives the parameters with which they were sent back."""


class AuthorizationCodeTokens(Tokens):
    """See `Tokens`.

    Args:
        server: key of the upstream.
        grant: as configured.
        more: as for `Tokens`.
    """

    def __init__(self, server: str, grant: AuthorizationCode, **more: Any) -> None:
        super().__init__(server, **more)
        self._grant = grant
        self._logins = Logins(Path(grant.store))
        self._login: Login | None = None

    async def current(self, url: URL) -> str | None:
        """As `Tokens.current`."""
        login = self._login
        if login is not None and _fresh(login):
            return login.access_token
        async with self._lock:
            login = self._login = self._logins.load(self._server)
            if login is None:
                return None
            if not _fresh(login):
                login = await self._refreshed(login)
            return login.access_token

    def lacks(self, challenge: Challenge) -> bool:
        """As `Tokens.lacks`."""
        login = self._login
        return login is not None and not set(challenge.scopes) <= set(login.scopes)

    async def renewed(self, refused: str | None, url: URL, challenge: Challenge) -> str:
        """As `Tokens.renewed`."""
        async with self._lock:
            login = self._login = self._logins.load(self._server)
            if login is None:
                raise self.failed("nobody has logged in" + self._hint())
            if login.access_token != refused:
                return login.access_token
            if set(challenge.scopes) <= set(login.scopes):
                place = await self.found(url, challenge)
                if place.issuer != login.issuer:
                    raise self.failed(f"it changed to issuer {place.issuer!r}" + self._hint())
                return (await self._refreshed(login)).access_token
            wanted = tuple(dict.fromkeys((*login.wanted, *challenge.scopes)))
            if wanted != login.wanted:
                self._keep(msgspec.structs.replace(login, wanted=wanted))
            first = "; add them to 'auth.scopes'" if self._grant.scopes else ""
            asked = " ".join(challenge.scopes)
            raise self.failed(f"it wants further permissions ({asked}){first}" + self._hint())

    async def _refreshed(self, login: Login) -> Login:
        """The login with a new token.

        Raises:
            NoToken: the person must log in again.
        """
        if not login.refresh_token:
            raise self.failed("the login has expired" + self._hint())
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.refresh_token,
            "resource": login.resource,
        }
        headers = authenticated(login.method, login.client_id, login.client_secret, form)
        try:
            given = await self.given(AuthServerMetadata(login.token_url), headers, form)
        except NoToken as error:
            # Refresh tokens tend to work once: another process may have been first.
            newer = self._logins.load(self._server)
            if newer is not None and newer.refresh_token != login.refresh_token and _fresh(newer):
                self._login = newer
                return newer
            raise NoToken(error.message + self._hint(), upstream=self._server) from None
        return self._keep(_with(login, given))

    def _keep(self, login: Login) -> Login:
        self._logins.save(self._server, login)
        self._login = login
        return login

    def _hint(self) -> str:
        return f"; run: armory login {self._server}"

    async def found(self, url: URL, challenge: Challenge) -> AuthServerMetadata:
        """The authorization server of the upstream.

        Raises:
            NoToken: it cannot be found out.
        """
        try:
            return await discover(url, challenge, self._grant.issuer, "", self.fetch)
        except Undiscovered as error:
            raise self.failed(str(error)) from None

    # -- logging in --------------------------------------------------------------------------

    async def log_in(
        self, url: URL, challenge: Challenge, redirect_uri: str, visit: Visit
    ) -> Login:
        """Have a person log in, and keep the login.

        Args:
            url: the upstream's endpoint.
            challenge: what it answered without a token.
            redirect_uri: where the person is sent back to.
            visit: sends them.

        Raises:
            NoToken: it did not work out; says why.
        """
        place = await self.found(url, challenge)
        if not place.login_url:
            raise self.failed(f"{place.issuer!r} has no authorization_endpoint")
        if not place.pkce:
            raise self.failed(f"{place.issuer!r} does not say that it takes S256 code challenges")
        before = self._logins.load(self._server)
        kept = before if before is not None and before.issuer == place.issuer else None
        scopes = self._scopes(place, challenge, kept)
        client = await self._client(place, redirect_uri)
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": place.resource,
        }
        if scopes:
            query["scope"] = " ".join(scopes)
        back = await visit(str(URL(place.login_url).update_query(query)))
        code = self._code(place, back, state)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "resource": place.resource,
        }
        headers = authenticated(client.method, client.client_id, client.client_secret, form)
        given = await self.given(place, headers, form)
        return self._keep(_with(msgspec.structs.replace(client, scopes=scopes), given))

    def _scopes(
        self, place: AuthServerMetadata, challenge: Challenge, kept: Login | None
    ) -> tuple[str, ...]:
        scopes = self._grant.scopes
        if not scopes:
            known = (*kept.scopes, *kept.wanted) if kept is not None else ()
            scopes = tuple(dict.fromkeys((*known, *challenge.scopes))) or place.scopes
        if place.refreshes and scopes and "offline_access" not in scopes:
            scopes = (*scopes, "offline_access")
        return scopes

    def _code(self, place: AuthServerMetadata, back: Mapping[str, str], state: str) -> str:
        """The authorization code, if all that came with it is as it must be."""
        if not secrets.compare_digest(back.get("state", "").encode(), state.encode()):
            raise self.failed("the answer does not belong to this login (its state differs)")
        named = back.get("iss")
        if named is None and place.says_issuer:
            raise self.failed("the answer names no issuer, though the server says that it does")
        if named is not None and named != place.issuer:
            raise self.failed(f"the answer is of issuer {named[:200]!r}, not {place.issuer!r}")
        if "error" in back:
            said = back.get("error_description") or back["error"]
            raise self.failed(f"the login was refused: {said[:200]}")
        code = back.get("code", "")
        if not code:
            raise self.failed("the answer has no code")
        return code

    async def _client(self, place: AuthServerMetadata, redirect_uri: str) -> Login:
        """Who the gateway is at an authorization server: as configured, else as it registers."""
        grant = self._grant
        bare = Login(place.issuer, place.token_url, place.resource, grant.client_id)
        if grant.client_id:
            method = secret_method(place) if grant.client_secret else "none"
            return msgspec.structs.replace(bare, client_secret=grant.client_secret, method=method)
        if grant.client_metadata_url and place.takes_documents:
            return msgspec.structs.replace(bare, client_id=grant.client_metadata_url)
        if not place.register_url:
            raise self.failed(
                f"{place.issuer!r} registers no clients by itself; register one and give its "
                "'client_id'"
            )
        method = "none" if "none" in place.methods else secret_method(place)
        asked = {
            "client_name": "Armory",
            "application_type": "native",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        status, body = await self.request("POST", place.register_url, {}, None, asked)
        answer = json_object(body) or {}
        id, secret = answer.get("client_id"), answer.get("client_secret")
        if status not in (200, 201) or not isinstance(id, str):
            raise self.failed(f"{place.register_url} registered no client: {why(status, answer)}")
        decided = answer.get("token_endpoint_auth_method")
        return msgspec.structs.replace(
            bare,
            client_id=id,
            client_secret=secret if isinstance(secret, str) else "",
            method=decided if isinstance(decided, str) else method,
        )


def _fresh(login: Login) -> bool:
    return login.expires_at is None or time.time() < login.expires_at


def _with(login: Login, given: TokenResponse) -> Login:
    expires = None
    if given.lifetime_s != float("inf"):
        expires = time.time() + given.lifetime_s - min(LEAD_S, given.lifetime_s / 4)
    return msgspec.structs.replace(
        login,
        access_token=given.token,
        refresh_token=given.refresh or login.refresh_token,
        expires_at=expires,
        scopes=tuple(dict.fromkeys((*login.scopes, *given.scopes))),
    )


def tokens_for(server: str, grant: Grant, **more: Any) -> Tokens:
    """The tokens of an upstream, by whatever grant."""
    if isinstance(grant, AuthorizationCode):
        return AuthorizationCodeTokens(server, grant, **more)
    return MachineTokens(server, grant, **more)
