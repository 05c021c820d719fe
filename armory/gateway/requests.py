"""One request as an edge received it: who asks, where, with what beside the parameters.

Owns: `ClientRequest` and `Endpoint`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Raw

from armory.domain.principal import Principal
from armory.protocol.link import ClientChannel, Owner
from armory.protocol.versions import Era
from armory.security.policy import EVERYTHING, Scope


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One MCP endpoint.

    Attributes:
        kind: `all` for `/mcp`, `set` for `/mcp/set/{name}`, `server` for `/mcp/{name}`.
        name: the set's or server's name; "" for `all`.
        scope: the part of the catalog that it shows.
    """

    kind: Literal["all", "set", "server"] = "all"
    name: str = ""
    scope: Scope = EVERYTHING

    @property
    def transparent(self) -> bool:
        """Whether original names and URIs are used and nothing is added."""
        return self.kind == "server"


ALL = Endpoint()


class ClientRequest(msgspec.Struct, frozen=True, eq=False):
    """One request, from the front.

    Attributes:
        principal: who asks.
        client: how to reach the client while the request lasts.
        era: the client's era.
        version: the protocol revision that it speaks.
        endpoint: where it asked.
        session: id of its legacy session, None on modern.
        meta: members of `params._meta`, as sent.
        headers: the HTTP request's headers, case-insensitive; empty elsewhere.
        url: the HTTP request's query parameters by name, each a list; empty elsewhere.
        revealed: exposed names that this legacy session has searched for; None when not kept.
    """

    principal: Principal
    client: ClientChannel
    era: Era
    version: str
    endpoint: Endpoint = ALL
    session: str | None = None
    meta: Mapping[str, Raw] = {}
    headers: Mapping[str, str] = {}
    url: Mapping[str, list[str]] = {}
    revealed: set[str] | None = None

    @property
    def owner(self) -> Owner:
        """On whose behalf calls go upstream."""
        return Owner(self.principal, self.session)
