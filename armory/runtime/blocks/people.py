"""Builds people's own accounts at upstreams: the store of logins, and the pages where they log in.

Owns: putting these parts together. Never logs anybody in itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from armory.accounts.service import Accounts
from armory.config import Config, Loaded
from armory.domain.principal import Principal
from armory.gateway.views.principal_lists import PrincipalLists
from armory.runtime.blocks.encryption import seals
from armory.security.authentication import Authenticator, Scheme
from armory.storage.logins import LOGINS, StoredLogin, login_id
from armory.upstreams.oauth.grants import has_logins
from armory.upstreams.oauth.people import Vault
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from armory.authserver.server import AuthorizationServer
    from armory.web.connect.console_sign_in import ConsoleSignIn
    from armory.web.connect.services import ConnectServices, SignIn
    from armory.web.cookies import Hosts


def logs_people_in(specs: Sequence[UpstreamSpec]) -> bool:
    """Whether any upstream uses people's own accounts."""
    return any(has_logins(spec.auth) for spec in specs)


def vault_of(loaded: Loaded, accounts: Accounts) -> Vault:
    """The store of people's logins.

    Raises:
        ConfigError: the key that seals them cannot be used.
    """
    seal, told = seals(loaded), set[str]()
    return lambda person, server: StoredLogin(
        accounts.database, accounts.feed, seal, person, server, told
    )


def follow_logins(accounts: Accounts, pool: Pool, lists: PrincipalLists) -> None:
    """When a person logs in or out on any replica, apply it here at once."""

    async def changed(id: str) -> None:
        pool.logins_changed()
        lists.on_login(lambda server, person: login_id(person, server) == id)

    accounts.feed.subscribe(LOGINS, changed)


def connect_services(
    loaded: Loaded,
    pool: Pool,
    hosts: Hosts,
    checks: Authenticator,
    known: list[Scheme],
    concerns: Callable[[Principal, str], bool],
    server: AuthorizationServer | None = None,
) -> ConnectServices:
    """The dependencies of the pages.

    Args:
        loaded: the configuration.
        pool: the upstreams.
        hosts: host checks.
        checks: who is it, by the credential of its MCP client.
        known: the schemes of `checks`, for who logged in at the issuer.
        concerns: whether policy lets somebody know of an upstream.
        server: the gateway as an authorization server; None: people log in at the issuer, if
            there is one.
    """
    from armory.web.connect.services import ConnectServices

    def upstream(server: str) -> Upstream | None:
        if server not in pool.servers():
            return None
        found = pool.upstream(server)
        return found if has_logins(found.spec.auth) else None

    return ConnectServices(
        upstream=upstream,
        concerns=concerns,
        authenticator=checks,
        seal=seals(loaded),
        hosts=hosts,
        sign_in=_sign_in(loaded.config, known, server),
        base_path=loaded.config.server.base_path.rstrip("/"),
    )


def console_sign_in(
    loaded: Loaded, server: AuthorizationServer | None = None
) -> ConsoleSignIn | None:
    """The login of the console; None: there is none, because the gateway has no client id at its
    issuer. It does not register itself for this, since anybody may start a login.

    Args:
        loaded: the configuration.
        server: the gateway as an authorization server, if it is one.

    Raises:
        ConfigError: the key that seals cannot be used.
    """
    oauth = loaded.config.security.oauth
    if oauth is None or not loaded.config.server.console:
        return None
    if server is None and not (oauth.issuer and oauth.client_id):
        return None
    from armory.web.connect.console_sign_in import ConsoleSignIn, IssuerLogin

    if server is not None:
        from armory.web.oauth.own_login import OwnLogin

        return ConsoleSignIn(OwnLogin(server), seals(loaded))
    assert oauth.client_id is not None
    secret = "" if oauth.client_secret is None else oauth.client_secret.get_secret_value()
    flow = IssuerLogin(oauth.issuer[0], oauth.client_id, secret, oauth.scopes)
    return ConsoleSignIn(flow, seals(loaded))


def _sign_in(
    config: Config, known: list[Scheme], server: AuthorizationServer | None
) -> SignIn | None:
    if server is not None:
        from armory.web.oauth.own_login import OwnLogin

        return OwnLogin(server)
    from armory.security.oauth import OAuthScheme
    from armory.web.connect.sign_in import IssuerSignIn

    oauth = config.security.oauth
    if oauth is None:
        return None
    scheme = next(scheme for scheme in known if isinstance(scheme, OAuthScheme))
    secret = oauth.client_secret
    return IssuerSignIn(
        oauth.issuer[0],
        scheme.signed_in,
        oauth.client_id or "",
        "" if secret is None else secret.get_secret_value(),
    )
