"""Builds accounts and authentication schemes from the blocks `accounts`, `storage` and `security`.

Owns: which of their keys goes where. Opens nothing, never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.config import Config, Loaded
from armory.config.base import values_for
from armory.security.authentication import Scheme
from armory.security.settings import IntrospectionSettings, JwtSettings, OAuthSettings
from armory.storage.cache import Cache, MemoryCache
from armory.storage.database import Database

if TYPE_CHECKING:
    from armory.config.blocks.security import OAuthConfig
    from armory.config.model import StorageConfig
    from armory.security.jwt import JwtScheme
    from armory.security.oauth import OAuthScheme


def make_accounts(
    loaded: Loaded,
    *,
    tools: Callable[[], Collection[str]] = tuple,
    upstreams: Callable[[], Mapping[str, bool]] = dict,
) -> Accounts:
    """The accounts that the configuration describes, not opened yet.

    Args:
        loaded: the configuration.
        tools: gives the names of the tools in the catalog.
        upstreams: gives which servers are up.

    Raises:
        ConfigError: a URL or a pattern does not hold, or an extra is missing.
    """
    config = loaded.config
    log = config.observability.query_log
    return Accounts(
        Database(config.storage.url),
        _cache(config.storage),
        AccountSettings(
            enabled=config.accounts.enabled,
            default_plan=config.accounts.default_plan,
            plans={name: plan.queries_limit for name, plan in config.accounts.plans.items()},
            query_log=log.enabled,
            retention_days=log.retention_days,
            redact=tuple(log.redact),
        ),
        tools=tools,
        upstreams=upstreams,
    )


def _cache(storage: StorageConfig) -> Cache:
    if not storage.redis:
        return MemoryCache()
    from armory.storage.redis_cache import RedisCache  # an extra

    return RedisCache(storage.redis, prefix=storage.redis_prefix)


def accounts_needed(config: Config) -> bool:
    """Whether anybody's access depends on the accounts database."""
    oauth = config.security.oauth
    proxied = oauth is not None and oauth.proxy is not None
    return config.accounts.enabled or config.security.api_keys or proxied


def schemes(config: Config, accounts: Accounts | None) -> list[Scheme]:
    """The authentication schemes besides static tokens and the gateway's own tokens.

    Raises:
        ConfigError: the block `security.jwt` does not fit itself.
    """
    found: list[Scheme] = []
    if accounts is not None and config.security.api_keys:
        found.append(accounts.keys)
    if config.security.oauth is not None and config.security.oauth.proxy is None:
        beside_jwt = config.security.jwt is not None
        found.append(oauth_scheme(config.security.oauth, beside_jwt=beside_jwt))
    if config.security.jwt is not None:
        found.append(jwt_scheme(config))
    return found


def jwt_scheme(config: Config) -> JwtScheme:
    """The scheme for session tokens (`security.jwt`).

    Raises:
        ConfigError: its keys do not fit each other.
    """
    from armory.security.jwt import JwtScheme  # cryptography: only where tokens are checked

    block = config.security.jwt
    assert block is not None
    settings = JwtSettings(**values_for(JwtSettings, block))
    if block.secret is not None and "algorithms" not in block.model_fields_set:
        settings = replace(settings, algorithms=("HS256",))
    oauth = config.security.oauth
    vouching = [] if oauth is None or oauth.proxy is None else oauth.proxy.id_jag_issuers
    others = [] if oauth is None else [*oauth.issuer[1:], *vouching]
    return JwtScheme(settings, others=others)


def oauth_scheme(block: OAuthConfig, *, beside_jwt: bool) -> OAuthScheme:
    """The scheme for OAuth access tokens; `beside_jwt`: `security.jwt` accepts other tokens."""
    from armory.security.issuer import Issuer  # cryptography: only where tokens are checked
    from armory.security.oauth import OAuthScheme

    asked = block.introspection
    settings = OAuthSettings(
        **values_for(OAuthSettings, block, but=("introspection", "beside_jwt")),
        issuers=tuple(block.issuer),
        introspection=None
        if asked is None
        else IntrospectionSettings(**values_for(IntrospectionSettings, asked)),
        beside_jwt=beside_jwt,
    )
    return OAuthScheme(
        settings, [Issuer(name, leeway_s=block.clock_skew_s) for name in block.issuer]
    )
