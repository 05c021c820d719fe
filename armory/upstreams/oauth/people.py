"""The tokens of one upstream where each principal has its own.

Owns: which tokens serve whom. Never imports a transport.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cachetools import LRUCache

from armory.domain.principal import INTERNAL, Principal
from armory.errors import ArmoryError, LoginNeeded
from armory.upstreams.oauth.code_flow import no_clients
from armory.upstreams.oauth.grants import (
    AuthorizationCode,
    Grant,
    JwtBearer,
    Passthrough,
    TokenExchange,
)
from armory.upstreams.oauth.jwt_bearer import JwtBearerTokens
from armory.upstreams.oauth.logins import PersonLogin, Sealed
from armory.upstreams.oauth.person import AuthorizationCodeTokens
from armory.upstreams.oauth.subjects import ExchangedTokens, PassthroughTokens
from armory.upstreams.oauth.tokens import ClientCredentialsTokens, Tokens

_KEPT = 10_000
Vault = Callable[[str, str], Sealed]
"""Gives the place of a person's login at an upstream: (`Principal.person`, the upstream's key)."""


class PersonTokens(AuthorizationCodeTokens):
    """The token of one person, who is asked to log in where there is none; see `Tokens`."""

    def login_needed(self, reason: str) -> ArmoryError:
        """As `AuthorizationCodeTokens.login_needed`."""
        return LoginNeeded(
            f"upstream {self._server!r} wants you to log in with your own account ({reason})",
            upstream=self._server,
        )


class PeopleTokens:
    """The tokens of each principal at one upstream.

    Args:
        server: key of the upstream.
        grant: as configured.
        vault: where people's logins are; None: there are none.
        more: as for `Tokens`.
    """

    def __init__(self, server: str, grant: Grant, vault: Vault | None, **more: Any) -> None:
        self._server = server
        self._grant = grant
        self._vault = vault
        self._more = more
        self._clients = no_clients()
        self._by_person: LRUCache[str, PersonTokens] = LRUCache(_KEPT)
        self._own: Tokens | None = None
        self._came: LRUCache[str, tuple[Principal, Principal]] = LRUCache(_KEPT)

    def note_caller(self, principal: Principal) -> None:
        """Record the token that a principal's request came with.

        Requests outside calls use this token from now on; once it has expired, the earlier token
        with the latest expiry.
        """
        known = self._came.get(principal.key)
        if known is None:
            self._came[principal.key] = principal, principal
        elif known[0] is not principal:
            longest = known[1] if _outlasts(known[1], principal) else principal
            self._came[principal.key] = principal, longest

    def newest(self, principal: Principal) -> Principal:
        """The same principal with its most recent token: an earlier one may be revoked by now."""
        last, longest = self._came.get(principal.key, (principal, principal))
        ends = last.expires_at
        return last if ends is None or ends > time.time() else longest

    def of(self, principal: Principal) -> Tokens:
        """The tokens that serve a principal."""
        grant = self._grant
        if isinstance(grant, AuthorizationCode):
            return self.person(principal)
        if self._own is None:
            self._own = tokens_for(self._server, grant, **self._more)
        return self._own

    def person(self, principal: Principal) -> PersonTokens:
        """The login of a principal."""
        assert isinstance(self._grant, AuthorizationCode)
        person = principal.person
        found = self._by_person.get(person)
        if found is None:
            kept = None
            if principal is not INTERNAL and self._vault is not None:
                kept = PersonLogin(self._vault(person, self._server))
            found = self._by_person[person] = PersonTokens(
                self._server, self._grant, kept, clients=self._clients, **self._more
            )
        return found

    def forget(self) -> None:
        """Logins were changed elsewhere: read the store again."""
        for tokens in list(self._by_person.values()):
            tokens.forget()


def _outlasts(one: Principal, other: Principal) -> bool:
    ends, others = one.expires_at, other.expires_at
    return ends is not None and others is not None and ends > others


def tokens_for(server: str, grant: Grant, **more: Any) -> Tokens:
    """The token source of an upstream, by its grant."""
    if isinstance(grant, AuthorizationCode):
        return AuthorizationCodeTokens(server, grant, **more)
    if isinstance(grant, JwtBearer):
        return JwtBearerTokens(server, grant, **more)
    if isinstance(grant, TokenExchange):
        return ExchangedTokens(server, grant, **more)
    if isinstance(grant, Passthrough):
        return PassthroughTokens(server, grant, **more)
    return ClientCredentialsTokens(server, grant, **more)
