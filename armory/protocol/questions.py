"""What a client declares that it answers, as one small number.

Owns: the bits of `answers_of`, and what is declared for them. Never imports anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROOTS, SAMPLING, FORM, URL = 1, 2, 4, 8
EVERYTHING = ROOTS | SAMPLING | FORM | URL
SHOWN_ALL = 31
"""Of who is no client of MCP: it answers nothing, and is shown what any client is."""


def answers_of(capabilities: Mapping[str, Any]) -> int:
    """What a client with these capabilities answers: bits of `ROOTS`, `SAMPLING`, `FORM`, `URL`."""
    found = 0
    if "roots" in capabilities:
        found = ROOTS
    if "sampling" in capabilities:
        found |= SAMPLING
    if "elicitation" in capabilities:
        kinds = capabilities["elicitation"]
        if isinstance(kinds, Mapping) and "url" in kinds:
            found |= URL | FORM if "form" in kinds else URL
        else:  # without kinds, forms are meant
            found |= FORM
    return found


def declaration(answers: int) -> Mapping[str, Any]:
    """The capabilities of a client that answers just these."""
    declared: dict[str, Any] = {}
    if answers & (FORM | URL):
        kinds = (("form", FORM), ("url", URL))
        declared["elicitation"] = {name: {} for name, bit in kinds if answers & bit}
    if answers & SAMPLING:
        declared["sampling"] = {}
    if answers & ROOTS:
        declared["roots"] = {}
    return declared
