"""Session tokens of an identity provider: JWTs, checked against its published keys.

Owns: what makes a JWT valid here, and keeping the provider's keys. Satisfies
`authentication.Scheme`. Never follows anything that a token's header points to.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import jwt
import structlog
from cachetools import TLRUCache

from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, BackendError, ConfigError
from armory.security.settings import JwtSettings

_log = structlog.get_logger(__name__)
Fetch = Callable[[str], Awaitable[bytes]]
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_FAMILIES = ("HS", "RS", "PS", "ES")
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_ALGORITHMS = frozenset(
    {"EdDSA"} | {f"{family}{bits}" for family in _FAMILIES for bits in (256, 384, 512)}
)
_MAX_TOKEN_CHARS = 16_384
_MAX_JWKS_BYTES = 1_048_576
_MAX_USER_CHARS = 200
_MIN_SECRET_BYTES = 32
_CHECKED_S = 60.0
_FRESH_S = 600.0
_STALE_S = 86_400.0
_COOLDOWN_S = 10.0
_FETCH_S = 5.0
_REFUSED = "the session token is not valid"


async def fetch(url: str) -> bytes:
    """The document at an http(s) URL, at most 1 MiB.

    Raises:
        BackendError: it cannot be had.
    """

    def get() -> bytes:
        request = Request(url, headers={"Accept": "application/json"})
        try:
            with urlopen(request, timeout=_FETCH_S) as answer:
                return answer.read(_MAX_JWKS_BYTES + 1)
        except HTTPError as error:
            error.close()
            raise

    try:
        data = await asyncio.wait_for(asyncio.to_thread(get), 2 * _FETCH_S)
    except (URLError, OSError, ValueError, TimeoutError) as error:
        raise BackendError(
            f"the identity provider's keys cannot be had ({type(error).__name__}); "
            "see security.jwt.jwks_url"
        ) from error
    if len(data) > _MAX_JWKS_BYTES:
        raise BackendError("the identity provider's key document is over 1 MiB")
    return data


class KeySet:
    """The provider's keys by id: fetched when needed, again when an unknown id turns up.

    Args:
        url: of the JWKS document.
        algorithms: accepted ones; keys of other kinds are left out.
        fetch: gets a document.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        url: str,
        algorithms: Sequence[str],
        *,
        fetch: Fetch = fetch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._types = {_KEY_TYPES[a[:2]] for a in algorithms if a[:2] in _KEY_TYPES}
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = asyncio.Lock()
        self.generation = 0

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key of that id (without one: the only key there is); None: no such key.

        Raises:
            BackendError: the keys cannot be had and none are kept.
        """
        found = self._find(key_id)
        age = self._clock() - self._fetched_at
        if found is not None and age < _FRESH_S:
            return found
        async with self._lock:
            if self._clock() - self._tried_at >= _COOLDOWN_S:
                await self._refresh()
        if self._clock() - self._fetched_at >= _STALE_S:
            raise BackendError("the identity provider's keys cannot be had")
        return self._find(key_id)

    def _find(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is not None:
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _refresh(self) -> None:
        self._tried_at = self._clock()
        try:
            keys = self._read(await self._fetch(self._url))
        except BackendError as error:
            if not self._keys:
                raise
            _log.warning("jwks_not_refreshed", error=error.message)
            return
        if keys.keys() != self._keys.keys():
            self.generation += 1
        self._keys = keys
        self._fetched_at = self._clock()

    def _read(self, data: bytes) -> dict[str, jwt.PyJWK]:
        try:
            entries = json.loads(data)["keys"]
        except (ValueError, KeyError, TypeError):
            raise BackendError("the identity provider's key document is not a JWKS") from None
        keys: dict[str, jwt.PyJWK] = {}
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict) or entry.get("kty") not in self._types:
                continue
            if entry.get("use", "sig") != "sig":
                continue
            try:
                keys[str(entry.get("kid", ""))] = jwt.PyJWK(entry)
            except jwt.PyJWTError as error:
                _log.warning("jwk_left_out", error=type(error).__name__)
        return keys


class JwtScheme:
    """The check of session tokens.

    Args:
        settings: what is required of a token, and what checks its signature.
        leeway_s: how far clocks may be apart.
        fetch: gets the key document.
        clock: seconds since 1970.

    Raises:
        ConfigError: settings that do not fit together.
    """

    def __init__(
        self,
        settings: JwtSettings,
        *,
        leeway_s: float = 30.0,
        fetch: Fetch = fetch,
        clock: Callable[[], float] = time.time,
    ) -> None:
        url, algorithms = settings.jwks_url, settings.algorithms
        _check(url, settings.secret, algorithms)
        self._issuer = settings.issuer
        self._audience = settings.audience
        self._secret = settings.secret
        self._algorithms = list(algorithms)
        self._keys = KeySet(url, algorithms, fetch=fetch) if url else None
        self._user_claim = settings.user_claim
        self._scopes_claim = settings.scopes_claim
        self._leeway_s = leeway_s
        self._clock = clock
        self._checked: TLRUCache[bytes, tuple[Principal, float, int]] = TLRUCache(
            10_000, ttu=lambda _key, entry, _now: entry[1], timer=clock
        )

    async def identify(self, credential: str) -> Principal | None:
        """The principal behind a token; None when `credential` has not the form of one.

        Raises:
            AuthenticationFailed: a token that is not valid here; which check failed is logged.
            BackendError: the provider's keys cannot be had.
        """
        if len(credential) > _MAX_TOKEN_CHARS or _FORM.fullmatch(credential) is None:
            return None
        digest = hashlib.sha256(credential.encode()).digest()
        known = self._checked.get(digest)
        if known is not None and known[2] == self._generation:
            return known[0]
        try:
            claims = await self._claims(credential)
        except jwt.PyJWTError as error:
            _log.info("jwt_refused", reason=type(error).__name__)
            raise AuthenticationFailed(_REFUSED) from None
        principal = self._principal(claims)
        until = min(self._clock() + _CHECKED_S, _expiry(claims))
        self._checked[digest] = (principal, until, self._generation)
        return principal

    @property
    def _generation(self) -> int:
        return 0 if self._keys is None else self._keys.generation

    async def _claims(self, token: str) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self._algorithms:
            raise jwt.InvalidAlgorithmError
        key: Any = self._secret
        if self._keys is not None:
            kid = header.get("kid")
            key = await self._keys.key(kid if isinstance(kid, str) else None)
            if key is None:
                raise jwt.InvalidKeyError
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=self._algorithms,
            issuer=self._issuer,
            audience=self._audience,
            leeway=self._leeway_s,
            options={"require": ["exp"], "verify_aud": self._audience is not None},
        )
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        user = claims.get(self._user_claim)
        if not isinstance(user, str) or not 1 <= len(user) <= _MAX_USER_CHARS:
            raise AuthenticationFailed(_REFUSED)
        if not user.isprintable() or user != user.strip():
            raise AuthenticationFailed(_REFUSED)
        subject = claims.get("sub")
        granted = claims.get(self._scopes_claim)
        if isinstance(granted, str):
            granted = granted.split()
        scopes = [s for s in granted if isinstance(s, str)] if isinstance(granted, list) else []
        return Principal(
            subject if isinstance(subject, str) and subject else user,
            user,
            frozenset(scopes),
            "jwt",
            _expiry(claims) + self._leeway_s,
        )


def _expiry(claims: Mapping[str, Any]) -> float:
    """When the token ends, in seconds since 1970.

    Raises:
        AuthenticationFailed: a number that is no date (10^400 is valid JSON).
    """
    try:
        return float(claims["exp"])
    except OverflowError:
        _log.info("jwt_refused", reason="exp is no date")
        raise AuthenticationFailed(_REFUSED) from None


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
    elif len(secret or "") < _MIN_SECRET_BYTES:
        raise ConfigError(
            f"a secret of {len(secret or '')} characters can be guessed; expected at least "
            f"{_MIN_SECRET_BYTES}",
            path=f"{path}.secret",
        )
