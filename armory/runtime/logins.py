"""Logging a person in at an upstream: `armory login`.

Owns: finding the upstream's grant and going through with it. How the person is sent to a page is
the caller's business.
"""

from __future__ import annotations

from armory.config import Loaded
from armory.errors import ConfigError
from armory.runtime.blocks.grants import LOGINS
from armory.runtime.settings import upstream_specs
from armory.upstreams.oauth.logins import Logins
from armory.upstreams.oauth.person import AuthorizationCodeTokens, Visit
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import HttpClient


async def log_in(loaded: Loaded, server: str, redirect_uri: str, visit: Visit) -> str:
    """Log in at an upstream and keep the login; gives the authorization server's name.

    Raises:
        ConfigError: there is no such upstream, or nobody logs in there.
        UpstreamUnavailable: it did not work out.
    """
    spec = _spec(loaded, server)
    client = HttpClient(spec)
    try:
        tokens = client.tokens
        assert isinstance(tokens, AuthorizationCodeTokens)
        challenge = await client.challenged()
        return (await tokens.log_in(client.url, challenge, redirect_uri, visit)).issuer
    finally:
        await client.close()


def log_out(loaded: Loaded, server: str) -> None:
    """Forget the login.

    Raises:
        ConfigError: there is no such upstream, or nobody logs in there.
    """
    _spec(loaded, server)
    Logins(loaded.home / LOGINS).save(server, None)


def _spec(loaded: Loaded, server: str) -> UpstreamSpec:
    where = f"upstreams.{server}"
    spec = next((spec for spec in upstream_specs(loaded) if spec.key == server), None)
    if spec is None:
        raise ConfigError("there is no such upstream", path=where)
    auth = loaded.config.upstreams[server].auth
    if auth is None:
        raise ConfigError(
            "nobody logs in at this upstream; add 'auth: {type: authorization_code}' if somebody "
            "should",
            path=where,
        )
    if auth.type != "authorization_code":
        raise ConfigError("a machine logs in there by itself", path=f"{where}.auth.type")
    return spec
