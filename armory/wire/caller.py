"""The caller of a request, and its endpoint.

Owns: `Caller`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL, Endpoint


class Caller(msgspec.Struct, frozen=True):
    """The caller, its endpoint, and what the connection or HTTP request says beside the message.

    Attributes:
        principal: who it is.
        endpoint: where it asks.
        headers: of the HTTP request, case-insensitive; empty elsewhere.
        url: its query parameters by name, each a list; empty elsewhere.
        remote: the HTTP client's address; None elsewhere.
        origin: `scheme://host` and base path under which people reach the gateway's pages; empty
            where there are none.
    """

    principal: Principal
    endpoint: Endpoint = ALL
    headers: Mapping[str, str] = {}
    url: Mapping[str, list[str]] = {}
    remote: str | None = None
    origin: str = ""
