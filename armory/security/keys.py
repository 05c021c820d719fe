"""The public keys of an identity provider, by id.

Owns: fetching them, caching them while the provider is down, and fetching them again for an unknown
id. Never follows anything that a token's header points to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jwt

from armory.errors import BackendError
from armory.logger import Logger
from armory.oauth.exchange import NoAnswer, Route, exchange
from armory.tasks import Flight

_log = Logger(__name__)
T = TypeVar("T")
Fetch = Callable[[str], Awaitable[bytes]]
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_PUBLIC = ("kty", "alg", "kid", "crv", "x", "y", "n", "e")
"""What is read of a key. One with private parts would be computed with, which of numbers that
somebody chose takes hours."""
_MAX_RSA = {"n": 8_192, "e": 64}
"""Bits of an RSA key: each signature is checked with numbers of that size."""
_MAX_JWKS_BYTES = 1_048_576
_FRESH_S = 600.0
_STALE_S = 86_400.0
_COOLDOWN_S = 10.0
_FETCH_S = 5.0


class NoDocument(BackendError):
    """The provider answered, and has no such document."""


async def fetch(url: str, named: tuple[str, ...] | None = None) -> bytes:
    """Fetch the document at an http(s) URL, at most 1 MiB.

    Args:
        url: where it is.
        named: as in `Route`.

    Raises:
        NoDocument: the server has no such document.
        BackendError: it cannot be fetched.
    """
    route = Route(timeout_s=_FETCH_S, body_bytes=_MAX_JWKS_BYTES + 1, named=named)
    try:
        answer = await exchange("GET", url, {"Accept": "application/json"}, route=route)
    except NoAnswer as error:
        raise BackendError(f"the identity provider's keys cannot be had: {error}") from None
    status = answer.status
    if status != 200:
        kind = NoDocument if 400 <= status < 500 else BackendError
        raise kind(f"the identity provider's keys cannot be had: {url} answered HTTP {status}")
    if len(answer.body) > _MAX_JWKS_BYTES:
        raise BackendError("the identity provider's key document is over 1 MiB")
    return answer.body


@dataclass(frozen=True, slots=True)
class _Key:
    """A key with its metadata."""

    key: jwt.PyJWK
    jwk: dict[str, Any]

    def checking(self, algorithm: str) -> jwt.PyJWK:
        """The key for one algorithm: an RSA key works with each, unless it names one (RFC 7517,
        4.4).
        """
        if self.jwk["kty"] != "RSA" or "alg" in self.jwk or algorithm[:2] not in ("RS", "PS"):
            return self.key
        return jwt.PyJWK(self.jwk, algorithm)


class KeySet:
    """The provider's keys by id: fetched when needed, and again for an unknown id.

    Args:
        url: of the JWKS document, or what finds it out.
        algorithms: accepted ones; keys of other kinds are left out.
        fetch: gets a document.
        most: of its keys that are read; None: all.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        url: str | Callable[[], Awaitable[str]],
        algorithms: Sequence[str],
        *,
        fetch: Fetch = fetch,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._types = {_KEY_TYPES[a[:2]] for a in algorithms if a[:2] in _KEY_TYPES}
        self._fetch = fetch
        self._most = most
        self._clock = clock
        self._keys: dict[str, _Key] = {}
        self._failure = ""
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: Flight[None] = Flight("fetch an issuer's keys")
        self.generation = 0

    async def key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key with this id (without an id: the only key); None: there is none.

        Args:
            key_id: as the header of a token says it.
            algorithm: likewise, one of those that are accepted.

        Raises:
            BackendError: the keys cannot be fetched and this one is not kept.
            jwt.PyJWTError: it cannot check this algorithm.
        """
        found = self._find(key_id)
        age = self._clock() - self._fetched_at
        if found is not None and age < _FRESH_S:
            return found.checking(algorithm)
        await self._look_again()
        if self._clock() - self._fetched_at >= _STALE_S:
            raise BackendError("the identity provider's keys cannot be had")
        found = self._find(key_id)
        if found is not None:
            return found.checking(algorithm)
        if self._failure:  # it may be a new one
            raise BackendError(f"the token's key is not known, and {self._failure}")
        return None

    async def checked(self, kid: object, algorithm: str, check: Callable[[jwt.PyJWK], T]) -> T:
        """Run a check with the key that a token's header names. If the signature does not match,
        the key may have been replaced under the same id, or without one, as some providers do: it
        is fetched again.

        Raises:
            BackendError: as `key`.
            jwt.PyJWTError: as `key` and `check`; there is no such key.
        """
        key_id = kid if isinstance(kid, str) else None
        key = await self._known(key_id, algorithm)
        generation = self.generation
        try:
            return check(key)
        except jwt.InvalidSignatureError:
            await self._look_again()
            if self.generation == generation:
                raise
        return check(await self._known(key_id, algorithm))

    async def _known(self, key_id: str | None, algorithm: str) -> jwt.PyJWK:
        key = await self.key(key_id, algorithm)
        if key is None:
            raise jwt.InvalidKeyError
        return key

    async def _look_again(self) -> None:
        """Fetch the keys again, unless that was tried a moment ago."""
        if self._fetching.under_way or self._clock() - self._tried_at >= _COOLDOWN_S:
            await self._fetching.join(self._refresh)  # others need them, too, if this caller goes

    def _find(self, key_id: str | None) -> _Key | None:
        if key_id is not None:
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _refresh(self) -> None:
        self._tried_at = self._clock()
        try:
            url = self._url if isinstance(self._url, str) else await self._url()
            keys = self._read(await self._fetch(url))
        except BackendError as error:
            self._failure = error.message
            if not self._keys:
                raise
            _log.rate_limited("warning", "jwks_not_refreshed", error=error.message)
            return
        if _documents(keys) != _documents(self._keys):
            self.generation += 1
        self._keys, self._failure = keys, ""
        self._fetched_at = self._clock()

    def _read(self, data: bytes) -> dict[str, _Key]:
        try:
            entries = json.loads(data)["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BackendError("the identity provider's key document is not a JWKS") from None
        keys: dict[str, _Key] = {}
        for entry in entries[: self._most] if isinstance(entries, list) else ():
            if not isinstance(entry, dict) or str(entry.get("kty")) not in self._types:
                continue
            if entry.get("use", "sig") != "sig":
                continue
            jwk = {name: entry[name] for name in _PUBLIC if name in entry}
            if _is_huge(jwk):
                _log.rate_limited("warning", "jwk_left_out", error="it is too large")
                continue
            try:
                keys[str(entry.get("kid", ""))] = _Key(jwt.PyJWK(jwk), jwk)
            except Exception as error:  # noqa: BLE001 whatever is wrong with it, others hold
                _log.rate_limited("warning", "jwk_left_out", error=type(error).__name__)
        return keys


def _documents(keys: dict[str, _Key]) -> dict[str, dict[str, Any]]:
    return {key_id: key.jwk for key_id, key in keys.items()}


def _is_huge(jwk: dict[str, Any]) -> bool:
    return any(len(str(jwk.get(name, ""))) * 6 > bits + 32 for name, bits in _MAX_RSA.items())
