"""What a server may ask of a client, and the capability that a client declares for it.

Owns: the table. Never imports anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CAPABILITY: Mapping[str, str] = MappingProxyType(
    {
        "elicitation/create": "elicitation",
        "sampling/createMessage": "sampling",
        "roots/list": "roots",
    }
)
