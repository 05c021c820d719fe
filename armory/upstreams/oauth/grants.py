"""The grants: how the configuration says that access tokens for an upstream are obtained.

Owns: the grants. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from armory.errors import ConfigError

ClientAuth = Literal["auto", "client_secret_basic", "client_secret_post", "private_key_jwt"]
Per = Literal["gateway", "principal"]
SubjectToken = Literal["access_token", "id_token"]
SigningAlgorithm = Literal["ES256", "ES384", "RS256", "PS256", "EdDSA"]


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The OAuth 2.1 client-credentials grant: the gateway acts for itself.

    Attributes:
        client_id: as registered with the authorization server.
        client_secret: likewise; "" where a key is used.
        private_key: PEM of the key that signs assertions, in place of a secret.
        signing_algorithm: of that key, e.g. `ES256`.
        token_url: where tokens are given; "" to find it out.
        issuer: the authorization server to find it out from; "": the one that the upstream names.
        scopes: asked for; none: what the upstream asks for, if anything.
        client_auth: how the client proves who it is; `auto`: as the server's metadata allow.
    """

    client_id: str
    client_secret: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    signing_algorithm: SigningAlgorithm = "ES256"
    token_url: str = ""
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    client_auth: ClientAuth = "auto"

    def check(self, where: str) -> None:
        """Check that the settings fit together.

        Raises:
            ConfigError: the settings contradict each other.
        """
        if not self.client_id:
            raise ConfigError("client_credentials need a 'client_id'", path=where)
        if bool(self.client_secret) == bool(self.private_key):
            raise ConfigError("give exactly one of 'client_secret' and 'private_key'", path=where)
        if self.private_key and self.client_auth not in ("auto", "private_key_jwt"):
            raise ConfigError(
                f"client_auth {self.client_auth!r} needs a 'client_secret', not a 'private_key'",
                path=f"{where}.client_auth",
            )
        if self.client_auth == "private_key_jwt" and not self.private_key:
            raise ConfigError(
                "client_auth 'private_key_jwt' needs a 'private_key'", path=f"{where}.client_auth"
            )
        if self.private_key:
            import jwt  # only where it is needed: it takes a while to load

            try:
                self.signed({})
            except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
                raise ConfigError(
                    f"this key cannot sign with {self.signing_algorithm!r}; give an unencrypted "
                    "PEM, and its algorithm as 'signing_algorithm'",
                    path=f"{where}.private_key",
                ) from None

    def signed(self, claims: Mapping[str, Any]) -> str:
        """A JSON Web Token with these claims, signed with the private key."""
        import jwt

        return jwt.encode(dict(claims), self.private_key, self.signing_algorithm)


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """The OAuth 2.1 authorization-code grant: a person logs in once with `armory login`.

    Attributes:
        client_id: where one was registered by hand; "": by metadata document, or dynamically.
        client_secret: likewise.
        client_metadata_url: https URL of a client metadata document, which is the client's id at
            servers that take such.
        issuer: the only authorization server that is believed; "": the one that the upstream names.
        scopes: asked for; none: what the upstream asks for.
        per: who logs in: the gateway's operator for everybody, or each principal.
        store: the file that keeps who is logged in for the gateway.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_metadata_url: str = ""
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    per: Per = "gateway"
    store: str = ""

    def check(self, where: str) -> None:
        """Check that the settings fit together.

        Raises:
            ConfigError: the settings contradict each other.
        """
        if self.client_secret and not self.client_id:
            raise ConfigError("a 'client_secret' needs its 'client_id'", path=where)
        if self.client_metadata_url and not self.client_metadata_url.startswith("https://"):
            raise ConfigError("expected an https URL", path=f"{where}.client_metadata_url")


@dataclass(frozen=True, slots=True)
class TokenExchange:
    """The caller's own access token, exchanged for one for the upstream (RFC 8693).

    Attributes:
        client_id, client_secret: who the gateway is at the authorization server.
        token_url: where tokens are exchanged; "" to find it out from the issuer.
        issuer: the authorization server; "" with a `token_url`.
        audience: what the token is to be for; "": the upstream's URL, as `resource`.
        scopes: asked for.
        subject_token: what callers come with, or which of the two tokens of their login at the
            provider behind the gateway.
        client_auth: how the client proves who it is.
    """

    client_id: str
    client_secret: str = field(default="", repr=False)
    token_url: str = ""
    issuer: str = ""
    audience: str = ""
    scopes: tuple[str, ...] = ()
    subject_token: SubjectToken = "access_token"
    client_auth: ClientAuth = "auto"

    def check(self, where: str) -> None:
        """Check that the settings fit together.

        Raises:
            ConfigError: the settings contradict each other.
        """
        if not self.client_id or not self.client_secret:
            raise ConfigError(
                "token_exchange needs a 'client_id' and its 'client_secret'", path=where
            )
        if bool(self.token_url) == bool(self.issuer):
            raise ConfigError("give exactly one of 'issuer' and 'token_url'", path=where)
        if self.client_auth == "private_key_jwt":
            raise ConfigError(
                "expected client_secret_basic or client_secret_post: there is no key to sign with",
                path=f"{where}.client_auth",
            )


@dataclass(frozen=True, slots=True)
class JwtBearer(TokenExchange):
    """The caller's own token, exchanged for an ID-JAG at the identity provider, and that for an
    access token at the upstream's authorization server (RFC 7523).

    Attributes:
        client_id, client_secret, token_url, issuer, client_auth: of the identity provider.
        audience: issuer of the upstream's authorization server, the only one that is believed.
        audience_client_id, audience_client_secret: who the gateway is there; "" as secret: a
            public client.
    """

    audience_client_id: str = ""
    audience_client_secret: str = field(default="", repr=False)

    def check(self, where: str) -> None:
        """Check that the settings fit together.

        Raises:
            ConfigError: the settings contradict each other.
        """
        if not self.client_id or not self.client_secret:
            raise ConfigError(
                "jwt_bearer needs a 'client_id' and its 'client_secret' at the identity provider",
                path=where,
            )
        if not self.audience.startswith(("https://", "http://")):
            raise ConfigError(
                "jwt_bearer needs 'audience': the issuer URL of the upstream's authorization "
                "server",
                path=f"{where}.audience",
            )
        if not self.audience_client_id:
            raise ConfigError(
                "jwt_bearer needs 'audience_client_id': who the gateway is at the authorization "
                "server of 'audience'",
                path=where,
            )
        TokenExchange.check(self, where)


@dataclass(frozen=True, slots=True)
class Passthrough:
    """The caller's own access token, passed on unchanged where it is for the upstream, too.

    Attributes:
        audience: what of its `aud` stands for the upstream; "": the upstream's URL.
    """

    audience: str = ""

    def check(self, where: str) -> None:
        """Does nothing: no combination of settings is wrong."""


Grant = ClientCredentials | AuthorizationCode | TokenExchange | JwtBearer | Passthrough


def has_logins(grant: Grant | None) -> bool:
    """Whether each principal logs in."""
    return isinstance(grant, AuthorizationCode) and grant.per == "principal"


def is_personal(grant: Grant | None) -> bool:
    """Whether each principal has a token of its own."""
    return has_logins(grant) or isinstance(grant, TokenExchange | Passthrough)


def named_by(grant: Grant | None, url: str) -> tuple[str, ...]:
    """The URLs that the configuration names for an upstream at `url`; these may point inside."""
    named = [url]
    if isinstance(grant, AuthorizationCode | ClientCredentials | TokenExchange):
        named.append(grant.issuer)
    if isinstance(grant, ClientCredentials | TokenExchange):
        named.append(grant.token_url)
    if isinstance(grant, JwtBearer):
        named.append(grant.audience)
    return tuple(filter(None, named))
