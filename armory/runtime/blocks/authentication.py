"""Builds the authenticator from the blocks `security` and `server`.

Owns: whether callers without a token are let in. Opens nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from armory.config import Config
from armory.domain.hosts import is_loopback
from armory.errors import ConfigError
from armory.security.authentication import (
    Admission,
    Authenticator,
    ProtectedResource,
    Scheme,
    StaticToken,
)


def authenticator(
    config: Config,
    schemes: Sequence[Scheme] = (),
    admission: Admission | None = None,
    *,
    also: Sequence[StaticToken] = (),
) -> Authenticator:
    """The authenticator: static tokens, further schemes and, where allowed, anonymous callers.

    Args:
        config: the configuration.
        schemes: API keys and session tokens.
        admission: looks up the accounts of callers that have one.
        also: static tokens beside the configured ones.

    Raises:
        ConfigError: nobody could connect, everybody could without meaning to, or a token is bad.
    """
    security = config.security
    loopback = is_loopback(config.server.host) and security.oauth is None
    anonymous = loopback if security.allow_anonymous == "auto" else security.allow_anonymous
    if not anonymous and not _has_credentials(config):
        why, else_ = (
            f"the gateway would listen on {config.server.host}, which others can reach, and there "
            "is no token",
            "bind 127.0.0.1, or say `allow_anonymous: true` if everybody may use it",
        )
        if is_loopback(config.server.host):
            why, else_ = (
                "nobody could connect: who has no token is refused, and there is no token",
                "or leave this key out",
            )
        raise ConfigError(
            f"{why}; give one under security.tokens, {else_}",
            path="security.allow_anonymous",
        )
    return Authenticator(
        [
            StaticToken(
                name=name,
                token=entry.token.get_secret_value(),
                scopes=frozenset(entry.scopes),
                user=entry.user,
            )
            for name, entry in security.tokens.items()
        ]
        + list(also),
        schemes,
        allow_anonymous=anonymous,
        admission=admission,
        protected=_protected_resource(config),
    )


def _has_credentials(config: Config) -> bool:
    """Whether any credential is configured."""
    security = config.security
    signed = security.jwt is not None or security.oauth is not None
    return bool(security.tokens) or security.api_keys or signed


def _protected_resource(config: Config) -> ProtectedResource | None:
    """The gateway's metadata as an OAuth protected resource; None where it is none."""
    oauth = config.security.oauth
    if oauth is None:
        return None
    return ProtectedResource(
        tuple(oauth.issuer), tuple(oauth.scopes), by_itself=oauth.proxy is not None
    )
