"""The gateway as a client of upstreams, where no client of its own is behind a call.

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
    """What is declared where no client says what it can do."""
    return OWN_CAPABILITIES if owner.principal is INTERNAL else owner.capabilities
