"""What the gateway gives out: codes, access tokens and refresh tokens, each of one grant.

Owns: that a code and a refresh token count once, and that one which is used twice ends the grant
with all its tokens; a refresh token is answered again for a moment. Never talks HTTP, never logs a
token.

A grant rests sealed in the database with the provider's tokens. A token is its id, sealed
(`tokens.py`): who reads the database can make none.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from armory.authserver.assertions import Vouched
from armory.authserver.clients import Client
from armory.authserver.errors import OAuthError
from armory.authserver.provider import Identity, Provider
from armory.authserver.requests import Request
from armory.authserver.tokens import ACCESS, CODE, REFRESH, Handle, Kind, Tokens
from armory.errors import BackendError
from armory.logger import Logger
from armory.oauth.pkce import verifies
from armory.tasks import Flight
from armory.upstreams.oauth.client import NoToken
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
_KEPT_S = 30 * 86_400.0
_AGAIN_S = 30.0
"""For so long the refresh token before the newest is answered as it was: two windows of a program
refresh at once, and who lost the answer asks again. As Okta and Cognito do, for as long."""
_GIVEN_UP_S, _LOOK_S = 60.0, 0.1
"""A renewal that takes longer was given up: its replica is no more. Others look how it goes."""
_TRIED_S = 30.0
"""For so long it is tried to keep what was renewed, where the database is away."""


class GrantStore(Protocol):
    """Where grants rest (`storage.grants.StoredGrants`)."""

    async def begin(self, id: str, life_s: float) -> bool:
        """Take an id; whether nobody had it."""
        ...

    async def take(self, id: str, step: int, grant: bytes | None, life_s: float) -> bool:
        """Take a grant from `step` to the next; whether nobody was first."""
        ...

    async def put(self, id: str, step: int, grant: bytes, life_s: float) -> bool:
        """Keep what a grant at `step` has become."""
        ...

    async def take_back(self, id: str, step: int, grant: bytes | None, life_s: float) -> None:
        """Undo the `take` of `step`; None: what the grant is stays."""
        ...

    async def load(self, id: str) -> tuple[int, bytes, float] | None:
        """(step, grant, seconds left) of a grant; None: it has ended, or there never was one."""
        ...

    async def end(self, id: str) -> None:
        """Forget a grant, on every replica."""
        ...


class Grant(msgspec.Struct, frozen=True):
    """What a person allowed a client.

    Attributes:
        request: what the client asked for.
        identity: the person.
        login: its tokens at the provider.
        step: for which it was kept: while it is at the next one, it is being renewed. None: by a
            version that did not say.
    """

    request: Request
    identity: Identity
    login: Login
    step: int | None = None

    def at(self, step: int) -> bytes:
        """As it is kept for a step."""
        return msgspec.json.encode(msgspec.structs.replace(self, step=step))


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The answer of the token endpoint.

    Attributes:
        access, refresh: tokens; no refresh token for an ID-JAG.
        lifetime_s: of the access token.
    """

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    lifetime_s: int


class Grants:
    """Issues codes and tokens, and ends a grant of which one comes twice.

    Args:
        store: where grants rest.
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
        self._provider = provider
        self._clock = clock

    async def begin(self, state: str) -> str | None:
        """The id of the grant that a login with this `state` makes; None: it was used already."""
        id = hashlib.sha256(state.encode()).hexdigest()
        return id if await self._store.begin(id, _BEGUN_S) else None

    async def code(self, id: str, grant: Grant) -> str:
        """The code with which the client comes back.

        Raises:
            OAuthError: somebody else was first.
        """
        if not await self._store.take(id, 0, grant.at(1), _CODE_S):
            raise OAuthError("access_denied", "this login was used already")
        return self._tokens.token(CODE, Handle(id, 1, self._clock() + _CODE_KNOWN_S))

    async def redeem(
        self, code: str, client: Client, redirect_uri: str, verifier: str, resource: str
    ) -> TokenResponse:
        """Tokens for a code.

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
            raise _bad_grant("redirect_uri is not the one of the authorization request")
        if not verifies(verifier, asked.challenge):
            raise _bad_grant("code_verifier does not fit the code_challenge")
        self._check_resource(resource, asked)
        if not await self._store.take(handle.grant, 1, grant.at(2), _KEPT_S):
            raise await self._reused(handle)
        return self._response(handle.grant, 2, grant)

    async def vouched(self, said: Vouched, client: Client, resource: str) -> TokenResponse:
        """An access token for what an identity provider says of a person.

        There is no refresh token: for the next one the client is vouched for again. An assertion
        counts once where its client cannot prove who it is.

        Raises:
            OAuthError: it was used before.
        """
        now = self._clock()
        if client.method == "none":
            once = hashlib.sha256(f"{_ASSERTION} {said.once}".encode()).hexdigest()
            if not await self._store.begin(once, max(_LEAST_S, said.until - now)):
                raise _bad_grant("this assertion was used before; ask for another one")
        id = secrets.token_hex(32)
        login = Login(said.identity.subject.partition("|")[0], "", resource, "")
        grant = Grant(Request(client.digest, "", None, "", resource), said.identity, login)
        await self._store.begin(id, ACCESS_S)
        await self._store.take(id, 0, grant.at(1), ACCESS_S)
        handle = Handle(id, 1, now + ACCESS_S, resource)
        return TokenResponse(self._tokens.token(ACCESS, handle), "", int(ACCESS_S))

    async def refresh(self, token: str, client: Client, resource: str) -> TokenResponse:
        """New tokens for a refresh token; for a moment, the same ones again.

        Raises:
            OAuthError: it is not of this client; it was used before, which ends the grant; or the
                provider does not let the person in any more.
        """
        handle = self._opened(REFRESH, token)
        while True:
            step, grant, since_s = await self._found(handle, client)
            used = step == handle.step + 1
            coming = used and grant.step is not None and grant.step < step
            if step != handle.step and not (coming or (used and since_s <= _AGAIN_S)):
                raise await self._reused(handle)
            self._check_resource(resource, grant.request)
            if not used:
                renewed = await self._renewed_for_caller(handle, grant)
                if renewed is not None:
                    return self._response(handle.grant, step + 1, renewed)
            elif not coming:
                return self._response(handle.grant, step, grant)
            elif since_s > _GIVEN_UP_S:
                await self._store.take_back(handle.grant, handle.step, None, _KEPT_S)
            else:
                await asyncio.sleep(_LOOK_S)

    async def _renewed_for_caller(self, handle: Handle, grant: Grant) -> Grant | None:
        """As `_renewed`, which goes on if the caller leaves: the provider may have renewed already
        what it is asked to.
        """
        left = asyncio.Event()
        renewing: Flight[Grant | None] = Flight("renew a grant")
        try:
            return await renewing.join(lambda: self._renewed(handle, grant, left))
        except asyncio.CancelledError:
            left.set()
            raise

    async def _renewed(self, handle: Handle, grant: Grant, left: asyncio.Event) -> Grant | None:
        """A grant one step further, once the provider has let its person in again; None: somebody
        else was first. If the caller has `left`, nobody is given the next token, and this one
        counts again.

        Raises:
            OAuthError: it does not, which ends the grant; or it cannot be asked, and the grant is
                where it was.
        """
        id, step = handle.grant, handle.step
        if not await self._store.take(id, step, None, _KEPT_S):
            return None
        try:
            now = await self.kept(id)  # it may have been renewed and taken back since it was read
            if now is None:
                raise _bad_grant("this grant has ended")
            grant = now
            login, identity = await self._provider.refreshed(grant.login, grant.identity)
        except (NoToken, BackendError) as error:
            if self._provider.is_over(grant.login, error):
                _log.info("grant_ended", reason=error.message)
                await self._store.end(id)
                raise _bad_grant("the provider does not let this person in any more") from None
            await self._store.take_back(id, step, None, _KEPT_S)
            _log.warning("grant_not_renewed", reason=error.message)
            raise OAuthError(
                "temporarily_unavailable", "the provider cannot be asked; try again", 503
            ) from None
        grant = msgspec.structs.replace(grant, identity=identity, login=login)
        if not await self._keep(handle, grant, left):
            raise _bad_grant("this grant has ended")
        return grant

    async def _keep(self, handle: Handle, grant: Grant, left: asyncio.Event) -> bool:
        """Keep a renewed grant, as soon as the database is there: what it was renewed with may have
        worked for the last time. Whether it still was there.

        Raises:
            BackendError: the database was away for too long.
        """
        id, step = handle.grant, handle.step
        until = time.monotonic() + _TRIED_S
        while True:
            try:
                if left.is_set():
                    await self._store.take_back(id, step, grant.at(step), _KEPT_S)
                    return True
                return await self._store.put(id, step + 1, grant.at(step + 1), _KEPT_S)
            except BackendError as error:
                if time.monotonic() > until:
                    _log.error("renewed_grant_not_kept", error=error.message)
                    raise
                await asyncio.sleep(_LOOK_S)

    async def revoke(self, token: str, client: Client) -> None:
        """End the grant of a token, if it is one of this client."""
        for kind in (REFRESH, ACCESS):
            handle = self._tokens.handle(kind, token)
            if handle is None:
                continue
            kept = await self.kept(handle.grant)
            if kept is not None and kept.request.client == client.digest:
                await self._store.end(handle.grant)

    def access(self, token: str) -> Handle | None:
        """What an access token says; None: it is none, or it has expired."""
        handle = self._tokens.handle(ACCESS, token)
        return handle if handle is not None and handle.until > self._clock() else None

    async def kept(self, id: str) -> Grant | None:
        """A grant; None: it has ended."""
        found = await self._store.load(id)
        return None if found is None else msgspec.json.decode(found[1], type=Grant)

    def _response(self, id: str, step: int, grant: Grant) -> TokenResponse:
        now = self._clock()
        lifetime = ACCESS_S
        if grant.login.expires_at is not None:
            lifetime = min(lifetime, max(_LEAST_S, grant.login.expires_at - now))
        access = Handle(id, step, now + lifetime, grant.request.resource)
        refresh = Handle(id, step, now + _KEPT_S)
        return TokenResponse(
            self._tokens.token(ACCESS, access),
            self._tokens.token(REFRESH, refresh),
            int(lifetime),
        )

    def _opened(self, kind: Kind, token: str) -> Handle:
        handle = self._tokens.handle(kind, token)
        if handle is None or handle.until <= self._clock():
            raise _bad_grant("it is not valid here, or it has expired")
        return handle

    async def _found(self, handle: Handle, client: Client) -> tuple[int, Grant, float]:
        """(step, grant, seconds since it came to that step) of a code or refresh token, by its
        client; from the code on it is kept equally long at each. A clock that was set back since
        is as far off as one that went on.
        """
        found = await self._store.load(handle.grant)
        if found is None:
            raise _bad_grant("this grant has ended")
        step, data, left_s = found
        grant = msgspec.json.decode(data, type=Grant)
        if not hmac.compare_digest(grant.request.client, client.digest):
            raise _bad_grant("it was given to another client")
        return step, grant, abs(_KEPT_S - left_s)

    async def _reused(self, handle: Handle) -> OAuthError:
        """End a grant of which a code or refresh token came twice: one of the two was stolen."""
        _log.warning("grant_ended", reason="used twice", step=handle.step)
        await self._store.end(handle.grant)
        return _bad_grant("it was used before; all tokens of this login have ended")

    def _check_resource(self, resource: str, asked: Request) -> None:
        if resource and resource != asked.resource:
            raise OAuthError("invalid_target", "resource is not the one that was agreed to")


def _bad_grant(description: str) -> OAuthError:
    return OAuthError("invalid_grant", description)
