"""One table: every method that a client may send, and how it is routed.

Owns: the table. Never imports a transport or the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from armory.protocol.versions import Era

Kind = Literal[
    "hello",  # answered by the edge: handshake, ping, discovery
    "session",  # changes the state of a legacy session
    "listen",  # opens a modern stream of notifications
    "list_tools",
    "call_tool",
    "list_entries",
    "get_prompt",
    "read_resource",
    "complete",
    "task",
]
BOTH: frozenset[Era] = frozenset(("modern", "legacy"))
MODERN: frozenset[Era] = frozenset(("modern",))
LEGACY: frozenset[Era] = frozenset(("legacy",))


@dataclass(frozen=True, slots=True)
class Route:
    """How one method is served.

    Attributes:
        kind: who answers it.
        eras: in which eras it exists.
        name: the parameter that the `Mcp-Name` header mirrors, or None.
        interactive: whether the server may ask the client for input before it answers.
        cacheable: whether modern results carry `ttlMs` and `cacheScope`.
    """

    kind: Kind
    eras: frozenset[Era] = BOTH
    name: str | None = None
    interactive: bool = False
    cacheable: bool = False


METHODS: Mapping[str, Route] = MappingProxyType(
    {
        "initialize": Route("hello", LEGACY),
        "ping": Route("hello", LEGACY),
        "server/discover": Route("hello", MODERN, cacheable=True),
        "logging/setLevel": Route("session", LEGACY),
        "resources/subscribe": Route("session", LEGACY),
        "resources/unsubscribe": Route("session", LEGACY),
        "subscriptions/listen": Route("listen", MODERN),
        "tools/list": Route("list_tools", cacheable=True),
        "tools/call": Route("call_tool", name="name", interactive=True),
        "prompts/list": Route("list_entries", cacheable=True),
        "prompts/get": Route("get_prompt", name="name", interactive=True),
        "resources/list": Route("list_entries", cacheable=True),
        "resources/templates/list": Route("list_entries", cacheable=True),
        "resources/read": Route("read_resource", name="uri", interactive=True, cacheable=True),
        "completion/complete": Route("complete"),
        "tasks/get": Route("task", name="taskId"),
        "tasks/update": Route("task", MODERN, name="taskId"),
        "tasks/cancel": Route("task", name="taskId"),
        "tasks/result": Route("task", LEGACY),
    }
)


def route(method: str, era: Era) -> Route | None:
    """The route of a method in an era; None where it has none there."""
    found = METHODS.get(method)
    return found if found is not None and era in found.eras else None


def exists_elsewhere(method: str, era: Era) -> bool:
    """Whether a method belongs to the other era only (and is therefore never passed on)."""
    found = METHODS.get(method)
    return found is not None and era not in found.eras
