"""From an upstream's block `auth` to the grant that gets its access token.

Owns: which keys belong to which grant. Opens nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from armory.config.base import values_for
from armory.config.upstream import AuthConfig
from armory.errors import ConfigError
from armory.upstreams.oauth.grants import AuthorizationCode, ClientCredentials, Grant

LOGINS = "logins.json"
"""In ARMORY_HOME: who is logged in at which upstream."""


def grant(key: str, block: AuthConfig, home: Path) -> Grant:
    """How an access token is got.

    Raises:
        ConfigError: a key that belongs to the other grant.
    """
    if block.type == "client_credentials":
        _refuse(key, block, ("client_metadata_url",))
        return ClientCredentials(**_texts(values_for(ClientCredentials, block)))
    _refuse(key, block, ("private_key", "token_url"))
    given = _texts(values_for(AuthorizationCode, block))
    return AuthorizationCode(**given, store=str(home / LOGINS))


def _refuse(key: str, block: AuthConfig, names: Sequence[str]) -> None:
    for name in names:
        if getattr(block, name) is not None:
            raise ConfigError(f"{block.type} has no {name!r}", path=f"upstreams.{key}.auth.{name}")


def _texts(values: dict[str, Any]) -> dict[str, Any]:
    return {name: "" if value is None else value for name, value in values.items()}
