"""ID-JAGs: assertions with which an identity provider vouches for a person, without a browser.

Owns: whose such assertions are believed, and what of them (RFC 7523; the OAuth identity assertion
authorization grant). Never gives out a token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from armory.authserver.clients import Client
from armory.authserver.errors import InvalidGrant, OAuthError
from armory.authserver.provider import Identity, named
from armory.authserver.settings import ProxySettings
from armory.errors import AuthenticationFailed
from armory.logger import Logger
from armory.oauth.metadata import same_issuer, text
from armory.security.claims import (
    MAX_TOKEN_CHARS,
    audience_of,
    check_own,
    expiry_of,
    scopes_of,
)
from armory.security.issuer import Issuer, issuer_of, reason

_log = Logger(__name__)
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
_TYPES = frozenset(("oauth-id-jag+jwt", "application/oauth-id-jag+jwt"))
_MOST_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Vouched:
    """The contents of an assertion about a person.

    Attributes:
        identity: the person, with the scopes that it is granted.
        resource: that a token is to be for; "": it does not say.
        scopes: of the answer.
        once: names the assertion among all.
        until: seconds since 1970 until which it holds.
    """

    identity: Identity
    resource: str
    scopes: tuple[str, ...]
    once: str
    until: float


class Assertions:
    """Validates ID-JAGs of the providers that may vouch for people.

    Args:
        settings: which identity providers may vouch for people.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._leeway_s = leeway_s = settings.clock_skew_s
        self._issuers = [Issuer(name, leeway_s=leeway_s) for name in settings.id_jag_issuers]

    @property
    def enabled(self) -> bool:
        """Whether any identity provider may vouch for people."""
        return bool(self._issuers)

    async def read(
        self, assertion: str, client: Client, gateway: str, asked: Collection[str], now: float
    ) -> Vouched:
        """Validate an assertion and return its contents.

        Args:
            assertion: as the client brings it.
            client: who brings it, which has proved who it is.
            gateway: issuer identifier of the gateway, whom it must be for.
            asked: scopes that the client asks for; none: all that it may have.
            now: seconds since 1970.

        Raises:
            OAuthError: it does not hold, is for somebody else, or grants too little.
            BackendError: the keys of the identity provider cannot be fetched.
        """
        issuer = issuer_of(assertion, self._issuers) if len(assertion) <= MAX_TOKEN_CHARS else None
        if issuer is None:
            raise _refused("it is of no identity provider that may vouch for people here")
        try:
            claims = await issuer.claims(assertion, _TYPES)
            until = expiry_of(claims) + self._leeway_s
            identity = self._identity(issuer, claims)
            further = self._further(claims)
        except jwt.PyJWTError as error:
            why = reason(error)
            _log.rate_limited("info", "id_jag_refused", reason=why, issuer=issuer.name)
            raise _refused(f"it is no ID-JAG that holds now ({why})") from None
        except AuthenticationFailed as error:
            raise _refused(error.message) from None
        if audience_of(claims) != frozenset((gateway,)):
            raise _refused(f"its aud is not {gateway!r} alone")
        if text(claims.get("client_id")) != client.id:
            raise _refused("its client_id is not that of the client that brings it")
        once = text(claims.get("jti"))
        if not once or "iat" not in claims:
            raise _refused("it has no jti or no iat")
        if until > now + _MOST_S + 2 * self._leeway_s:
            raise _refused(f"it holds for longer than {int(_MOST_S)} seconds")
        scopes = self._scopes(claims, frozenset(asked))
        identity = Identity(identity.subject, identity.user, tuple(sorted(scopes | further)))
        return Vouched(
            identity,
            _resource(claims),
            tuple(sorted(scopes.union(self._settings.granted))),
            f"{issuer.name} {once}",
            until,
        )

    def _identity(self, issuer: Issuer, claims: Mapping[str, Any]) -> Identity:
        """The person; the same as by a login, where the assertion is of the login provider."""
        subject = named(claims, "sub")
        user = named(claims, self._settings.user_claim)
        first = self._settings.issuer
        if first and same_issuer(issuer.name, first):
            check_own(user, self._settings.id_jag_issuers)
            return Identity(f"{first}|{subject}", user)
        return Identity(f"{issuer.name}|{subject}", f"{issuer.name}|{user}")

    def _further(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Further scopes of the person, from a claim of their own."""
        claim = self._settings.scopes_claim
        return frozenset() if claim == "scope" else scopes_of(claims, claim)

    def _scopes(self, claims: Mapping[str, Any], asked: frozenset[str]) -> frozenset[str]:
        """The scopes that are both requested and granted.

        Raises:
            OAuthError: one is missing that every token needs.
        """
        if "scope" not in claims:
            return frozenset()
        scopes = scopes_of(claims, "scope")
        if asked:
            scopes &= asked
        missing = sorted(frozenset(self._settings.granted) - scopes)
        if missing:
            raise OAuthError(
                "invalid_scope",
                f"every token needs {' '.join(missing)}; ask for it, and have the identity "
                "provider grant it",
            )
        return scopes


def _resource(claims: Mapping[str, Any]) -> str:
    said = claims.get("resource", "")
    if isinstance(said, list) and len(said) == 1:
        said = said[0]
    if not isinstance(said, str) or said != text(said):
        raise _refused("its resource is not one URL")
    return said


def _refused(why: str) -> OAuthError:
    return InvalidGrant(f"the assertion cannot be taken: {why}")
