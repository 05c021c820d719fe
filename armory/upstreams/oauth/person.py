"""The token of a person who logged in: stored, refreshed, revoked.

Owns: what becomes of a login (the login itself: `code_flow`). Never imports the protocol's eras;
never logs a secret.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from yarl import URL

from armory.errors import ArmoryError, BackendError
from armory.logger import Logger
from armory.tasks import Flight
from armory.upstreams.oauth.client import NoToken
from armory.upstreams.oauth.code_flow import BegunLogin, Clients, CodeFlow, with_tokens
from armory.upstreams.oauth.discovery import Challenge, is_at
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import FileLogin, Login, LoginStore
from armory.upstreams.oauth.providers import resource_for
from armory.upstreams.oauth.tokens import Tokens

_log = Logger(__name__)
_ELSEWHERE_S = 15.0
_LOOK_S = 0.1
Visit = Callable[[str], Awaitable[Mapping[str, str]]]
"""Sends the person to a URL and gives the parameters of the redirect back."""


class AuthorizationCodeTokens(CodeFlow, Tokens):
    """The token of a login, the gateway's own or one person's; see `Tokens`.

    Args:
        server: key of the upstream.
        grant: as configured.
        store: where the login is; None: in the gateway's own file.
        clients: registrations that several logins share.
        more: as for `Tokens`.
    """

    def __init__(
        self,
        server: str,
        grant: AuthorizationCode,
        store: LoginStore | None = None,
        clients: Clients | None = None,
        **more: Any,
    ) -> None:
        super().__init__(server, grant, clients, **more)
        self._store = FileLogin(Path(grant.store), server) if store is None else store
        self._login: Login | None = None
        self._changes = 0
        self._unkept: tuple[Login, Login] | None = None  # what is kept, what should be
        self._refreshing = Flight[Login]("refreshing a login")

    def login_needed(self, reason: str) -> ArmoryError:
        """The error that asks for a login."""
        return self.failed(f"{reason}; run: armory login {self._server}")

    async def current(self, url: URL) -> str | None:
        """As `Tokens.current`."""
        login = self._login
        if login is not None and _fresh(login) and not self._store.changed:
            if self._unkept is not None:
                await self._kept_at_last()
            return login.access_token
        async with self._lock:
            login = await self._looked_up(url)
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
            login = await self._looked_up(url)
            if login is None:
                raise self.login_needed("nobody has logged in")
            if login.access_token != refused:
                return login.access_token
            if set(challenge.scopes) <= set(login.scopes):
                place = await self.discover_server(url, challenge)
                if place.issuer != login.issuer:
                    raise self.login_needed(f"it changed to issuer {place.issuer!r}")
                return (await self._refreshed(login)).access_token
            wanted = tuple(dict.fromkeys((*login.wanted, *challenge.scopes)))
            if wanted != login.wanted:
                await self._replace(login, msgspec.structs.replace(login, wanted=wanted))
            first = "; add them to 'auth.scopes'" if self._grant.scopes else ""
            asked = " ".join(challenge.scopes)
            raise self.login_needed(f"it wants further permissions ({asked}){first}")

    async def _refreshed(self, login: Login) -> Login:
        """Refresh the login's token.

        The refresh goes on when the caller leaves: a refresh token often works once only, and its
        successor must be stored.

        Raises:
            NoToken: the authorization server is not there.
            ArmoryError: the person must log in again.
        """
        return await self._refreshing.join(lambda: self._refresh(login))

    async def _refresh(self, login: Login) -> Login:
        """Request a new token; one process at a time does."""
        login, renewed = await self._leased(login)
        if renewed:
            return login
        if not login.refresh_token:
            await self._store.release()
            raise self.login_needed("the login has expired")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.refresh_token,
            **resource_for(login.token_url, login.resource, self._grant.scopes),
        }
        kept = False
        try:
            given = await self.given_to(login, form)
            before, login = login, with_tokens(login, given)
            kept = await self._replace(before, login)
        except NoToken as error:
            # Another process may have been first.
            newer = await self._store.load()
            if newer is not None and newer.refresh_token != login.refresh_token and _fresh(newer):
                self._login = newer
                return newer
            if self.is_over(login, error):
                raise self.login_needed(_reason(error)) from None
            raise
        finally:
            if not kept:  # keeping it ends the lease
                await self._store.release()
        if not kept:
            newer = await self._store.load()
            if newer is None:
                await self._give_back(login)
                raise self.login_needed("nobody is logged in any more")
            login = newer  # the person logged in anew meanwhile, perhaps as somebody else
        self._login = login
        return login

    async def _replace(self, before: Login, login: Login) -> bool:
        """Store a login in place of the one before; returns whether that was still stored.

        Where it cannot be stored now (a full disk, say), it is used all the same and stored later:
        the old refresh token may have worked for the last time.
        """
        before = before if self._unkept is None else self._unkept[0]
        try:
            there = await self._store.replace(login, before)
        except (OSError, BackendError) as error:
            if self._unkept is None:
                _log.error("login_not_kept", upstream=self._server, error=str(error))
            self._unkept = before, login
            return True
        self._unkept = None
        return there

    async def _load(self) -> Login | None:
        """The login as it is stored, or waits to be stored."""
        login = await self._store.load()
        if self._unkept is None:
            return login
        before, newer = self._unkept
        if login is None or not login.is_of(before):  # changed elsewhere
            self._unkept = None
            return login
        return newer if await self._replace(before, newer) else await self._store.load()

    async def _kept_at_last(self) -> None:
        """Try again to store a login that could not be stored."""
        async with self._lock:
            with suppress(BackendError):  # as before
                await self._load()

    async def _leased(self, login: Login) -> tuple[Login, bool]:
        """Take the lease: (the stored login, whether another process has just refreshed it).

        Where no other process has, this one may refresh it now.
        """
        until = time.monotonic() + _ELSEWHERE_S
        leased = await self._store.lease()
        while True:
            kept = await self._load()  # after the lease: it may have just been saved
            if kept is None:
                raise self.login_needed("nobody has logged in")
            if kept.access_token != login.access_token and _fresh(kept):
                if leased:
                    await self._store.release()
                self._login = kept
                return kept, True
            if leased or time.monotonic() > until:
                return kept, False
            await asyncio.sleep(_LOOK_S)
            leased = await self._store.lease()

    @asynccontextmanager
    async def _unrefreshed(self) -> AsyncGenerator[None]:
        """Wait until this process refreshes nothing, and keep it so for the block."""
        async with self._lock:
            await self._refreshing.landed()
            yield

    async def _looked_up(self, url: URL) -> Login | None:
        """The stored login, which is used from now on. Read again where it was changed elsewhere
        during the read.
        """
        changes = -1
        login = None
        while changes != self._changes:
            changes = self._changes
            login = await self.kept(url)
        self._login = login
        return login

    async def kept(self, url: URL) -> Login | None:
        """The login for the upstream at `url`; None where there is none. A login of another
        upstream that had the same key before is never sent.
        """
        login = await self._load()
        return login if login is not None and is_at(login.resource, url) else None

    async def log_out(self) -> bool:
        """Delete the login, and revoke its tokens if possible; returns whether there was one."""
        async with self._unrefreshed():
            login = await self._load()
            if login is None:
                return False
            await self._store.save(None)
            self._login = None
        await self._give_back(login)
        return True

    async def _give_back(self, login: Login) -> None:
        """Revoke its tokens, where the server can."""
        if login.revoke_url:
            form = {"token": login.refresh_token or login.access_token}
            headers = self.proof(login, form)
            with suppress(NoToken):  # it is forgotten here in any case
                await self.request("POST", login.revoke_url, headers, form)

    def forget(self) -> None:
        """The login was changed elsewhere: read the store again."""
        self._changes += 1
        self._login = None

    async def log_in(
        self, url: URL, challenge: Challenge, redirect_uri: str, visit: Visit
    ) -> Login:
        """Log a person in, and store the login.

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

    async def granted_before(self, issuer: str) -> tuple[str, ...]:
        """As `CodeFlow.granted_before`: the scopes of the login that is renewed."""
        kept = await self._store.load()
        return () if kept is None or kept.issuer != issuer else (*kept.scopes, *kept.wanted)

    async def finish(self, begun: BegunLogin, back: Mapping[str, str]) -> tuple[Login, str]:
        """As `CodeFlow.finish`; also stores the login."""
        login, id_token = await super().finish(begun, back)
        async with self._unrefreshed():
            await self._store.save(login)
            self._login = login
        return login, id_token


def _reason(error: NoToken) -> str:
    return error.message.partition("no access token: ")[2] or error.message


def _fresh(login: Login) -> bool:
    return login.expires_at is None or time.time() < login.expires_at
