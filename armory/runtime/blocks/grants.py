"""Builds the OAuth grant of an upstream from its block `auth`.

Owns: which keys belong to which grant. Opens nothing.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from armory.config.base import values_for
from armory.config.blocks.upstream import AuthConfig
from armory.errors import ConfigError
from armory.upstreams.oauth.grants import (
    AuthorizationCode,
    ClientCredentials,
    Grant,
    JwtBearer,
    Passthrough,
    TokenExchange,
)

LOGINS = "logins.json"
"""In ARMORY_HOME: who is logged in at which upstream."""


_GRANTS: dict[str, tuple[frozenset[str], type[Grant]]] = {
    kind: (frozenset(field.name for field in fields(grant)), grant)
    for kind, grant in (
        ("client_credentials", ClientCredentials),
        ("authorization_code", AuthorizationCode),
        ("token_exchange", TokenExchange),
        ("jwt_bearer", JwtBearer),
        ("passthrough", Passthrough),
    )
}

_CALLERS = ("token_exchange", "jwt_bearer", "passthrough")


def grant(key: str, block: AuthConfig, home: Path) -> Grant:
    """The grant that a block describes.

    Raises:
        ConfigError: a key that belongs to the other grant.
    """
    allowed, kind = _GRANTS[block.type]
    _refuse(key, block, allowed)
    given = _texts(values_for(kind, block))
    if kind is AuthorizationCode:
        given["store"] = str(home / LOGINS)
    return kind(**given)


def _refuse(key: str, block: AuthConfig, allowed: frozenset[str]) -> None:
    """Refuse keys that have no meaning for this grant."""
    known = allowed | {"type"}
    if "per" in block.model_fields_set and block.type in _CALLERS:
        if block.per == "gateway":
            raise ConfigError(
                f"{block.type} goes by each caller's own token, and never by one of the gateway's; "
                "leave it out",
                path=f"upstreams.{key}.auth.per",
            )
        known |= {"per"}  # `principal`, which it is anyway
    for name in sorted(block.model_fields_set - known):
        if getattr(block, name) != type(block).model_fields[name].get_default(
            call_default_factory=True
        ):
            raise ConfigError(f"{block.type} has no {name!r}", path=f"upstreams.{key}.auth.{name}")


def _texts(values: dict[str, Any]) -> dict[str, Any]:
    return {name: "" if value is None else value for name, value in values.items()}
