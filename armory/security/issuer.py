"""One authorization server: its metadata, its keys, and token introspection.

Owns: finding an issuer's endpoints, and calling them. Never decides what a token may do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import jwt

from armory.errors import BackendError
from armory.logger import Logger
from armory.oauth.exchange import DIRECT, NoAnswer, basic, exchange, json_object
from armory.oauth.metadata import Undiscovered, is_secure, server_metadata, text
from armory.security.keys import Fetch, KeySet, NoDocument
from armory.security.keys import fetch as document
from armory.security.settings import IntrospectionSettings
from armory.tasks import Flight

_log = Logger(__name__)
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Public-key signatures only: nobody can sign with a key that is published."""
_TYPES = frozenset(("jwt", "at+jwt", "application/at+jwt"))
_COOLDOWN_S = 10.0
_METADATA_S = 3_600.0
_LATEST = 1 << 53
AT_ONCE = 64
"""Opaque tokens that are asked about at a time: anybody may send some, and each takes a socket."""


class Issuer:
    """One authorization server, contacted when needed.

    Args:
        name: its issuer identifier, as configured.
        leeway_s: how far clocks may be apart.
        fetch: gets its documents; None: over HTTP, from inside only if it is there itself.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        name: str,
        *,
        leeway_s: float = 30.0,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._leeway_s = leeway_s
        self._route = replace(DIRECT, named=(name,))
        fetch = fetch or partial(document, named=(name,))
        self._fetch = fetch
        self._clock = clock
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._metadata: Mapping[str, Any] | None = None
        self._asked_at = self._tried_at = float("-inf")
        self._asking: Flight[Mapping[str, Any]] = Flight("ask an issuer about itself")
        self.keys = KeySet(self._keys_url, ALGORITHMS, fetch=fetch, clock=clock)

    async def claims(self, token: str, types: Collection[str] = _TYPES) -> Mapping[str, Any]:
        """The claims of an access token that this issuer signed; audiences are not checked.

        Raises:
            jwt.PyJWTError: it did not, or the token does not hold now.
            BackendError: its keys cannot be fetched.
        """
        header = jwt.get_unverified_header(token)
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "jwt")
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError
        if not isinstance(kind, str) or kind.lower() not in types:
            raise jwt.InvalidTokenError  # e.g. a logout token in place of an access token
        metadata = await self.metadata()

        def decode(key: jwt.PyJWK) -> dict[str, Any]:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=text(metadata.get("issuer")),
                leeway=self._leeway_s,
                options={"require": ["exp", "iss", "sub"], "verify_aud": False},
            )

        try:
            claims = await self.keys.checked(kid, algorithm, decode)
        except jwt.ImmatureSignatureError:
            early = _early_by(token)
            _log.rate_limited(
                "warning", "clocks_apart", issuer=self.name, ahead_s=early, allowed=self._leeway_s
            )
            raise jwt.ImmatureSignatureError(
                f"it begins in {early} s: the clock of {self.name} is ahead of the gateway's by "
                f"more than the {self._leeway_s:g} s of security.oauth.clock_skew_s"
            ) from None
        if isinstance(claims.get("cnf"), Mapping):
            raise jwt.InvalidTokenError  # bound to a key that a bearer does not show
        return claims

    async def metadata(self) -> Mapping[str, Any]:
        """Its metadata; cached for an hour, and longer while it is unreachable.

        Raises:
            BackendError: it cannot be fetched, or is not to be trusted.
        """
        known = self._metadata
        if known is not None and self._clock() - self._asked_at < _METADATA_S:
            return known
        if self._asking.under_way or self._clock() - self._tried_at >= _COOLDOWN_S:
            return await self._asking.join(self._ask)  # others need it, too, if this caller goes
        if known is None:
            raise BackendError(f"the identity provider {self.name!r} cannot be asked")
        return known

    async def _ask(self) -> Mapping[str, Any]:
        self._tried_at = self._clock()
        try:
            found = await server_metadata(self.name, self._object)
        except (Undiscovered, BackendError) as error:
            _log.rate_limited("warning", "issuer_not_asked", issuer=self.name, error=str(error))
            if self._metadata is None:
                raise BackendError(f"the identity provider: {error}") from None
            return self._metadata
        self._metadata, self._asked_at, self._tried_at = found, self._clock(), float("-inf")
        return found

    async def _object(self, url: str) -> Mapping[str, Any] | None:
        try:
            return json_object(await self._fetch(url))
        except NoDocument:
            return None

    async def _keys_url(self) -> str:
        return await self._endpoint("jwks_uri")

    async def _endpoint(self, name: str) -> str:
        url = text((await self.metadata()).get(name))
        if not url:
            raise BackendError(f"the metadata of {self.name!r} name no {name}")
        if not is_secure(url):
            raise BackendError(f"the {name} of {self.name!r} is not reached over https")
        return url

    async def introspect(
        self, token: str, settings: IntrospectionSettings
    ) -> Mapping[str, Any] | None:
        """Introspect a token (RFC 7662); None: it is not active.

        Raises:
            BackendError: it cannot be asked.
        """
        url = settings.url or await self._endpoint("introspection_endpoint")
        form = {"token": token, "token_type_hint": "access_token"}
        headers = basic(settings.client_id, settings.client_secret)
        route = replace(self._route, named=None) if settings.url else self._route
        try:
            async with self._turn:
                answer = await exchange("POST", url, headers, form=form, route=route)
        except NoAnswer as error:
            raise BackendError(f"the token cannot be checked: {error}") from None
        claims = json_object(answer.body)
        if answer.status != 200 or claims is None:
            raise BackendError(f"the token cannot be checked: {url} answered HTTP {answer.status}")
        return claims if claims.get("active") is True else None


def reason(error: jwt.PyJWTError) -> str:
    """Why a token is invalid, without any part of the token."""
    if isinstance(error, jwt.ImmatureSignatureError):
        return str(error)
    if isinstance(error, jwt.ExpiredSignatureError):
        return "it has expired"
    return type(error).__name__


def _early_by(token: str) -> int:
    """In how many seconds a token, whose signature was checked, becomes valid."""
    claims = jwt.decode(token, options={"verify_signature": False})
    said = [claims.get(name) for name in ("iat", "nbf")]
    starts = [min(at, _LATEST) for at in said if isinstance(at, int | float)]
    return round(max(starts, default=0) - time.time())


def issuer_of(token: str, known: Sequence[Issuer]) -> Issuer | None:
    """The issuer named in a JWT, not verified yet; None: an unknown one."""
    named = issuer_named(token)
    return next((one for one in known if one.name.rstrip("/") == named), None)


def issuer_named(token: str) -> str:
    """The name of the issuer in a JWT, without a slash at the end; "": not a JWT, or it
    has none.
    """
    try:
        claims = jwt.decode(token, options={"verify_signature": False, "verify_exp": False})
    except jwt.PyJWTError:
        return ""
    return text(cast("Mapping[str, Any]", claims).get("iss")).rstrip("/")
