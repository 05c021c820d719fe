"""Stored grants, and renewing them with the provider.

Owns: `Grant`, the store that it needs, and that of several refreshes at once, on any replica, one
asks the provider and its outcome is kept, whoever leaves or fails meanwhile. Never sees a token of
the gateway.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

from armory.authserver.errors import InvalidGrant, OAuthError
from armory.authserver.provider import Identity, Provider
from armory.authserver.requests import Request
from armory.errors import BackendError
from armory.logger import Logger
from armory.tasks import Flight
from armory.upstreams.oauth.client import NoToken
from armory.upstreams.oauth.logins import Login

_log = Logger(__name__)
KEPT_S = 30 * 86_400.0
"""How long a grant is kept after each renewal, and its refresh token is valid."""
LOOK_S = 0.1
"""Pause before looking again, in seconds: at a renewal that another does, or at the database."""
_TRIED_S = 30.0
"""How long storing a renewed grant is retried while the database is unreachable."""


class GrantStore(Protocol):
    """The store of grants (`storage.grants.StoredGrants`)."""

    async def begin(self, id: str, life_s: float) -> bool:
        """Create a grant's id; returns whether it was new."""
        ...

    async def take(self, id: str, step: int, grant: bytes | None, life_s: float) -> bool:
        """Move a grant from `step` to the next; returns whether nobody else did so first."""
        ...

    async def put(self, id: str, step: int, grant: bytes, life_s: float) -> bool:
        """Store the new state of a grant at `step`."""
        ...

    async def take_back(self, id: str, step: int, grant: bytes | None, life_s: float) -> None:
        """Undo the `take` of `step`; None as grant: its state does not change."""
        ...

    async def load(self, id: str) -> tuple[int, bytes, float] | None:
        """(step, grant, seconds left) of a grant; None: it has ended, or never existed."""
        ...

    async def end(self, id: str) -> None:
        """Delete a grant, on every replica."""
        ...


class Grant(msgspec.Struct, frozen=True):
    """The permission that a person gave to a client.

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
        """The grant as it is stored for a step."""
        return msgspec.json.encode(msgspec.structs.replace(self, step=step))


class KeptGrants:
    """The grants in the store.

    Args:
        store: where they are stored.
        provider: is asked whether a person may still come in.
    """

    def __init__(self, store: GrantStore, provider: Provider) -> None:
        self._store = store
        self._provider = provider

    async def at(self, id: str) -> tuple[int, Grant, float] | None:
        """(step, grant, seconds since it reached that step); None: it has ended.

        From the code on, a grant is stored equally long at each step. A clock that was set back
        counts by the same difference as one that went on.
        """
        found = await self._store.load(id)
        if found is None:
            return None
        step, data, left_s = found
        return step, msgspec.json.decode(data, type=Grant), abs(KEPT_S - left_s)

    async def renewed(self, id: str, step: int, grant: Grant) -> Grant | None:
        """Renew a grant with the provider and move it one step; None: somebody else was first.

        Goes on when the caller leaves: the provider's refresh token may have been used already.

        Args:
            id: of the grant.
            step: from which it goes on.
            grant: as it was there.

        Raises:
            OAuthError: the provider does not let the person in, which ends the grant; or it cannot
                be asked, and the grant is where it was.
        """
        left = asyncio.Event()
        renewing: Flight[Grant | None] = Flight("renew a grant")
        try:
            return await renewing.join(lambda: self._renewed(id, step, grant, left))
        except asyncio.CancelledError:
            left.set()
            raise

    async def _renewed(self, id: str, step: int, grant: Grant, left: asyncio.Event) -> Grant | None:
        """As `renewed`. If the caller has `left`, nobody gets the next token, and the present one
        stays valid.
        """
        if not await self._store.take(id, step, None, KEPT_S):
            return None
        try:
            kept = await self.at(id)  # it may have been renewed and taken back since it was read
            if kept is None:
                raise InvalidGrant("this grant has ended")
            grant = kept[1]
            login, identity = await self._provider.refreshed(grant.login, grant.identity)
        except (NoToken, BackendError) as error:
            if self._provider.is_over(grant.login, error):
                _log.rate_limited("info", "grant_ended", reason=error.message)
                await self._store.end(id)
                raise InvalidGrant("the provider does not let this person in any more") from None
            await self._store.take_back(id, step, None, KEPT_S)
            _log.rate_limited("warning", "grant_not_renewed", reason=error.message)
            raise OAuthError(
                "temporarily_unavailable", "the provider cannot be asked; try again", 503
            ) from None
        grant = msgspec.structs.replace(grant, identity=identity, login=login)
        if not await self._keep(id, step, grant, left):
            raise InvalidGrant("this grant has ended")
        return grant

    async def _keep(self, id: str, step: int, grant: Grant, left: asyncio.Event) -> bool:
        """Store a renewed grant, waiting for the database if need be: the old refresh token may
        have worked for the last time. Returns whether the grant still existed.

        Raises:
            BackendError: the database was away for too long.
        """
        until = time.monotonic() + _TRIED_S
        while True:
            try:
                if left.is_set():
                    await self._store.take_back(id, step, grant.at(step), KEPT_S)
                    return True
                return await self._store.put(id, step + 1, grant.at(step + 1), KEPT_S)
            except BackendError as error:
                if time.monotonic() > until:
                    _log.error("renewed_grant_not_kept", error=error.message)
                    raise
                await asyncio.sleep(LOOK_S)
