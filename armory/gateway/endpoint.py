"""One MCP endpoint: which part of the catalog is served under which URL.

Owns: `Endpoint`. Never imports a transport.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from armory.domain.visibility import EVERYTHING, Scope


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One MCP endpoint.

    Attributes:
        kind: `all` for `/mcp`, `set` for `/mcp/set/{name}`, `server` for `/mcp/{name}`.
        name: the set's or server's name; "" for `all`.
        scope: the part of the catalog that it shows.
        transparent: whether original names and URIs are used and nothing is added.
    """

    kind: Literal["all", "set", "server"] = "all"
    name: str = ""
    scope: Scope = EVERYTHING
    transparent: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "transparent", self.kind == "server")  # asked for often in a call


ALL = Endpoint()
