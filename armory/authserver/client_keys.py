"""Clients that authenticate by a signed assertion (`private_key_jwt`; RFC 7523, 2.2).

Owns: where their public keys are, and what of an assertion is believed. Never registers anybody.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import jwt
import msgspec
from cachetools import LRUCache

from armory.authserver.clients import Client
from armory.authserver.errors import UnusableClient
from armory.errors import AuthenticationFailed, BackendError
from armory.logger import Logger
from armory.oauth.exchange import NoAnswer, Route, exchange
from armory.oauth.metadata import text
from armory.security.claims import MAX_TOKEN_CHARS, expiry_of
from armory.security.issuer import ALGORITHMS
from armory.security.keys import KeySet

_log = Logger(__name__)
KIND = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
METHOD: Final = "private_key_jwt"
_TYPES = frozenset(("jwt", "client-authentication+jwt", "application/client-authentication+jwt"))
_MOST_S = 3_600.0
_KEPT, _MOST_KEYS = 128, 32
"""Clients whose keys are kept, and of how many keys: anybody may name a document that has some."""
Once = Callable[[str, float], Awaitable[bool]]
"""Takes an id for some seconds; whether nobody had it, on any replica."""


class ClientKeys:
    """Verifies the assertions of clients that have a key.

    Args:
        once: remembers assertions.
        route: how keys are reached that a client names.
        leeway_s: by how many seconds clocks may be apart.
    """

    def __init__(
        self,
        once: Once,
        *,
        route: Route,
        leeway_s: float = 30.0,
    ) -> None:
        self._once = once
        self._route = route
        self._leeway_s = leeway_s
        self._keys: LRUCache[str, KeySet] = LRUCache(_KEPT)

    async def check(self, client: Client, assertion: str, audiences: Sequence[str]) -> None:
        """Check that a client's assertion proves its identity.

        Args:
            client: that has a key.
            assertion: as it brings it.
            audiences: the gateway as an authorization server, and its token endpoint: for one of
                them it must be, and for nothing else.

        Raises:
            UnusableClient: it does not; says why.
        """
        try:
            claims = await self._claims(client, assertion)
            until = expiry_of(claims) + self._leeway_s
        except (jwt.PyJWTError, AuthenticationFailed) as error:
            why = type(error).__name__
            _log.rate_limited("info", "client_assertion_refused", reason=why, client=client.id)
            raise _refused(f"it does not hold now ({why})") from None
        except BackendError as error:
            raise _refused(f"the client's keys cannot be had: {error.message}") from None
        if claims["sub"] != client.id:
            raise _refused("its sub is not the client_id")
        if claims["aud"] not in audiences:
            raise _refused(f"its aud is not {audiences[0]!r} alone")
        if not (id := text(claims["jti"])):
            raise _refused("its jti is no text")
        now = time.time()
        if until > now + _MOST_S + 2 * self._leeway_s:
            raise _refused(f"it holds for longer than {int(_MOST_S)} seconds")
        once = hashlib.sha256(f"{METHOD} {client.id} {id}".encode()).hexdigest()
        if not await self._once(once, until - now):
            raise _refused("it was used before")

    async def _claims(self, client: Client, assertion: str) -> Mapping[str, Any]:
        if len(assertion) > MAX_TOKEN_CHARS:
            raise jwt.DecodeError
        header = jwt.get_unverified_header(assertion)
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "jwt")
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise jwt.InvalidTokenError

        def decode(key: jwt.PyJWK) -> dict[str, Any]:
            return jwt.decode(
                assertion,
                key,
                algorithms=[algorithm],
                issuer=client.id,
                leeway=self._leeway_s,
                options={"require": ["exp", "iss", "sub", "aud", "jti"], "verify_aud": False},
            )

        return await self._keys_of(client).checked(kid, algorithm, decode)

    def _keys_of(self, client: Client) -> KeySet:
        found = self._keys.get(client.keys)
        if found is None:
            found = self._keys[client.keys] = KeySet(
                client.keys, ALGORITHMS, fetch=self._fetched, most=_MOST_KEYS
            )
        return found

    async def _fetched(self, keys: str) -> bytes:
        """The client's JWKS: from its URL, or from the client's own document."""
        if not keys.startswith("https://"):
            return keys.encode()
        try:
            answer = await exchange("GET", keys, {"Accept": "application/json"}, route=self._route)
        except NoAnswer as error:
            _log.rate_limited("info", "client_keys_not_had", reason=error.why)
            raise BackendError(str(error)) from None
        if answer.status != 200:
            raise BackendError(f"{keys} answered HTTP {answer.status}")
        if len(answer.body) >= self._route.body_bytes:
            raise BackendError(f"{keys} is over {self._route.body_bytes >> 10} KiB")
        return answer.body


def claimed(assertion: str) -> str:
    """The client id that an assertion claims, not verified; "": none."""
    try:
        claims = jwt.decode(assertion, options={"verify_signature": False})
    except jwt.PyJWTError:
        return ""
    return text(claims.get("sub"))


def keys_in(metadata: Mapping[str, Any]) -> str:
    """The keys in a client's metadata: their URL, or the JWKS itself.

    Raises:
        UnusableClient: it does not say, or says both.
    """
    url, document = metadata.get("jwks_uri"), metadata.get("jwks")
    if (url is None) == (document is None):
        raise UnusableClient(f"{METHOD} needs exactly one of jwks_uri and jwks")
    if url is None:
        if not isinstance(document, dict):
            raise UnusableClient("its jwks is no JSON object")
        return msgspec.json.encode(document).decode()
    if not text(url).startswith("https://"):
        raise UnusableClient("its jwks_uri is no https URL")
    return text(url)


def _refused(why: str) -> UnusableClient:
    return UnusableClient(f"the client_assertion cannot be taken: {why}")
