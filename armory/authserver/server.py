"""The authorization server, assembled from its parts.

Owns: putting the parts of this room together. Never talks HTTP to clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from armory.authserver import documents
from armory.authserver.assertions import Assertions
from armory.authserver.client_keys import METHOD, ClientKeys
from armory.authserver.clients import Client, Registrations
from armory.authserver.documents import Documents, is_document
from armory.authserver.errors import UnusableClient
from armory.authserver.grants import Grants
from armory.authserver.kept_grants import GrantStore
from armory.authserver.provider import Provider
from armory.authserver.scheme import GrantScheme
from armory.authserver.settings import ProxySettings

if TYPE_CHECKING:
    from armory.security.sealing import Seal

_MAX_ID = 4_096


class AuthorizationServer:
    """All parts of the authorization server.

    Args:
        settings: as configured.
        seal: makes ids of clients, codes and tokens.
        store: where grants are stored.

    Attributes:
        registrations, assertions, grants, provider, scheme, settings: the parts.
    """

    def __init__(self, settings: ProxySettings, seal: Seal, store: GrantStore) -> None:
        self.settings = settings
        self.registrations = Registrations(seal, settings.redirects, settings.clients)
        self.assertions = Assertions(settings)
        self.provider = Provider(settings)
        self.grants = Grants(store, seal, self.provider)
        self.scheme = GrantScheme(self.grants, settings.granted)
        self._documents = Documents(settings.redirects)
        self._client_keys = ClientKeys(
            store.begin, route=documents.ROUTE, leeway_s=settings.clock_skew_s
        )

    async def client(self, id: str, asker: str) -> Client:
        """The client with an id.

        Args:
            id: as it was said.
            asker: the address of whoever said it.

        Raises:
            UnusableClient: there is no such client.
        """
        if is_document(id):
            return await self._documents.client(id, asker)
        known = self.registrations.find(id) if len(id) <= _MAX_ID else None
        if known is None:
            raise UnusableClient(
                "this client_id is not known here, or its redirect_uris are not allowed any more; "
                "register again"
            )
        return known

    async def check(self, client: Client, secret: str, assertion: str, issuer: str) -> None:
        """Authenticate a client.

        Args:
            client: that says who it is.
            secret: what it brings; "": nothing.
            assertion: likewise.
            issuer: the gateway, as the client knows it.

        Raises:
            UnusableClient: the credentials do not match.
        """
        if client.method != METHOD:
            if assertion:
                raise UnusableClient(f"this client has no keys; it is known by {client.method}")
            self.registrations.check(client, secret)
            return
        if secret or not assertion:
            raise UnusableClient(f"this client's document says {METHOD}: bring a client_assertion")
        await self._client_keys.check(client, assertion, (issuer, f"{issuer}/oauth/token"))
