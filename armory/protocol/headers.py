"""MCP's HTTP headers.

Owns: their names, and the encoding of what is no safe header value. Never imports a transport.
"""

from __future__ import annotations

import base64
import re

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
"""The name, URI or task id that the request's parameters hold, too."""
PARAM_PREFIX = "Mcp-Param-"
LAST_EVENT_ID = "Last-Event-ID"
"""Of the event stream that is to be resumed."""

_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*+(?<! ))?")
_SENTINEL = "=?base64?"


def header_value(text: str) -> str:
    """`text` where it survives as a header value, else its `=?base64?...?=` form."""
    if not text or (_SAFE.fullmatch(text) and not text.startswith(_SENTINEL)):
        return text
    packed = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"{_SENTINEL}{packed}?="
