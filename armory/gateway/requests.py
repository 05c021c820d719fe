"""A client's request as the edge received it, independent of the transport.

Owns: `ClientRequest`, and what the gateway keeps of a legacy session. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec import Raw

from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.subscription import Subscription
from armory.protocol.capabilities import SHOWN_ALL, answers_of, session_answers
from armory.protocol.link import ClientChannel, Owner
from armory.protocol.versions import Era


class ClientSession(Protocol):
    """A legacy session, as far as the gateway uses it (`wire.sessions.session.Session`).

    Attributes:
        id: the `Mcp-Session-Id`.
        log_level: as set with `logging/setLevel`.
        revealed: exposed names of tools that it searched for.
        subscription: what it listens to.
        owner: on whose behalf calls go upstream.
    """

    id: str
    log_level: str | None
    revealed: set[str]
    subscription: Subscription

    @property
    def owner(self) -> Owner:
        """The owner of its calls to upstreams."""
        ...


class ClientRequest(msgspec.Struct, frozen=True, eq=False):
    """One request of a client.

    Attributes:
        principal: who asks.
        client: how to reach the client while the request lasts.
        era: the client's era.
        version: the protocol revision that it speaks.
        endpoint: where it asked.
        session: its legacy session, None on modern.
        meta: members of `params._meta`, as sent.
        headers: the HTTP request's headers, case-insensitive; empty elsewhere.
        url: the HTTP request's query parameters by name, each a list; empty elsewhere.
        id: the JSON-RPC id, as JSON; empty where there is none.
        remote: the HTTP client's address; None elsewhere.
        origin: `scheme://host` and base path under which people reach the gateway's pages; empty
            where there are none.
        everything: whether it is shown what its client could not use as well: whoever asks over
            REST or on the command line is no client that a server could ask anything.
    """

    principal: Principal
    client: ClientChannel
    era: Era
    version: str
    endpoint: Endpoint = ALL
    session: ClientSession | None = None
    meta: Mapping[str, Raw] = {}
    headers: Mapping[str, str] = {}
    url: Mapping[str, list[str]] = {}
    id: bytes = b""
    remote: str | None = None
    origin: str = ""
    everything: bool = False

    @property
    def answers(self) -> int:
        """Which kinds of questions the client answers, as far as lists depend on it; see
        `protocol.capabilities`.
        """
        if self.everything:
            return SHOWN_ALL
        declared = self.client.capabilities
        return session_answers(declared) if self.era == "legacy" else answers_of(declared)

    @property
    def session_id(self) -> str | None:
        """Id of its legacy session; None in the modern era."""
        return None if self.session is None else self.session.id

    @property
    def owner(self) -> Owner:
        """The owner of its calls to upstreams."""
        session = self.session
        return Owner(self.principal) if session is None else session.owner

    @property
    def user(self) -> str:
        """The id whose history ranks its queries: the user's, or the principal's own."""
        return self.principal.user or self.principal.key
