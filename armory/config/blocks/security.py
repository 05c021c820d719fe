"""The block `security`: who may connect, and what each may see and call.

Owns: `SecurityConfig`. Of the rooms it imports settings only, for their defaults.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from armory.authserver.settings import ProxySettings
from armory.config.base import (
    Block,
    Count,
    OptionalSecret,
    OptionalText,
    OptionalUrl,
    Seconds,
    Secrets,
    Texts,
    defaults_of,
)
from armory.security.settings import JwtSettings, OAuthSettings, PinningMode

_JWT = defaults_of(JwtSettings)
_OAUTH = defaults_of(OAuthSettings)
_PROXY = defaults_of(ProxySettings)


class TokenConfig(Block):
    """One static bearer token."""

    token: SecretStr
    """The secret; take it from a variable: `${ARMORY_TOKEN}`."""
    scopes: Texts = Field(default_factory=list[str])
    """What it grants; policies speak about scopes."""
    user: OptionalText = None
    """The account that it acts for."""


class JwtConfig(Block):
    """Session tokens of an identity provider."""

    issuer: OptionalText = None
    """Required `iss`."""
    audience: OptionalText = None
    """Required `aud`."""
    jwks_url: OptionalUrl = None
    """Where the provider's public keys are; or give `secret`."""
    secret: OptionalSecret = None
    """Shared secret of HS256."""
    algorithms: Texts = Field(default_factory=lambda: list(_JWT.algorithms))
    """Accepted signature algorithms."""
    user_claim: str = _JWT.user_claim
    """Claim with the user's id."""
    scopes_claim: str = _JWT.scopes_claim
    """Claim with the scopes (a list, or words in a text)."""


class IntrospectionConfig(Block):
    """How opaque tokens are checked."""

    url: OptionalUrl = None
    """Introspection endpoint (RFC 7662); null: the one that the issuer's metadata name."""
    client_id: str = Field(min_length=1)
    """The gateway's client id at the introspection endpoint."""
    client_secret: SecretStr
    """The gateway's secret at the introspection endpoint; take it from a variable."""


class ProxyClientConfig(Block):
    """A client that is registered by hand; its key is its client id."""

    name: str = ""
    """What people are shown when they let the client in; empty: its id."""
    client_secret: OptionalSecret = None
    """The client's secret; take it from a variable. null: it has none."""
    redirects: Texts = Field(default_factory=list[str])
    """The client's redirect URIs, exact; on loopback with any port. None: it only brings
    ID-JAGs."""


class ProxyConfig(Block):
    """The gateway as an authorization server in front of a provider that registers no clients."""

    issuer: OptionalUrl = None
    """The provider, whose metadata name its endpoints; or give `authorize_url` and `token_url`."""
    authorize_url: OptionalUrl = None
    """Where people log in."""
    token_url: OptionalUrl = None
    """Where codes are redeemed."""
    userinfo_url: OptionalUrl = None
    """Who a person is, where the provider gives out no ID tokens."""
    client_id: str = Field(min_length=1)
    """The gateway's client id at the provider, registered with the redirect URI
    `.../oauth/callback`."""
    client_secret: OptionalSecret = None
    """The gateway's secret at the provider; take it from a variable."""
    scopes: Texts = Field(default_factory=list[str])
    """Scopes to ask for at the provider; none: with an `issuer`, `openid profile email`."""
    clients: dict[str, ProxyClientConfig] = Field(default_factory=dict[str, ProxyClientConfig])
    """Clients that do not register themselves, by client id."""
    id_jag_issuers: Texts = Field(default_factory=list[str])
    """Identity providers that may vouch for people toward clients with ID-JAGs (enterprise-managed
    authorization), which are redeemed without a page; none: no client's are taken."""
    redirects: Texts = Field(default_factory=list[str])
    """Patterns of what clients may be sent back to, e.g. `https://claude.ai/*`; none: any safe."""
    consent: bool = _PROXY.consent
    """Whether people are asked before a client is let in; without, `redirects` are needed."""


class OAuthConfig(Block):
    """Access tokens of authorization servers, which clients log in to by themselves."""

    issuer: Texts = Field(default_factory=list[str])
    """Issuer identifier of the authorization server, or several; an https URL. Or `proxy`."""
    audience: Texts = Field(default_factory=list[str])
    """What a token may be for, beside the endpoint's own URL."""
    scopes: Texts = Field(default_factory=list[str])
    """Scopes that every token needs; clients are told to ask for them."""
    implied_scopes: dict[str, Texts] = Field(default_factory=dict[str, list[str]])
    """Broader scopes, each with the narrower ones that whoever has it has, too, e.g. `{mcp:admin:
    [mcp:use]}`."""
    user_claim: str = _OAUTH.user_claim
    """Claim with the user's id."""
    scopes_claim: str = _OAUTH.scopes_claim
    """Claim with the scopes (a list, or words in a text), e.g. `scp`, `roles`."""
    client_id: OptionalText = None
    """The gateway's own client id at the issuer, for its page /connect and logins to the console;
    null: it registers itself for the former, and there are none of the latter."""
    client_secret: OptionalSecret = None
    """The gateway's secret at the issuer; take it from a variable."""
    introspection: IntrospectionConfig | None = None
    """How opaque tokens are checked; null: only signed ones (JWTs) are taken."""
    clock_skew_s: float = Field(default=_OAUTH.clock_skew_s, ge=0, le=600)
    """By how many seconds the provider's clock may be apart from the gateway's; at most 600."""
    proxy: ProxyConfig | None = None
    """The gateway logs clients in itself, in front of a provider that registers none."""


class PolicyConfig(Block):
    """One rule; with any rule, what no rule allows is denied."""

    who: Texts = Field(default_factory=list[str])
    """Glob patterns over scopes, users and token names; empty: everybody."""
    allow: Texts = Field(default_factory=list[str])
    """Glob patterns over exposed names."""
    deny: Texts = Field(default_factory=list[str])
    """Glob patterns over exposed names; they win over every `allow`."""


class RateLimitConfig(Block):
    """How often each caller may ask; replicas count together where there is `storage.redis`."""

    per_s: Seconds
    """Requests a second that a caller may keep up."""
    burst: Count | None = None
    """Requests that a caller may make at once after a pause; null: a second's worth."""


class QuotaConfig(Block):
    """What each of some callers may use; the first rule that fits a caller holds for it."""

    who: Texts = Field(default_factory=list[str])
    """Glob patterns over scopes, users and token names; empty: everybody."""
    calls_per_day: Count | None = None
    """Calls of tools from midnight to midnight UTC; null: without limit."""
    searches_per_day: Count | None = None
    """Searches (listings with a query, `search_tools`, `find_tools`, REST) from midnight to
    midnight UTC; null: without limit."""
    concurrency: Count | None = None
    """Requests to upstreams that may run at a time; null: without limit."""


class SecurityConfig(Block):
    """Who may connect, and what each may see and call."""

    tokens: dict[str, TokenConfig] = Field(default_factory=dict[str, TokenConfig])
    """Static bearer tokens by name."""
    api_keys: bool = False
    """Whether keys of the accounts database are accepted."""
    jwt: JwtConfig | None = None
    """Session tokens of an identity provider."""
    oauth: OAuthConfig | None = None
    """Access tokens of authorization servers, which clients log in to by themselves."""
    encryption_key: Secrets = Field(default_factory=list[SecretStr])
    """Seals people's logins; the first seals, all open. None: ${ARMORY_HOME}/key is made."""
    allow_anonymous: Literal["auto"] | bool = "auto"
    """`auto`: requests without a credential are served only on loopback binds without `oauth`."""
    policies: list[PolicyConfig] = Field(default_factory=list[PolicyConfig])
    """Rules; none: everything is allowed."""
    rate_limit: RateLimitConfig | None = None
    """Calls, queries and REST requests of each caller a second; null: without limit."""
    quotas: list[QuotaConfig] = Field(default_factory=list[QuotaConfig])
    """What users may call and search a day, and at a time; none: without limit."""
    pinning: PinningMode = "warn"
    """What to do when a tool's definition changes under its name."""
