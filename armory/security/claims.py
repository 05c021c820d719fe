"""Reads the claims of a token: user, scopes, audiences, expiry.

Owns: reading claims from untrusted issuers. Never checks a signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from armory.errors import AuthenticationFailed
from armory.logger import Logger
from armory.oauth.metadata import texts

_log = Logger(__name__)
FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
"""The form of a signed JWT."""
MAX_TOKEN_CHARS = 16_384
REFUSED = "the session token is not valid"
"""All that a caller is told; which check failed is in the log."""
UNVERIFIED = "the email address is not verified (email_verified)"
_MAX_USER_CHARS = 200
_VERIFIED = (None, True, "true", "1")
_CREDENTIALS = ("token:", "api_key:", "anonymous:", "environment:", "internal:")
"""Prefixes of callers without a user, which no user's name may begin with."""


def user_of(claims: Mapping[str, Any], claim: str) -> str:
    """The user in a claim.

    Raises:
        AuthenticationFailed: there is none that could be one, or it is an address of which the
            provider says that nobody has checked whose it is.
    """
    user = claims.get(claim)
    if not isinstance(user, str) or not 1 <= len(user) <= _MAX_USER_CHARS:
        _log.rate_limited("info", "jwt_refused", reason=f"no user in the claim {claim!r}")
        raise AuthenticationFailed(REFUSED)
    if not user.isprintable() or user != user.strip() or user.startswith(_CREDENTIALS):
        _log.rate_limited("info", "jwt_refused", reason=f"no user in the claim {claim!r}")
        raise AuthenticationFailed(REFUSED)
    if is_unverified(claims, claim):
        _log.rate_limited("info", "jwt_refused", reason=UNVERIFIED)
        raise AuthenticationFailed(REFUSED)
    return user


def is_unverified(claims: Mapping[str, Any], claim: str) -> bool:
    """Whether a claim is an email address that its bearer may have made up: `email_verified` is
    there and not true. Cognito sends it as text, others in the way of their language (`False`).
    """
    said = claims.get("email_verified")
    if isinstance(said, str):
        said = said.lower()
    return claim == "email" and said not in _VERIFIED


def check_own(user: str, others: Iterable[str]) -> None:
    """Reject a user of the first issuer, or of `security.jwt`, whose name looks like that of
    another issuer's user (`ISSUER|NAME`).

    Raises:
        AuthenticationFailed: the name looks like that.
    """
    if user.startswith(tuple(f"{other}|" for other in others)):
        _log.rate_limited(
            "info", "jwt_refused", reason="the user is called like one of another issuer"
        )
        raise AuthenticationFailed(REFUSED)


def scopes_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """The scopes in a claim: a list, or words in a text.

    Raises:
        AuthenticationFailed: they are elsewhere, and nobody knows what they bar.
    """
    granted = claims.get(claim)
    if not granted and _is_elsewhere(claims, claim):
        _log.rate_limited(
            "warning",
            "scopes_elsewhere",
            claim=claim,
            user=str(claims.get("sub"))[:_MAX_USER_CHARS],
        )
        raise AuthenticationFailed(
            f"{claim!r} is left out of the token, which only says that there are too many of them, "
            "so nobody knows what this user may not do"
        )
    if isinstance(granted, str):
        granted = granted.split()
    return frozenset(texts(granted))


def _is_elsewhere(claims: Mapping[str, Any], claim: str) -> bool:
    """Whether a claim must be fetched from elsewhere (OpenID Connect Core, 5.6.2). Entra does this,
    or sets `hasgroups`, for users in too many groups.
    """
    names = claims.get("_claim_names")
    named = isinstance(names, Mapping) and claim in names
    return named or (claim == "groups" and bool(claims.get("hasgroups")))


def audience_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """The audiences of a token; empty: it has none."""
    audience = claims.get("aud")
    if isinstance(audience, str):
        return frozenset((audience,))
    listed = audience if isinstance(audience, list) else ()
    return frozenset(entry for entry in listed if isinstance(entry, str))


def expiry_of(claims: Mapping[str, Any]) -> float:
    """The expiry of a token, in seconds since 1970.

    Raises:
        AuthenticationFailed: no number, or one that is no date (10^400 is valid JSON).
    """
    try:
        return float(claims["exp"])
    except (KeyError, TypeError, ValueError, OverflowError):
        _log.rate_limited("info", "jwt_refused", reason="exp is no date")
        raise AuthenticationFailed(REFUSED) from None
