"""Session tokens of an identity provider: JWTs, verified with its published keys.

Owns: what makes a JWT valid here. Satisfies `authentication.Scheme`. Never follows anything that a
token's header points to.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import jwt
from cachetools import TLRUCache

from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, ConfigError
from armory.logger import Logger
from armory.oauth.metadata import text
from armory.security.claims import (
    FORM,
    MAX_TOKEN_CHARS,
    REFUSED,
    check_own,
    expiry_of,
    scopes_of,
    user_of,
)
from armory.security.keys import Fetch, KeySet, fetch
from armory.security.settings import JwtSettings

_log = Logger(__name__)
_FAMILIES = ("HS", "RS", "PS", "ES")
_ALGORITHMS = frozenset(
    {"EdDSA"} | {f"{family}{bits}" for family in _FAMILIES for bits in (256, 384, 512)}
)
_OTHERS = frozenset(
    ("logout+jwt", "secevent+jwt", "dpop+jwt", "oauth-id-jag+jwt", "client-authentication+jwt")
)
"""Types of tokens that providers sign with the same keys, and that are no sessions."""
_MIN_SECRET_CHARS = 32
_CHECKED_S = 60.0


class JwtScheme:
    """Verifies session tokens.

    Args:
        settings: what is required of a token, and what checks its signature.
        leeway_s: how far clocks may be apart.
        fetch: gets the key document.
        others: issuers of `security.oauth` whose users are called `ISSUER|NAME`.
        clock: seconds, monotonic.

    Raises:
        ConfigError: settings that do not fit together.
    """

    def __init__(
        self,
        settings: JwtSettings,
        *,
        leeway_s: float = 30.0,
        fetch: Fetch = fetch,
        others: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        url, algorithms = settings.jwks_url, settings.algorithms
        _check(url, settings.secret, algorithms)
        self._issuer = settings.issuer
        self._audience = settings.audience
        self._secret = settings.secret
        self._algorithms = list(algorithms)
        self._keys = KeySet(url, algorithms, fetch=fetch, clock=clock) if url else None
        self._user_claim = settings.user_claim
        self._scopes_claim = settings.scopes_claim
        self._leeway_s = leeway_s
        self._clock = clock
        self._others = tuple(others)
        self._checked: TLRUCache[bytes, tuple[Principal, float, int]] = TLRUCache(
            10_000, ttu=lambda _key, entry, _now: entry[1], timer=clock
        )

    async def identify(self, credential: str) -> Principal | None:
        """The principal of a token; None when `credential` does not have the form of one.

        Raises:
            AuthenticationFailed: a token that is not valid here; which check failed is logged.
            BackendError: the provider's keys cannot be fetched.
        """
        if len(credential) > MAX_TOKEN_CHARS or FORM.fullmatch(credential) is None:
            return None
        digest = hashlib.sha256(credential.encode()).digest()
        known = self._checked.get(digest)
        if known is not None and known[2] == self._generation:
            return known[0]
        try:
            claims = await self._claims(credential)
        except jwt.PyJWTError as error:
            _log.rate_limited("info", "jwt_refused", reason=type(error).__name__)
            raise AuthenticationFailed(REFUSED) from None
        principal = self._principal(claims)
        until = self._clock() + min(_CHECKED_S, expiry_of(claims) - time.time())
        self._checked[digest] = (principal, until, self._generation)
        return principal

    @property
    def _generation(self) -> int:
        return 0 if self._keys is None else self._keys.generation

    async def _claims(self, token: str) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self._algorithms:
            raise jwt.InvalidAlgorithmError
        if str(header.get("typ")).lower().removeprefix("application/") in _OTHERS:
            raise jwt.InvalidTokenError

        def decode(key: Any) -> dict[str, Any]:
            return jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_s,
                options={"require": ["exp"], "verify_aud": self._audience is not None},
            )

        if self._keys is None:
            claims = decode(self._secret)
        else:
            claims = await self._keys.checked(header.get("kid"), header["alg"], decode)
        # bound to a key that a bearer does not show; or it says that a session is over
        if isinstance(claims.get("cnf"), Mapping) or "events" in claims:
            raise jwt.InvalidTokenError
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        user = user_of(claims, self._user_claim)
        check_own(user, self._others)
        return Principal(
            text(claims.get("sub")) or user,
            user,
            scopes_of(claims, self._scopes_claim),
            "jwt",
            expiry_of(claims) + self._leeway_s,
        )


def _check(jwks_url: str | None, secret: str | None, algorithms: Sequence[str]) -> None:
    path = "security.jwt"
    if (jwks_url is None) == (secret is None):
        raise ConfigError("give exactly one of jwks_url and secret", path=path)
    wrong = [a for a in algorithms if a not in _ALGORITHMS]
    if wrong or not algorithms:
        raise ConfigError(
            f"{', '.join(wrong) or 'nothing'} is no algorithm to accept; expected some of "
            f"{', '.join(sorted(_ALGORITHMS))}",
            path=f"{path}.algorithms",
        )
    symmetric = [a for a in algorithms if a.startswith("HS")]
    if jwks_url is not None:
        if symmetric:
            raise ConfigError(
                f"{symmetric[0]} takes a secret, and public keys are none: whoever knows them "
                "could sign. Take RS256 or ES256",
                path=f"{path}.algorithms",
            )
        if urlsplit(jwks_url).scheme not in {"http", "https"}:
            raise ConfigError("expected an http or https URL", path=f"{path}.jwks_url")
    elif len(symmetric) != len(algorithms):
        raise ConfigError(
            "a secret goes with HS256, HS384 or HS512 only; other algorithms need jwks_url",
            path=f"{path}.algorithms",
        )
    elif len(secret or "") < _MIN_SECRET_CHARS:
        raise ConfigError(
            f"a secret of {len(secret or '')} characters can be guessed; expected at least "
            f"{_MIN_SECRET_CHARS}",
            path=f"{path}.secret",
        )
