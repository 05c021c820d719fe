"""What a tool's definition costs in a prompt.

Owns: the estimate. Never imports anything but the domain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_BYTES_A_TOKEN = 4


def estimate_tokens(value: Mapping[str, Any] | str) -> int:
    """Tokens of a text, or of an object's compact JSON: one for every four UTF-8 bytes.

    An estimate that needs no model's tokenizer; for English JSON it is within a few percent to a
    fifth of what GPT and Claude tokenizers count, and shares of it (tokens saved) are closer.
    """
    if not isinstance(value, str):
        value = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return -(-len(value.encode("utf-8", "replace")) // _BYTES_A_TOKEN)
