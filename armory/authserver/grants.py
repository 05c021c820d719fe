"""Codes, access tokens and refresh tokens, all tied to a grant.

Owns: that a code and a refresh token count once, and that one which is used twice ends the grant
with all its tokens; a refresh token is answered again for a moment. Never talks HTTP, never logs a
token.

A grant is stored sealed, with the provider's tokens (`kept_grants.py`). A token is the grant's id,
sealed (`tokens.py`): who reads the database can make none.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armory.authserver.assertions import Vouched
from armory.authserver.clients import Client
from armory.authserver.errors import InvalidGrant, OAuthError
from armory.authserver.kept_grants import KEPT_S, LOOK_S, Grant, GrantStore, KeptGrants
from armory.authserver.provider import Provider
from armory.authserver.requests import Request
from armory.authserver.tokens import ACCESS, CODE, REFRESH, Handle, Kind, Tokens
from armory.logger import Logger
from armory.oauth.pkce import verifies
from armory.upstreams.oauth.logins import Login

if TYPE_CHECKING:
    from armory.security.sealing import Seal

_log = Logger(__name__)
_ASSERTION = "oauth assertion"
ACCESS_S, _LEAST_S = 1_800.0, 60.0
_CODE_S, _BEGUN_S = 60.0, 600.0
_CODE_KNOWN_S = 660.0
"""How long a code itself says that it holds, by the clock of the replica that made it, which
another replica's may differ from. The store, with one clock for all, decides when it expires."""
_REUSE_S = 30.0
"""How long the refresh token before the newest is answered as it was, as Okta and Cognito do: two
windows of a program may refresh at once, and a client that lost the answer asks again."""
_GIVEN_UP_S = 60.0
"""A renewal that takes longer counts as abandoned: its replica has ended."""


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The successful answer of the token endpoint.

    Attributes:
        access, refresh: tokens; no refresh token for an ID-JAG.
        lifetime_s: of the access token.
    """

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    lifetime_s: int


class Grants:
    """Issues codes and tokens, and ends a grant when a code or refresh token is reused.

    Args:
        store: where grants are stored.
        seal: makes tokens.
        provider: is asked whether a person may still come in.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        store: GrantStore,
        seal: Seal,
        provider: Provider,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._tokens = Tokens(seal)
        self._grants = KeptGrants(store, provider)
        self._clock = clock

    async def begin(self, state: str) -> str | None:
        """The id of a new grant for a login with this `state`; None: the state was used already."""
        id = hashlib.sha256(state.encode()).hexdigest()
        return id if await self._store.begin(id, _BEGUN_S) else None

    async def code(self, id: str, grant: Grant) -> str:
        """Issue the code that the client receives.

        Raises:
            OAuthError: somebody else was first.
        """
        if not await self._store.take(id, 0, grant.at(1), _CODE_S):
            raise OAuthError("access_denied", "this login was used already")
        return self._tokens.token(CODE, Handle(id, 1, self._clock() + _CODE_KNOWN_S))

    async def redeem(
        self, code: str, client: Client, redirect_uri: str, verifier: str, resource: str
    ) -> TokenResponse:
        """Exchange a code for tokens.

        Raises:
            OAuthError: the code is not of this client and login; or it was used before, which
                ends what it led to.
        """
        handle = self._opened(CODE, code)
        step, grant, _ = await self._found(handle, client)
        if step != handle.step:
            raise await self._reused(handle)
        asked = grant.request
        if redirect_uri and redirect_uri != asked.redirect_uri:
            raise InvalidGrant("redirect_uri is not the one of the authorization request")
        if not verifies(verifier, asked.challenge):
            raise InvalidGrant("code_verifier does not fit the code_challenge")
        self._check_resource(resource, asked)
        if not await self._store.take(handle.grant, 1, grant.at(2), KEPT_S):
            raise await self._reused(handle)
        return self._response(handle.grant, 2, grant)

    async def vouched(self, said: Vouched, client: Client, resource: str) -> TokenResponse:
        """Issue an access token for a person that an identity provider vouches for.

        There is no refresh token: the client gets the next one with a new assertion. An assertion
        may be used once, unless its client is authenticated.

        Raises:
            OAuthError: it was used before.
        """
        now = self._clock()
        if client.method == "none":
            once = hashlib.sha256(f"{_ASSERTION} {said.once}".encode()).hexdigest()
            if not await self._store.begin(once, max(_LEAST_S, said.until - now)):
                raise InvalidGrant("this assertion was used before; ask for another one")
        id = secrets.token_hex(32)
        login = Login(said.identity.subject.partition("|")[0], "", resource, "")
        grant = Grant(Request(client.digest, "", None, "", resource), said.identity, login)
        await self._store.begin(id, ACCESS_S)
        await self._store.take(id, 0, grant.at(1), ACCESS_S)
        handle = Handle(id, 1, now + ACCESS_S, resource)
        return TokenResponse(self._tokens.token(ACCESS, handle), "", int(ACCESS_S))

    async def refresh(self, token: str, client: Client, resource: str) -> TokenResponse:
        """Exchange a refresh token for new tokens; a repeat within moments gets the same ones.

        Raises:
            OAuthError: it is not of this client; it was used before, which ends the grant; or the
                provider does not let the person in any more.
        """
        handle = self._opened(REFRESH, token)
        while True:
            step, grant, since_s = await self._found(handle, client)
            used = step == handle.step + 1
            coming = used and grant.step is not None and grant.step < step
            if step != handle.step and not (coming or (used and since_s <= _REUSE_S)):
                raise await self._reused(handle)
            self._check_resource(resource, grant.request)
            if not used:
                renewed = await self._grants.renewed(handle.grant, step, grant)
                if renewed is not None:
                    return self._response(handle.grant, step + 1, renewed)
            elif not coming:
                return self._response(handle.grant, step, grant)
            elif since_s > _GIVEN_UP_S:
                await self._store.take_back(handle.grant, handle.step, None, KEPT_S)
            else:
                await asyncio.sleep(LOOK_S)

    async def revoke(self, token: str, client: Client) -> None:
        """End the grant of a token, if it belongs to this client."""
        for kind in (REFRESH, ACCESS):
            handle = self._tokens.handle(kind, token)
            if handle is None:
                continue
            kept = await self.kept(handle.grant)
            if kept is not None and kept.request.client == client.digest:
                await self._store.end(handle.grant)

    def access(self, token: str) -> Handle | None:
        """The contents of an access token; None: it is invalid or expired."""
        handle = self._tokens.handle(ACCESS, token)
        return handle if handle is not None and handle.until > self._clock() else None

    async def kept(self, id: str) -> Grant | None:
        """The grant; None: it has ended."""
        found = await self._grants.at(id)
        return None if found is None else found[1]

    def _response(self, id: str, step: int, grant: Grant) -> TokenResponse:
        now = self._clock()
        lifetime = ACCESS_S
        if grant.login.expires_at is not None:
            lifetime = min(lifetime, max(_LEAST_S, grant.login.expires_at - now))
        access = Handle(id, step, now + lifetime, grant.request.resource)
        refresh = Handle(id, step, now + KEPT_S)
        return TokenResponse(
            self._tokens.token(ACCESS, access),
            self._tokens.token(REFRESH, refresh),
            int(lifetime),
        )

    def _opened(self, kind: Kind, token: str) -> Handle:
        handle = self._tokens.handle(kind, token)
        if handle is None or handle.until <= self._clock():
            raise InvalidGrant("it is not valid here, or it has expired")
        return handle

    async def _found(self, handle: Handle, client: Client) -> tuple[int, Grant, float]:
        """As `KeptGrants.at`, for a code or refresh token of a client."""
        found = await self._grants.at(handle.grant)
        if found is None:
            raise InvalidGrant("this grant has ended")
        if not hmac.compare_digest(found[1].request.client, client.digest):
            raise InvalidGrant("it was given to another client")
        return found

    async def _reused(self, handle: Handle) -> OAuthError:
        """End a grant of which a code or refresh token came twice: one of the two was stolen."""
        _log.rate_limited("warning", "grant_ended", reason="used twice", step=handle.step)
        await self._store.end(handle.grant)
        return InvalidGrant("it was used before; all tokens of this login have ended")

    def _check_resource(self, resource: str, asked: Request) -> None:
        if resource and resource != asked.resource:
            raise OAuthError("invalid_target", "resource is not the one that was agreed to")
