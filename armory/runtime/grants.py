"""From an upstream's block `auth` to the grant that gets its access token.

Owns: which keys belong to which grant. Opens nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

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
        return ClientCredentials(
            client_id=block.client_id or "",
            client_secret=_text(block.client_secret),
            private_key=_text(block.private_key),
            signing_algorithm=block.signing_algorithm,
            token_url=block.token_url or "",
            issuer=block.issuer or "",
            scopes=tuple(block.scopes),
            client_auth=block.client_auth,
        )
    _refuse(key, block, ("private_key", "token_url"))
    return AuthorizationCode(
        client_id=block.client_id or "",
        client_secret=_text(block.client_secret),
        client_metadata_url=block.client_metadata_url or "",
        issuer=block.issuer or "",
        scopes=tuple(block.scopes),
        store=str(home / LOGINS),
    )


def _refuse(key: str, block: AuthConfig, names: Sequence[str]) -> None:
    for name in names:
        if getattr(block, name) is not None:
            raise ConfigError(f"{block.type} has no {name!r}", path=f"upstreams.{key}.auth.{name}")


def _text(value: SecretStr | None) -> str:
    return "" if value is None else value.get_secret_value()
