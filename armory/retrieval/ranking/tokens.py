"""Token estimates: what a tool's definition costs in a prompt.

Owns: counting a definition, once each. Never imports anything but the shared estimate and records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from armory.domain.tool import ToolRecord
from armory.llm.tokens import estimate_tokens


def definition_tokens(definition: Mapping[str, Any]) -> int:
    """Estimated tokens of a definition's compact JSON."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
    return estimate_tokens(text)


class TokenCounts:
    """Estimates of the tools of one snapshot, each made once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, record: ToolRecord) -> int:
        """Estimated tokens of a tool's definition."""
        known = self._known.get(record.name)
        if known is None:
            known = self._known[record.name] = definition_tokens(record.definition)
        return known
