"""Which questions of a server a client has declared that it can answer.

Owns: that decision for both eras, and what is said of the others. Pure; never does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from armory.protocol import codes, jsonrpc
from armory.protocol.capabilities import CAPABILITY
from armory.protocol.rawjson import NULL, text_of
from armory.protocol.versions import URL_ELICITATION_SINCE, Era

_NO_TOOLS = (NULL, Raw(b"[]"))


def asks_url(params: Mapping[str, Raw]) -> bool:
    """Whether an elicitation is in URL mode."""
    return text_of(params, "mode") == "url"


def asks_with_tools(params: Mapping[str, Raw]) -> bool:
    """Whether a sampling request lets the model call tools."""
    return any(params.get(name, NULL) not in _NO_TOOLS for name in ("tools", "toolChoice"))


def is_unknown(method: str) -> bool:
    """Whether a question's method is unknown to Armory."""
    return method not in CAPABILITY and method != "ping" and not method.startswith("tasks/")


def may_ask(
    method: str, params: Mapping[str, Raw], capabilities: Mapping[str, Any], era: Era, version: str
) -> bool:
    """Whether the client declared that it can answer this request."""
    if method == "ping":
        return era == "legacy"
    needed = CAPABILITY.get(method)
    if needed is None or needed not in capabilities:
        return False
    declared = capabilities[needed]
    modes: Mapping[str, Any] = declared if isinstance(declared, dict) else {}  # pyright: ignore
    if needed == "sampling":
        return "tools" in modes or not asks_with_tools(params)
    if needed != "elicitation":
        return True
    if asks_url(params):
        new_enough = era == "modern" or version >= URL_ELICITATION_SINCE
        return "url" in modes and new_enough
    return not modes or "form" in modes or "url" not in modes


def required(method: str, params: Mapping[str, Raw]) -> dict[str, Any]:
    """The capabilities that a client must declare for this question."""
    needed = CAPABILITY.get(method, method)
    modes: dict[str, Any] = {}
    if needed == "elicitation":
        modes = {"url" if asks_url(params) else "form": {}}
    elif needed == "sampling" and asks_with_tools(params):
        modes = {"tools": {}}
    return {needed: modes}


def refusal(method: str, capabilities: Mapping[str, Any]) -> Raw:
    """The error for a server whose question the client has not declared that it can answer."""
    # of a declared capability, it is the mode that the client lacks
    declared = CAPABILITY.get(method) in capabilities
    code = codes.INVALID_PARAMS if declared else codes.METHOD_NOT_FOUND
    return jsonrpc.error(code, f"the client did not declare what {method} needs")
