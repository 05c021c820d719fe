"""Builds the gateway's authorization server from `security.oauth.proxy`.

Owns: putting its parts together. Never gives out a token itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

from armory.accounts.service import Accounts
from armory.authserver.settings import KnownClient, ProxySettings
from armory.config import Loaded
from armory.config.base import Block, values_for
from armory.runtime.blocks.encryption import seals
from armory.storage.grants import GRANTS, StoredGrants
from armory.wire.http.host_checks import HostChecks
from armory.wire.http.resources import is_endpoint

if TYPE_CHECKING:
    from armory.authserver.server import AuthorizationServer
    from armory.web.oauth.browser import Pages
    from armory.web.oauth.endpoints import Endpoints


def authorization_server(loaded: Loaded, accounts: Accounts | None) -> AuthorizationServer | None:
    """The configured authorization server; None: there is none.

    Raises:
        ConfigError: the key that seals its tokens cannot be used.
    """
    oauth = loaded.config.security.oauth
    if oauth is None or oauth.proxy is None or accounts is None:
        return None
    from armory.authserver.server import AuthorizationServer  # cryptography: only where needed

    said = _plain(ProxySettings, oauth.proxy, but=("clients",))
    by_hand = oauth.proxy.clients.items()
    clients = {id: KnownClient(**_plain(KnownClient, client)) for id, client in by_hand}
    settings = ProxySettings(
        **said,
        clients=clients,
        granted=tuple(oauth.scopes),
        user_claim=oauth.user_claim,
        scopes_claim=oauth.scopes_claim,
        clock_skew_s=oauth.clock_skew_s,
    )
    seal = seals(loaded)
    store = StoredGrants(accounts.database, accounts.feed, seal)
    return AuthorizationServer(settings, seal, store)


def _plain(
    settings: type[ProxySettings | KnownClient], block: Block, *, but: Collection[str] = ()
) -> dict[str, Any]:
    """The settings that a block sets, without its defaults."""
    return {name: v for name, v in values_for(settings, block, but=but).items() if v is not None}


def routes_of(
    loaded: Loaded, hosts: HostChecks, server: AuthorizationServer, base_path: str
) -> list[Endpoints | Pages]:
    """Its endpoints and pages, each of which can be registered on an application."""
    from armory.web.oauth.browser import Pages
    from armory.web.oauth.endpoints import Endpoints
    from armory.web.oauth.urls import OAuthServices

    services = OAuthServices(server, seals(loaded), hosts, is_endpoint, base_path)
    return [Endpoints(services), Pages(services)]


def follow_grants(
    accounts: Accounts | None, server: AuthorizationServer, end: Callable[[str], Awaitable[None]]
) -> None:
    """When a grant ends on any replica, end the streams and sessions opened with it."""

    async def ended(id: str) -> None:
        key = server.scheme.ended(id)
        if key is not None:
            await end(key)

    if accounts is not None:
        accounts.feed.subscribe(GRANTS, ended)
