"""What the gateway gives out: codes, access tokens and refresh tokens, each of one grant.

Owns: that a code and a refresh token count once, and that one which is used twice ends the grant
with all its tokens. Never talks HTTP, never logs a token.

A grant rests sealed in the database with the provider's tokens. A token is its id, sealed: who
reads the database can make none.
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
from armory.domain.base64url import decoded, encoded
from armory.errors import BackendError
from armory.logger import Logger
from armory.oauth.pkce import challenge_of
from armory.tasks import spawn, start
from armory.upstreams.oauth.client import NoToken, TokenRefused
from armory.upstreams.oauth.logins import Login

if TYPE_CHECKING:
    from armory.security.sealing import Seal

_log = Logger(__name__)
ACCESS_PREFIX = "armory_at_"
_CODE_PREFIX, _REFRESH_PREFIX = "armory_code_", "armory_rt_"
_ACCESS, _CODE, _REFRESH = "oauth access token", "oauth code", "oauth refresh token"
_ASSERTION = "oauth assertion"
ACCESS_S, _LEAST_S = 1_800.0, 60.0
_CODE_S, _BEGUN_S = 60.0, 600.0
_CODE_KNOWN_S = 660.0
"""How long a code itself says that it holds, by the clock of the replica that made it, which
another replica's may differ from. The store, with one clock for all, decides when it expires."""
_KEPT_S = 30 * 86_400.0
_MAX_TOKEN_CHARS = 4_096


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

    async def take_back(self, id: str, step: int, life_s: float) -> None:
        """Undo the `take` of `step`."""
        ...

    async def load(self, id: str) -> tuple[int, bytes] | None:
        """(step, grant) of a grant; None: it has ended, or there never was one."""
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
    """

    request: Request
    identity: Identity
    login: Login


class Handle(msgspec.Struct, frozen=True, array_like=True):
    """What is sealed in a token.

    Attributes:
        grant: its id.
        step: at which the grant must be; of an access token the one at which it was given out.
        until: seconds since 1970.
        resource: that an access token is for.
    """

    grant: str
    step: int
    until: float
    resource: str = ""


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
        self._seal = seal
        self._provider = provider
        self._clock = clock
        self._undoing: dict[str, asyncio.Task[None]] = {}

    async def begin(self, state: str) -> str | None:
        """The id of the grant that a login with this `state` makes; None: it was used already."""
        id = hashlib.sha256(state.encode()).hexdigest()
        return id if await self._store.begin(id, _BEGUN_S) else None

    async def code(self, id: str, grant: Grant) -> str:
        """The code with which the client comes back.

        Raises:
            OAuthError: somebody else was first.
        """
        if not await self._store.take(id, 0, msgspec.json.encode(grant), _CODE_S):
            raise OAuthError("access_denied", "this login was used already")
        return self._sealed(_CODE_PREFIX, _CODE, Handle(id, 1, self._clock() + _CODE_KNOWN_S))

    async def redeem(
        self, code: str, client: Client, redirect_uri: str, verifier: str, resource: str
    ) -> TokenResponse:
        """Tokens for a code.

        Raises:
            OAuthError: the code is not of this client and login; or it was used before, which
                ends what it led to.
        """
        handle = self._opened(code, _CODE_PREFIX, _CODE)
        grant = await self._at(handle, client)
        asked = grant.request
        if redirect_uri and redirect_uri != asked.redirect_uri:
            raise _bad_grant("redirect_uri is not the one of the authorization request")
        if not _verifies(verifier, asked.challenge):
            raise _bad_grant("code_verifier does not fit the code_challenge")
        self._check_resource(resource, asked)
        if not await self._store.take(handle.grant, 1, None, _KEPT_S):
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
        await self._store.take(id, 0, msgspec.json.encode(grant), ACCESS_S)
        handle = Handle(id, 1, now + ACCESS_S, resource)
        return TokenResponse(self._sealed(ACCESS_PREFIX, _ACCESS, handle), "", int(ACCESS_S))

    async def refresh(self, token: str, client: Client, resource: str) -> TokenResponse:
        """New tokens for a refresh token.

        Raises:
            OAuthError: it is not of this client; it was used before, which ends the grant; or the
                provider does not let the person in any more.
        """
        handle = self._opened(token, _REFRESH_PREFIX, _REFRESH)
        undoing = self._undoing.get(handle.grant)
        if undoing is not None:  # the client asked before, and did not wait for the answer
            await asyncio.wait((undoing,))
        grant = await self._at(handle, client)
        self._check_resource(resource, grant.request)
        renewing = start(self._renewed(handle, grant), "renew a grant")
        try:
            grant = await asyncio.shield(renewing)
        except asyncio.CancelledError:  # nobody is given what comes: the old token counts again
            undoing = spawn(self._undone(handle, renewing), "undo a refresh")
            self._undoing[handle.grant] = undoing
            undoing.add_done_callback(lambda _: self._undoing.pop(handle.grant, None))
            raise
        return self._response(handle.grant, handle.step + 1, grant)

    async def _renewed(self, handle: Handle, grant: Grant) -> Grant:
        """A grant one step further, once the provider has let its person in again.

        Raises:
            OAuthError: it does not, which ends the grant; or it cannot be asked, and the grant is
                where it was.
        """
        id, step = handle.grant, handle.step
        if not await self._store.take(id, step, None, _KEPT_S):
            raise await self._reused(handle)
        try:
            login = await self._provider.refreshed(grant.login)
        except TokenRefused as error:
            _log.info("grant_ended", reason=error.message)
            await self._store.end(id)
            raise _bad_grant("the provider does not let this person in any more") from None
        except (NoToken, BackendError) as error:
            await self._store.take_back(id, step, _KEPT_S)
            _log.warning("grant_not_renewed", reason=error.message)
            raise OAuthError(
                "temporarily_unavailable", "the provider cannot be asked; try again", 503
            ) from None
        grant = msgspec.structs.replace(grant, login=login)
        if not await self._store.put(id, step + 1, msgspec.json.encode(grant), _KEPT_S):
            raise _bad_grant("this grant has ended")
        return grant

    async def _undone(self, handle: Handle, renewing: asyncio.Task[Grant]) -> None:
        """Take a grant back once it was renewed for nobody; where that failed, it is already."""
        await asyncio.wait((renewing,))
        if not renewing.cancelled() and renewing.exception() is None:
            await self._store.take_back(handle.grant, handle.step, _KEPT_S)

    async def revoke(self, token: str, client: Client) -> None:
        """End the grant of a token, if it is one of this client."""
        for prefix, purpose in ((_REFRESH_PREFIX, _REFRESH), (ACCESS_PREFIX, _ACCESS)):
            handle = self._handle(token, prefix, purpose)
            if handle is None:
                continue
            kept = await self.kept(handle.grant)
            if kept is not None and kept.request.client == client.digest:
                await self._store.end(handle.grant)

    def access(self, token: str) -> Handle | None:
        """What an access token says; None: it is none, or it has expired."""
        handle = self._handle(token, ACCESS_PREFIX, _ACCESS)
        return handle if handle is not None and handle.until > self._clock() else None

    async def kept(self, id: str) -> Grant | None:
        """A grant; None: it has ended."""
        found = await self._store.load(id)
        return None if found is None else msgspec.json.decode(found[1], type=Grant)

    # -- tokens ------------------------------------------------------------------------------

    def _response(self, id: str, step: int, grant: Grant) -> TokenResponse:
        now = self._clock()
        lifetime = ACCESS_S
        if grant.login.expires_at is not None:
            lifetime = min(lifetime, max(_LEAST_S, grant.login.expires_at - now))
        access = Handle(id, step, now + lifetime, grant.request.resource)
        refresh = Handle(id, step, now + _KEPT_S)
        return TokenResponse(
            self._sealed(ACCESS_PREFIX, _ACCESS, access),
            self._sealed(_REFRESH_PREFIX, _REFRESH, refresh),
            int(lifetime),
        )

    def _sealed(self, prefix: str, purpose: str, handle: Handle) -> str:
        return prefix + encoded(self._seal.seal(msgspec.json.encode(handle), purpose))

    def _handle(self, token: str, prefix: str, purpose: str) -> Handle | None:
        if not token.startswith(prefix) or len(token) > _MAX_TOKEN_CHARS:
            return None
        sealed = decoded(token.removeprefix(prefix))
        data = None if sealed is None else self._seal.open(sealed, purpose)
        return None if data is None else msgspec.json.decode(data, type=Handle)

    def _opened(self, token: str, prefix: str, purpose: str) -> Handle:
        handle = self._handle(token, prefix, purpose)
        if handle is None or handle.until <= self._clock():
            raise _bad_grant("it is not valid here, or it has expired")
        return handle

    async def _at(self, handle: Handle, client: Client) -> Grant:
        """The grant of a code or refresh token that is still to be used, by its client."""
        found = await self._store.load(handle.grant)
        if found is None:
            raise _bad_grant("this grant has ended")
        step, data = found
        grant = msgspec.json.decode(data, type=Grant)
        if not hmac.compare_digest(grant.request.client, client.digest):
            raise _bad_grant("it was given to another client")
        if step != handle.step:
            raise await self._reused(handle)
        return grant

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


def _verifies(verifier: str, challenge: str) -> bool:
    """Whether a PKCE verifier (RFC 7636, 4.1) fits its challenge."""
    if not (43 <= len(verifier) <= 128 and verifier.isascii()):
        return False
    return hmac.compare_digest(challenge_of(verifier), challenge)
