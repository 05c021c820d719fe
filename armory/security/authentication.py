"""Authentication: maps the credential of a request to a Principal.

Owns: the authentication chain (static bearer tokens, then pluggable schemes, then anonymous).
Never imports a web framework, accounts or storage: API keys and JWTs reach it through `Scheme`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import ArmoryError, AuthenticationFailed, ConfigError, InsufficientScope

ADMIN = "admin"
"""Scope of those who run the gateway."""
_MIN_TOKEN_CHARS = 8
_VARIABLE = re.compile(r"\$(?:[A-Z_][A-Z0-9_]{0,99}|\{[A-Za-z_][\w:]{0,99}\})", re.ASCII)
"""What clients send that leave variables which are not set as they are (Claude Code)."""


@dataclass(frozen=True, slots=True)
class StaticToken:
    """One entry of `security.tokens`.

    Attributes:
        name: the entry's key; becomes the principal's subject.
        token: the secret itself; kept only as a digest.
        scopes: what it grants.
        user: the account it acts for, if any.
    """

    name: str
    token: str
    scopes: frozenset[str] = frozenset()
    user: str | None = None


class Scheme(Protocol):
    """A way to check bearer credentials: API keys of the accounts database, JWTs."""

    async def identify(self, credential: str) -> Principal | None:
        """The principal that `credential` proves; None if it does not have this scheme's form.

        Raises:
            AuthenticationFailed: it is of this form and not valid (unknown, expired, revoked ...).
        """
        ...


class Admission(Protocol):
    """The step after authentication: the principal's account is looked up."""

    async def admit(self, principal: Principal) -> None:
        """Admit `principal`, and load what policy needs of its account into memory.

        Raises:
            AuthenticationFailed: the account is switched off.
            BackendError: the account could not be looked up.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The gateway's metadata as an OAuth protected resource.

    Attributes:
        issuers: authorization servers whose tokens are taken.
        scopes: that every token needs.
        by_itself: whether the gateway is the authorization server.
    """

    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    by_itself: bool = False


class Authenticator:
    """The chain: a credential is tried against the static tokens, then each scheme in order.

    A request with a credential that nobody accepts is refused even where anonymous callers are
    allowed: a mistyped token must not silently become somebody else.

    Args:
        tokens: static bearer tokens.
        schemes: further ways, in the order in which they are tried.
        allow_anonymous: whether a request without any credential is `ANONYMOUS`. Whoever builds
            this decides it from the bind address (loopback only, unless configured otherwise).
        protected: the authorization servers, where access tokens are taken; None: none are.
        admission: asked about every principal that has a user.

    Attributes:
        endings: how many credentials were revoked and users deactivated so far. If it grew while
            a request waited, the request has to be authenticated again.
        on_ending: functions that are called after each of these.

    Raises:
        ConfigError: two tokens are equal, or one is too short to be a secret.
    """

    def __init__(
        self,
        tokens: Sequence[StaticToken] = (),
        schemes: Sequence[Scheme] = (),
        *,
        allow_anonymous: bool,
        protected: ProtectedResource | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._admission = admission
        self._schemes = tuple(schemes)
        self._allow_anonymous = allow_anonymous
        self._by_digest: dict[bytes, tuple[bytes, Principal]] = {}
        self.protected = protected
        self.endings = 0
        self.on_ending: set[Callable[[], None]] = set()
        for entry in tokens:
            path = f"security.tokens.{entry.name}.token"
            if len(entry.token) < _MIN_TOKEN_CHARS:
                raise ConfigError(
                    f"a token of {len(entry.token)} characters is no secret; use at least "
                    f'{_MIN_TOKEN_CHARS}, e.g. from: python -c "import secrets; '
                    'print(secrets.token_urlsafe(32))"',
                    path=path,
                )
            digest = hashlib.sha256(entry.token.encode()).digest()
            if digest in self._by_digest:
                raise ConfigError("the same token is given twice; make each its own", path=path)
            principal = Principal(entry.name, entry.user, entry.scopes, "token")
            self._by_digest[digest] = (digest, principal)

    def ended(self) -> None:
        """Record that a credential was revoked or a user deactivated."""
        self.endings += 1
        for notify in tuple(self.on_ending):
            notify()

    @property
    def everybody(self) -> bool:
        """Whether requests without a credential are accepted."""
        return self._allow_anonymous

    def challenge(
        self, failure: ArmoryError, headers: Mapping[str, str], metadata_url: str | None = None
    ) -> str:
        """The `WWW-Authenticate` header for a rejected request.

        Args:
            failure: why.
            headers: of the request.
            metadata_url: of the endpoint's protected-resource metadata (RFC 9728).
        """
        if self.protected is None:
            return "Bearer"
        parts: list[str] = []
        scopes = self.protected.scopes
        if isinstance(failure, InsufficientScope):
            parts.append('error="insufficient_scope"')
            scopes = failure.scopes
        elif "Authorization" in headers:
            parts.append('error="invalid_token"')
        if scopes:
            parts.append(f'scope="{" ".join(scopes)}"')
        if metadata_url is not None:
            parts.append(f'resource_metadata="{metadata_url}"')
        return f"Bearer {', '.join(parts)}" if parts else "Bearer"

    async def authenticate(
        self, headers: Mapping[str, str], resource: str | None = None
    ) -> Principal:
        """The principal behind one request.

        Args:
            headers: the request's headers, case-insensitive.
            resource: URL of what is asked for, as its audience; None: it has none that a token
                could be for.

        Raises:
            AuthenticationFailed: no credential where one is needed, or one that is not valid.
            InsufficientScope: one that is valid and does not grant enough.
        """
        header = headers.get("Authorization")
        if header is None:
            credential = headers.get("X-API-Key")
            if credential is None:
                if self._allow_anonymous:
                    return ANONYMOUS
                raise AuthenticationFailed(
                    "this gateway asks for a credential; send `Authorization: Bearer <token>`"
                )
        else:
            kind, _, credential = header.partition(" ")
            credential = credential.strip()
            if kind.lower() != "bearer" or not credential:
                raise AuthenticationFailed(
                    "the Authorization header is not of the form `Bearer <token>`; a client that "
                    "takes the token from a variable may not have it set"
                )
        principal = await self._identify(credential)
        audience = principal.audience
        if audience is not None and (
            resource is None or (resource not in audience and f"{resource}/" not in audience)
        ):
            raise AuthenticationFailed(
                "the token is for another resource; ask for one for this endpoint"
            )
        await self.admit(principal)
        return principal

    async def admit(self, principal: Principal) -> None:
        """Admit a principal that was authenticated in another way.

        Raises:
            AuthenticationFailed: the account is switched off.
        """
        if self._admission is not None and principal.user is not None:
            await self._admission.admit(principal)

    async def _identify(self, credential: str) -> Principal:
        digest = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known = self._by_digest.get(digest)
        if known is not None and hmac.compare_digest(known[0], digest):
            return known[1]
        for scheme in self._schemes:
            principal = await scheme.identify(credential)
            if principal is not None:
                return principal
        if _VARIABLE.fullmatch(credential) is not None:
            raise AuthenticationFailed(
                f"the client sends {credential} instead of a token: set that variable where the "
                "client is started"
            )
        raise AuthenticationFailed("the credential is not valid here")
