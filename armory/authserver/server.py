"""The authorization server: its clients and what it gives them.

Owns: putting the parts of this room together. Never talks HTTP to clients.
"""

from __future__ import annotations

from armory.authserver.assertions import Assertions
from armory.authserver.clients import Client, Registrations, Seal
from armory.authserver.documents import Documents, is_document
from armory.authserver.errors import UnusableClient
from armory.authserver.grants import Grants, GrantStore
from armory.authserver.provider import Provider
from armory.authserver.scheme import GrantScheme
from armory.authserver.settings import ProxySettings

_MAX_ID = 4_096


class AuthorizationServer:
    """See the module.

    Args:
        settings: as configured.
        seal: makes ids of clients, codes and tokens.
        store: where grants rest.

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

    async def client(self, id: str) -> Client:
        """The client of an id.

        Raises:
            UnusableClient: there is none.
        """
        if is_document(id):
            return await self._documents.client(id)
        known = self.registrations.known(id) if len(id) <= _MAX_ID else None
        if known is None:
            raise UnusableClient(
                "this client_id is not known here, or its redirect_uris are not allowed any more; "
                "register again"
            )
        return known
