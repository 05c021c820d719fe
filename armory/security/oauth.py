"""Access tokens of authorization servers: the gateway as an OAuth 2.1 resource server.

Owns: the requirements for tokens, and which principal a token stands for. Satisfies
`authentication.Scheme`. Never fetches anything itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from cachetools import TLRUCache

from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, InsufficientScope
from armory.logger import Logger
from armory.oauth.metadata import resource_id, same_issuer, text
from armory.security.claims import (
    FORM,
    MAX_TOKEN_CHARS,
    REFUSED,
    audience_of,
    check_own,
    expiry_of,
    scopes_of,
    user_of,
)
from armory.security.issuer import Issuer, issuer_named, issuer_of, reason
from armory.security.settings import OAuthSettings

_log = Logger(__name__)
_CHECKED_S = 60.0
_REFUSED_S = 10.0
_CLIENT = ("client_id", "azp", "cid", "appid")
"""Who asked for a token: by RFC 9068 and introspection, of Keycloak, Auth0 and Entra, of Okta, and
of Entra in tokens of version 1.0."""
_UNKNOWN_EXPIRY_S = 3_600.0
"""How long something that was opened with a token stays open if the provider does not say when the
token expires. The provider is asked again every minute in which the token is used."""


class OAuthScheme:
    """Verifies access tokens.

    Args:
        settings: what is required of them.
        issuers: the authorization servers, as `settings.issuers` names them.
    """

    def __init__(
        self,
        settings: OAuthSettings,
        issuers: Sequence[Issuer],
    ) -> None:
        self._settings = settings
        self._issuers = tuple(issuers)
        self._anywhere = frozenset(map(resource_id, settings.audience))
        self._leeway_s = settings.clock_skew_s
        self._checked: TLRUCache[bytes, tuple[Principal | None, float, int]] = TLRUCache(
            10_000, ttu=lambda _key, entry, _now: entry[1], timer=time.monotonic
        )

    async def identify(self, credential: str) -> Principal | None:
        """The principal of a token; None when no configured issuer could have issued it.

        Raises:
            AuthenticationFailed: a token that is not valid; which check failed is logged.
            InsufficientScope: a token without the scopes that every one needs.
            BackendError: the authorization server cannot be asked.
        """
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        kept = self._checked.get(digest)
        if kept is not None and kept[2] == self._generation:
            known = kept[0]
            if known is None or known.expires_at is None or known.expires_at <= time.time():
                raise AuthenticationFailed(REFUSED)
            return known
        if len(credential) > MAX_TOKEN_CHARS:
            return None
        signed = FORM.fullmatch(credential) is not None
        issuer = issuer_of(credential, self._issuers) if signed else None
        if issuer is not None:
            principal = self._principal(
                issuer, await self._verified(issuer, credential), credential
            )
        elif signed and self._settings.beside_jwt and issuer_named(credential):
            return None  # another one's
        elif self._settings.introspection is not None and credential.isprintable():
            principal = await self._introspected(credential, digest)
        else:
            return None
        assert principal.expires_at is not None
        until = time.monotonic() + min(_CHECKED_S, principal.expires_at - time.time())
        self._checked[digest] = (principal, until, self._generation)
        return principal

    @property
    def _generation(self) -> int:
        return sum(issuer.keys.generation for issuer in self._issuers)

    async def _verified(self, issuer: Issuer, token: str) -> Mapping[str, Any]:
        try:
            return await issuer.claims(token)
        except jwt.PyJWTError as error:
            _log.rate_limited(
                "info", "access_token_refused", reason=reason(error), issuer=issuer.name
            )
            raise AuthenticationFailed(REFUSED) from None

    async def _introspected(self, token: str, digest: bytes) -> Principal:
        settings = self._settings.introspection
        assert settings is not None
        first = self._issuers[0]
        said = await first.introspect(token, settings)
        named = text(said.get("iss")) if said is not None else ""
        if said is None or (named and not same_issuer(named, first.name)):
            _log.rate_limited(
                "info", "access_token_refused", reason="not active" if said is None else "issuer"
            )
            self._checked[digest] = (None, time.monotonic() + _REFUSED_S, self._generation)
            raise AuthenticationFailed(REFUSED)
        if isinstance(said.get("cnf"), Mapping):  # bound to a key that a bearer does not show
            _log.rate_limited("info", "access_token_refused", reason="cnf", issuer=first.name)
            raise AuthenticationFailed(REFUSED)
        now = time.time()
        present = {name: value for name, value in said.items() if value is not None}
        claims = {"exp": now + _UNKNOWN_EXPIRY_S, **present}
        if "sub" not in claims and "username" in claims:
            claims["sub"] = claims["username"]
        starts = claims.get("nbf")
        if expiry_of(claims) + self._leeway_s <= now or (
            isinstance(starts, int | float) and starts > now + self._leeway_s
        ):
            raise AuthenticationFailed(REFUSED)
        return self._principal(first, claims, token)

    def _principal(self, issuer: Issuer, claims: Mapping[str, Any], token: str) -> Principal:
        audience = frozenset(map(resource_id, audience_of(claims)))
        if not audience:
            _log.rate_limited(
                "info", "access_token_refused", reason="no audience", issuer=issuer.name
            )
            raise AuthenticationFailed(REFUSED)
        subject, user = self._names(issuer, claims)
        scopes = self._with_implied(scopes_of(claims, self._settings.scopes_claim))
        principal = Principal(
            subject,
            user,
            scopes,
            "oauth",
            expiry_of(claims) + self._leeway_s,
            None if audience & self._anywhere else audience,
            token,
            delegated=not self._is_own(issuer, claims),
        )
        missing = [s for s in self._settings.scopes if s not in scopes and _bare(s) not in scopes]
        if missing:
            raise InsufficientScope(
                f"the token lacks scopes that every one needs here: {' '.join(sorted(missing))}",
                scopes=self._settings.scopes,
                principal=principal,
            )
        return principal

    def _with_implied(self, scopes: frozenset[str]) -> frozenset[str]:
        """Scopes with those that they imply, transitively."""
        implied, found, new = self._settings.implied_scopes, set(scopes), list(scopes)
        while implied and new:
            new = [one for one in implied.get(new.pop(), ()) if one not in found] + new
            found.update(new)
        return frozenset(found)

    def _is_own(self, issuer: Issuer, claims: Mapping[str, Any]) -> bool:
        """Whether the gateway itself requested the token, for its console, and not
        another program.
        """
        said = {claims[name] for name in _CLIENT if isinstance(claims.get(name), str)}
        return issuer is self._issuers[0] and said == {self._settings.client_id}

    def _names(self, issuer: Issuer, claims: Mapping[str, Any]) -> tuple[str, str]:
        """(subject, user): unique over all issuers."""
        subject, user = user_of(claims, "sub"), user_of(claims, self._settings.user_claim)
        if issuer is self._issuers[0]:
            check_own(user, (other.name for other in self._issuers[1:]))
        else:  # what it calls its users is not what the first one does
            user = f"{issuer.name}|{user}"
        return f"{issuer.name}|{subject}", user

    async def signed_in(self, id_token: str, client_id: str) -> Principal:
        """The principal who logged in at the first issuer, for the gateway's own pages.

        Args:
            id_token: that it gave out.
            client_id: to whom.

        Raises:
            AuthenticationFailed: it is not valid.
            BackendError: the issuer's keys cannot be fetched.
        """
        first = self._issuers[0]
        claims = await self._verified(first, id_token)
        if client_id not in audience_of(claims):
            raise AuthenticationFailed(REFUSED)
        subject, user = self._names(first, claims)
        until = expiry_of(claims) + self._leeway_s
        return Principal(subject, user, frozenset(), "oauth", until)


def _bare(scope: str) -> str:
    """A scope in the short form of Entra's tokens, if it is requested by its full name
    `URI/name`.
    """
    return scope.rpartition("/")[2] if "://" in scope else scope
