"""What a tool's definition costs in a prompt.

Owns: counting a definition. Never imports anything but the shared estimate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from armory.llm.tokens import estimate_tokens


def definition_tokens(definition: Mapping[str, Any]) -> int:
    """Estimated tokens of a definition's compact JSON."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
    return estimate_tokens(text)
