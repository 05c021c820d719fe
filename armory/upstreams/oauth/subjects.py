"""Tokens for an upstream made from the caller's own token: exchanged, or passed through.

Owns: RFC 8693, and which token may be passed on at all. Never imports the protocol; never logs a
token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from cachetools import TLRUCache
from yarl import URL

from armory.domain.principal import INTERNAL, Principal
from armory.errors import LoginNeeded
from armory.oauth.exchange import json_object
from armory.oauth.metadata import Undiscovered, is_secure, server_metadata, text, texts
from armory.upstreams.oauth.client import (
    NoToken,
    TokenRefused,
    TokenResponse,
    client_authentication,
    secret_method,
)
from armory.upstreams.oauth.discovery import AuthServerMetadata, Challenge, canonical
from armory.upstreams.oauth.grants import Passthrough, SubjectToken, TokenExchange
from armory.upstreams.oauth.tokens import Tokens

CALLER: ContextVar[Principal | None] = ContextVar("caller", default=None)
"""On whose behalf the present call goes upstream; None: this task belongs to no call, and what it
sends goes with the newest token of whoever the session is for."""
_KEPT = 10_000
_REFUSED_S, _AWAY_S = 10.0, 2.0
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_PROVIDER = "the identity provider"


class SubjectTokens(Tokens):
    """Base of tokens that are derived from the caller's own."""

    def subject(self, kind: SubjectToken = "access_token") -> str:
        """The token of the caller.

        Args:
            kind: which one, of a caller that the gateway logged in; others have but one.

        Raises:
            LoginNeeded: it is the gateway itself, which has none.
            NoToken: it came with another credential.
        """
        caller = CALLER.get()
        if caller is None or caller is INTERNAL:
            raise LoginNeeded(
                f"upstream {self._server!r} is used with the callers' own tokens",
                upstream=self._server,
            )
        if caller.credential is None:
            raise self.failed(
                "it takes the access token that a person logs in with (security.oauth), and this "
                "caller has none"
            )
        if kind == "access_token" or caller.id_token is None:
            return caller.credential
        if not caller.id_token:
            raise self.failed(
                "it takes the ID token of a login at the provider behind the gateway, which gave "
                "none to this caller; have security.oauth.proxy.scopes name 'openid', or take "
                "'subject_token: access_token'"
            )
        return caller.id_token

    def lacks(self, challenge: Challenge) -> bool:
        """As `Tokens.lacks`: what may be asked for is configured."""
        return False


class PassthroughTokens(SubjectTokens):
    """The caller's own token; see `Tokens`.

    Args:
        server: key of the upstream.
        grant: as configured.
        more: as for `Tokens`.
    """

    def __init__(self, server: str, grant: Passthrough, **more: Any) -> None:
        super().__init__(server, **more)
        self._grant = grant

    async def current(self, url: URL) -> str | None:
        """As `Tokens.current`: only where the token says that it is for this upstream."""
        token = self.subject()
        wanted = self._grant.audience or canonical(url)
        if wanted not in _audience(token):
            place = "" if self._grant.audience else repr(wanted)
            reason = f"the caller's token is not for {wanted!r}, so it is not passed on"
            raise self.failed(reason, place, "this upstream")
        return token

    async def renewed(self, refused: str | None, url: URL, challenge: Challenge) -> str:
        """As `Tokens.renewed`: there is no other."""
        raise self.failed("it refused the caller's token")


class ExchangedTokens(SubjectTokens):
    """Tokens by exchange, each kept until shortly before it expires; see `Tokens`.

    Args:
        server: key of the upstream.
        grant: as configured.
        more: as for `Tokens`.
    """

    def __init__(self, server: str, grant: TokenExchange, **more: Any) -> None:
        super().__init__(server, **more)
        self._grant = grant
        self._place: AuthServerMetadata | None = None
        self._asking: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._kept: TLRUCache[bytes, tuple[str | NoToken, float]] = TLRUCache(
            _KEPT, ttu=lambda _key, entry, _now: entry[1], timer=time.monotonic
        )

    async def current(self, url: URL) -> str | None:
        """As `Tokens.current`."""
        subject = self.subject(self._grant.subject_token)
        key = hashlib.sha256(subject.encode()).digest()
        kept = self._kept.get(key)
        if kept is None:
            async with self._asking.setdefault(key, asyncio.Lock()):
                kept = self._kept.get(key)
                if kept is None:
                    kept = self._kept[key] = await self._outcome(subject, url)
        if isinstance(kept[0], NoToken):
            raise kept[0].with_traceback(None)
        return kept[0]

    async def renewed(self, refused: str | None, url: URL, challenge: Challenge) -> str:
        """As `Tokens.renewed`: exchanges once more; a fresh token that is refused is not exchanged
        again.
        """
        subject = self.subject(self._grant.subject_token)
        key = hashlib.sha256(subject.encode()).digest()
        kept = self._kept.get(key)
        if kept is not None and kept[0] == refused:
            del self._kept[key]
        token = await self.current(url)
        assert token is not None
        return token

    async def _outcome(self, subject: str, url: URL) -> tuple[str | NoToken, float]:
        """(token or why there is none, until when that is believed)."""
        now = time.monotonic()
        try:
            given = await self.exchanged(subject, url)
        except NoToken as error:
            lasts = _REFUSED_S if isinstance(error, TokenRefused) else _AWAY_S
            return error, time.monotonic() + lasts
        return given.token, now + given.fresh_s

    async def exchanged(self, subject: str, url: URL) -> TokenResponse:
        """The token for the upstream at `url`.

        Raises:
            NoToken: no token could be obtained.
        """
        grant = self._grant
        audience = {"audience": grant.audience} if grant.audience else {"resource": canonical(url)}
        return await self.exchange_for("access_token", subject, audience)

    async def exchange_for(
        self, wanted: str, subject: str, audience: Mapping[str, str], kind: str = "Bearer"
    ) -> TokenResponse:
        """Exchange the caller's token at the authorization server (RFC 8693).

        Args:
            wanted: type of token, behind the usual prefix.
            subject: the caller's token.
            audience: members of the form that say what it is to be for.
            kind: the `token_type` of the answer.

        Raises:
            NoToken: the authorization server issues none.
        """
        grant = self._grant
        place = await self._discovered()
        form = {
            "grant_type": _EXCHANGE,
            "subject_token": subject,
            "subject_token_type": f"{TOKEN_TYPE}{grant.subject_token}",
            "requested_token_type": f"{TOKEN_TYPE}{wanted}",
            **audience,
        }
        if grant.scopes:
            form["scope"] = " ".join(grant.scopes)
        method = secret_method(place) if grant.client_auth == "auto" else grant.client_auth
        headers = client_authentication(method, grant.client_id, grant.client_secret, form)
        return await self.request_token(place, headers, form, kind)

    async def _discovered(self) -> AuthServerMetadata:
        place, grant = self._place, self._grant
        if place is None and grant.token_url:
            place = self._place = AuthServerMetadata(grant.token_url, role=_PROVIDER)
        if place is None:
            try:
                found = await server_metadata(grant.issuer, partial(self.fetch, role=_PROVIDER))
            except Undiscovered as error:
                raise self.undiscovered(error, _PROVIDER) from None
            token_url = text(found.get("token_endpoint"))
            if not is_secure(token_url):
                reason = f"the token_endpoint {token_url!r} is not reached over https"
                raise self.failed(reason, repr(token_url), f"of {_PROVIDER}")
            methods = tuple(texts(found.get("token_endpoint_auth_methods_supported")))
            place = self._place = AuthServerMetadata(
                token_url, grant.issuer, methods, role=_PROVIDER
            )
        return place


def _audience(token: str) -> list[str]:
    """The audience of the caller's JWT, whose signature was checked at authentication."""
    body = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json_object(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return []
    said = (claims or {}).get("aud")
    return [said] if isinstance(said, str) else texts(said)
