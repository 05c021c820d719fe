"""The gateway as an MCP client of its upstreams, where no client's call is behind a request.

Owns: who it is, and what it declares. Never imports a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armory.domain.principal import INTERNAL
from armory.protocol.capabilities import EVERYTHING, declaration
from armory.protocol.link import Owner

OWNER = Owner(INTERNAL)
"""The gateway itself."""

OWN_CAPABILITIES = declaration(EVERYTHING)
"""What the gateway's own session declares: some servers list only the tools that such a client can
use. It calls none of them, and refuses whatever it is asked."""


def declared_by(owner: Owner) -> Mapping[str, Any]:
    """The capabilities that are declared where no client is behind the session."""
    return OWN_CAPABILITIES if owner.principal is INTERNAL else owner.capabilities
