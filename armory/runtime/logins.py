"""Logging a person in at an upstream, for `armory login`.

Owns: finding the upstream's grant and going through with it. How the person is sent to a page is
the caller's business.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from armory.config import Loaded
from armory.config.problems import nearest
from armory.errors import ConfigError
from armory.runtime.blocks.accounts import make_accounts
from armory.runtime.blocks.people import vault_of
from armory.runtime.blocks.upstreams import upstream_spec
from armory.upstreams.connecting.describing import Description
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import PersonLogin
from armory.upstreams.oauth.person import AuthorizationCodeTokens, Visit
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import UpstreamClient
from armory.upstreams.transports.tls import asking_for_tokens


async def log_in(
    loaded: Loaded, server: str, redirect_uri: str, visit: Visit, person: str | None = None
) -> str:
    """Log in at an upstream and store the login; returns the authorization server's name.

    Args:
        loaded: the configuration.
        server: key of the upstream.
        redirect_uri: where the person is sent back to.
        visit: sends them.
        person: whose account it is (`Principal.person`); None: the gateway's own.

    Raises:
        ConfigError: there is no such upstream, or nobody (or no single person) logs in there.
        UpstreamUnavailable: it did not work out.
        BackendError: the database that keeps people's logins is away.
    """
    spec = _spec(loaded, server, person)
    if not loaded.config.upstreams[server].enabled:
        raise ConfigError("it is switched off", path=f"upstreams.{server}.enabled")
    client = UpstreamClient(spec)
    try:
        async with _tokens(loaded, spec, person) as tokens:
            challenge = await client.challenged()
            return (await tokens.log_in(client.url, challenge, redirect_uri, visit)).issuer
    finally:
        await client.close()


async def log_out(loaded: Loaded, server: str, person: str | None = None) -> bool:
    """Delete a login, and revoke its tokens if possible; returns whether there was one.

    Raises:
        ConfigError: there is no such upstream, or nobody (or no single person) logs in there.
        BackendError: the database that keeps people's logins is away.
    """
    async with _tokens(loaded, _spec(loaded, server, person), person) as tokens:
        return await tokens.log_out()


@asynccontextmanager
async def _tokens(
    loaded: Loaded, spec: UpstreamSpec, person: str | None
) -> AsyncGenerator[AuthorizationCodeTokens]:
    assert isinstance(spec.auth, AuthorizationCode)
    more = asking_for_tokens(spec)
    if person is None:
        yield AuthorizationCodeTokens(spec.key, spec.auth, **more)
        return
    accounts = make_accounts(loaded)
    await accounts.open(statistics=False)
    try:
        kept = PersonLogin(vault_of(loaded, accounts)(person, spec.key))
        yield AuthorizationCodeTokens(spec.key, spec.auth, kept, **more)
    finally:
        await accounts.close()


def _spec(loaded: Loaded, server: str, person: str | None) -> UpstreamSpec:
    where = f"upstreams.{server}"
    block = loaded.config.upstreams.get(server)
    if block is None:
        near = nearest(server, loaded.config.upstreams)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ConfigError(f"there is no such upstream{hint}", path=where)
    spec, auth = upstream_spec(server, block, loaded), block.auth
    if auth is None:
        raise ConfigError(
            "nobody logs in at this upstream; add 'auth: {type: authorization_code}' if somebody "
            "should",
            path=where,
        )
    if auth.type != "authorization_code":
        machine = auth.type == "client_credentials"
        who = (
            "a machine logs in there by itself" if machine else "callers come with their own token"
        )
        raise ConfigError(who, path=f"{where}.auth.type")
    if person is not None and auth.per != "principal":
        raise ConfigError(
            "everybody uses the gateway's own login there; log in without --as, or set it to "
            "principal",
            path=f"{where}.auth.per",
        )
    return Description(spec).client_spec  # of an API: with the URL that it is at
