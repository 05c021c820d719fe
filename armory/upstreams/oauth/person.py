"""The token of a person who logged in, and logging in.

Owns: the authorization-code grant (PKCE, RFC 9207, registration) and refreshing. How a person is
sent to a page is the caller's business. Never imports the protocol's eras; never logs a secret.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from yarl import URL

from armory.errors import ArmoryError
from armory.oauth.exchange import json_object
from armory.oauth.metadata import Undiscovered
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, discover
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import FileLogin, Login, LoginStore
from armory.upstreams.oauth.tokens import (
    LEAD_S,
    NoToken,
    TokenRefused,
    TokenResponse,
    Tokens,
    authenticated,
    secret_method,
    why,
)

_ELSEWHERE_S = 15.0
_LOOK_S = 0.1
Visit = Callable[[str], Awaitable[Mapping[str, str]]]
"""Sends the person to a URL; gives the parameters with which they were sent back."""


class BegunLogin(msgspec.Struct, frozen=True):
    """A login whose person is at the authorization server's page.

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


class AuthorizationCodeTokens(Tokens):
    """See `Tokens`.

    Args:
        server: key of the upstream.
        grant: as configured.
        store: where the login is; None: in the gateway's own file.
        clients: registrations that several logins share, by issuer and redirect URI.
        more: as for `Tokens`.
    """

    def __init__(
        self,
        server: str,
        grant: AuthorizationCode,
        store: LoginStore | None = None,
        clients: dict[tuple[str, str], Login] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(server, **more)
        self._clients = {} if clients is None else clients
        self._grant = grant
        self._store = FileLogin(Path(grant.store), server) if store is None else store
        self._login: Login | None = None

    def wanting(self, reason: str) -> ArmoryError:
        """The error that asks for a login."""
        return self.failed(f"{reason}; run: armory login {self._server}")

    async def current(self, url: URL) -> str | None:
        """As `Tokens.current`."""
        login = self._login
        if login is not None and _fresh(login):
            return login.access_token
        async with self._lock:
            login = self._login = await self._store.load()
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
            login = self._login = await self._store.load()
            if login is None:
                raise self.wanting("nobody has logged in")
            if login.access_token != refused:
                return login.access_token
            if set(challenge.scopes) <= set(login.scopes):
                place = await self.found(url, challenge)
                if place.issuer != login.issuer:
                    raise self.wanting(f"it changed to issuer {place.issuer!r}")
                return (await self._refreshed(login)).access_token
            wanted = tuple(dict.fromkeys((*login.wanted, *challenge.scopes)))
            if wanted != login.wanted:
                await self._keep(msgspec.structs.replace(login, wanted=wanted))
            first = "; add them to 'auth.scopes'" if self._grant.scopes else ""
            asked = " ".join(challenge.scopes)
            raise self.wanting(f"it wants further permissions ({asked}){first}")

    async def _refreshed(self, login: Login) -> Login:
        """The login with a new token, which one process alone asks for.

        Raises:
            NoToken: the authorization server is not there.
            ArmoryError: the person must log in again.
        """
        if not login.refresh_token:
            raise self.wanting("the login has expired")
        if not await self._store.lease():
            newer = await self._refreshed_elsewhere(login)
            if newer is not None:
                return newer
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.refresh_token,
            "resource": login.resource,
        }
        headers = authenticated(login.method, login.client_id, login.client_secret, form)
        try:
            given = await self.given(AuthServerMetadata(login.token_url), headers, form)
        except NoToken as error:
            await self._store.release()
            # Refresh tokens tend to work once: another process may have been first.
            newer = await self._store.load()
            if newer is not None and newer.refresh_token != login.refresh_token and _fresh(newer):
                self._login = newer
                return newer
            if isinstance(error, TokenRefused):
                raise self.wanting(_reason(error)) from None
            raise
        return await self._keep(_with(login, given))

    async def _refreshed_elsewhere(self, login: Login) -> Login | None:
        """What another process made of the login; None where it made nothing of it in time."""
        until = time.monotonic() + _ELSEWHERE_S
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_S)
            newer = await self._store.load()
            if newer is None:
                raise self.wanting("nobody has logged in")
            if newer.access_token != login.access_token and _fresh(newer):
                self._login = newer
                return newer
            if await self._store.lease():
                return None
        return None

    async def _keep(self, login: Login) -> Login:
        await self._store.save(login)
        self._login = login
        return login

    async def kept(self) -> Login | None:
        """The login; None where there is none."""
        return await self._store.load()

    async def log_out(self) -> bool:
        """Forget the login, and give its tokens back if that can be done; whether there was one."""
        login = await self._store.load()
        if login is None:
            return False
        await self._store.save(None)
        self._login = None
        token = login.refresh_token or login.access_token
        if login.revoke_url:
            form = {"token": token}
            headers = authenticated(login.method, login.client_id, login.client_secret, form)
            with suppress(NoToken):  # it is forgotten here in any case
                await self.request("POST", login.revoke_url, headers, form)
        return True

    def forget(self) -> None:
        """Look at the store again: the login was changed elsewhere."""
        self._login = None

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
        begun = await self.begin(url, challenge, redirect_uri)
        return (await self.finish(begun, await visit(begun.login_url)))[0]

    async def begin(self, url: URL, challenge: Challenge, redirect_uri: str) -> BegunLogin:
        """Find out where a person logs in, and as which client; see `log_in`."""
        place = await self.found(url, challenge)
        if not place.login_url:
            raise self.failed(f"{place.issuer!r} has no authorization_endpoint")
        if not place.pkce:
            raise self.failed(f"{place.issuer!r} does not say that it takes S256 code challenges")
        before = await self._store.load()
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
        }
        if place.resource:
            query["resource"] = place.resource
        if scopes:
            query["scope"] = " ".join(scopes)
        login_url = str(URL(place.login_url).update_query(query))
        client = msgspec.structs.replace(client, scopes=scopes)
        return BegunLogin(
            client, verifier, state, redirect_uri, login_url, says_issuer=place.says_issuer
        )

    async def finish(
        self, begun: BegunLogin, back: Mapping[str, str], *, keep: bool = True
    ) -> tuple[Login, str]:
        """(the login, the ID token or "") of a person who came back with these parameters.

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
        if client.resource:
            form["resource"] = client.resource
        headers = authenticated(client.method, client.client_id, client.client_secret, form)
        given = await self.given(AuthServerMetadata(client.token_url), headers, form)
        login = _with(client, given)
        return (await self._keep(login) if keep else login), given.id_token

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

    def _code(self, begun: BegunLogin, back: Mapping[str, str]) -> str:
        """The authorization code, if all that came with it is as it must be."""
        issuer = begun.client.issuer
        if not secrets.compare_digest(back.get("state", "").encode(), begun.state.encode()):
            raise self.failed("the answer does not belong to this login (its state differs)")
        named = back.get("iss")
        if named is None and begun.says_issuer:
            raise self.failed("the answer names no issuer, though the server says that it does")
        if named is not None and named != issuer:
            raise self.failed(f"the answer is of issuer {named[:200]!r}, not {issuer!r}")
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
        if known is not None:
            return known
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
            raise self.failed(f"{place.register_url} registered no client: {why(status, answer)}")
        decided = answer.get("token_endpoint_auth_method")
        made = self._clients[place.issuer, redirect_uri] = msgspec.structs.replace(
            bare,
            client_id=id,
            client_secret=secret if isinstance(secret, str) else "",
            method=decided if isinstance(decided, str) else method,
        )
        return made


def _reason(error: NoToken) -> str:
    return error.message.partition("no access token: ")[2] or error.message


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
