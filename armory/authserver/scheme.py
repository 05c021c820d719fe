"""Authentication by access tokens that the gateway issued.

Owns: which principal such a token makes. Satisfies `security.authentication.Scheme`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cachetools import TTLCache

from armory.authserver.clients import is_own
from armory.authserver.grants import ACCESS_S, Grants
from armory.authserver.kept_grants import Grant
from armory.authserver.tokens import ACCESS
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed
from armory.security.claims import REFUSED

_KEPT, _CHECKED_S = 10_000, 60.0
_CAME = 50_000


class GrantScheme:
    """Authenticates callers by the access tokens of `Grants`.

    Args:
        grants: what was given out.
        granted: scopes that every token carries.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        grants: Grants,
        granted: Sequence[str] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grants = grants
        self._granted = frozenset(granted)
        self._kept: TTLCache[str, tuple[int, Grant]] = TTLCache(_KEPT, _CHECKED_S, timer=clock)
        # for as long as a token of it holds, and so what was opened with one
        self._came: TTLCache[str, str] = TTLCache(_CAME, ACCESS_S, timer=clock)
        self._endings = 0

    async def identify(self, credential: str) -> Principal | None:
        """The principal of an access token; None: it is no token of the gateway.

        Raises:
            AuthenticationFailed: it has expired, or its grant has ended.
            BackendError: the database cannot be asked.
        """
        if not credential.startswith(ACCESS.prefix):
            return None
        handle = self._grants.access(credential)
        if handle is None:
            raise AuthenticationFailed(REFUSED)
        step, grant = self._kept.get(handle.grant, (-1, None))
        if grant is None or step < handle.step:  # since then the provider was asked again
            grant = await self._now(handle.grant)
            self._kept[handle.grant] = handle.step, grant
            self._came[handle.grant] = f"oauth:{grant.identity.subject}"
        who = grant.identity
        return Principal(
            who.subject,
            who.user,
            self._granted.union(who.scopes),
            "oauth",
            handle.until,
            frozenset((handle.resource,)),
            grant.login.access_token or None,
            grant.login.id_token,
            delegated=not is_own(grant.request.client),
        )

    async def _now(self, id: str) -> Grant:
        """The current state of a grant; read again where a grant ended meanwhile.

        Raises:
            AuthenticationFailed: the grant has ended.
        """
        while True:
            endings = self._endings
            grant = await self._grants.kept(id)
            if grant is None:
                raise AuthenticationFailed(REFUSED)
            if endings == self._endings:
                return grant

    def ended(self, id: str) -> str | None:
        """A grant has ended on some replica: do not accept its tokens any more.

        Returns:
            The key of the principal that came with it, if what it opened then may still be open.
        """
        self._endings += 1
        self._kept.pop(id, None)
        return self._came.pop(id, None)
