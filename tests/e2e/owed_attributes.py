"""Which attributes the semantic conventions ask of a span, and when.

Owns: the tables, as the conventions for MCP and for HTTP have them. What a gateway's spans have is
in `armory.telemetry`; what they owe stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from armory.telemetry import conventions as c
from armory.testing.collector import CollectedSpan

Level = Literal["required", "conditional", "recommended", "opt-in"]
When = Literal[
    "always",
    "tool",
    "prompt",
    "resource",
    "id",
    "error",
    "code",
    "session",
    "http",
    "address",
    "answered",
]
_BOTH: frozenset[c.Side] = frozenset(("server", "client"))


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a span.

    Attributes:
        name: as in the conventions.
        level: how strongly they want it.
        when: what a request must have for it to apply; `code`: a JSON-RPC error came back;
            `session`: of the legacy era; `address`: the address of the other side is known;
            `answered`: it was not cancelled.
        sides: the spans that it is for.
    """

    name: str
    level: Level
    when: When
    sides: frozenset[c.Side] = _BOTH


ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(c.METHOD, "required", "always"),
    Attribute(c.ERROR, "conditional", "error"),
    Attribute(c.TOOL, "conditional", "tool"),
    Attribute(c.PROMPT, "conditional", "prompt"),
    Attribute(c.REQUEST_ID, "conditional", "id"),
    Attribute(c.RESOURCE, "conditional", "resource"),
    Attribute(c.STATUS_CODE, "conditional", "code"),
    Attribute(c.OPERATION, "recommended", "tool"),
    Attribute(c.VERSION, "recommended", "always"),
    Attribute(c.SESSION, "recommended", "session"),
    Attribute(c.TRANSPORT, "recommended", "always"),
    Attribute(c.PROTOCOL, "recommended", "http"),
    Attribute(c.CLIENT_ADDRESS, "recommended", "address", frozenset(("server",))),
    Attribute(c.SERVER_ADDRESS, "recommended", "address", frozenset(("client",))),
    Attribute(c.SERVER_PORT, "recommended", "address", frozenset(("client",))),
)

REST_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(c.HTTP_METHOD, "required", "always"),
    Attribute(c.URL_PATH, "required", "always"),
    Attribute(c.URL_SCHEME, "required", "always"),
    Attribute(c.HTTP_ROUTE, "conditional", "always"),
    Attribute(c.HTTP_STATUS, "conditional", "answered"),
    Attribute(c.ERROR, "conditional", "error"),
    Attribute(c.TOOL, "conditional", "tool"),
    Attribute(c.OPERATION, "recommended", "tool"),
    Attribute(c.CLIENT_ADDRESS, "recommended", "address"),
)
"""Of the span of a REST request. Never `url.query`: it has the text of a search."""


def owed(
    span: CollectedSpan, conditions: set[str], table: tuple[Attribute, ...] = ATTRIBUTES
) -> set[str]:
    """Attributes that a table asks of a span and that it lacks."""
    return {
        row.name
        for row in table
        if span.kind in row.sides and row.when in conditions and row.level != "opt-in"
    } - span.attributes.keys()
