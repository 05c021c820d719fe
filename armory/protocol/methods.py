"""Notifications of MCP by name, and what a server may ask of a client.

Owns: their methods, the members of `subscriptions/listen` that ask for notifications, and the
capabilities that a client declares for questions. Never imports anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LOGGED = "notifications/message"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
LISTS_CHANGED = (TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED)
ROOTS_CHANGED = "notifications/roots/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
TASK = "notifications/tasks"
TASK_STATUS = "notifications/tasks/status"
ELICITATION_COMPLETE = "notifications/elicitation/complete"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

ABOUT_TASKS = frozenset((TASK, TASK_STATUS))
ON_REQUEST_STREAMS = frozenset((PROGRESS, LOGGED, TASK))
"""What may come before a modern request's result; the rest rides `subscriptions/listen`."""
LISTENED: Mapping[str, str] = MappingProxyType(
    {
        "toolsListChanged": TOOLS_CHANGED,
        "promptsListChanged": PROMPTS_CHANGED,
        "resourcesListChanged": RESOURCES_CHANGED,
    }
)
"""Members of `subscriptions/listen`, and the notification that each of them asks for."""

CAPABILITY: Mapping[str, str] = MappingProxyType(
    {
        "elicitation/create": "elicitation",
        "sampling/createMessage": "sampling",
        "roots/list": "roots",
    }
)
"""What a server may ask of a client, and the capability that a client declares for it."""


def may_be_asked(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client with these capabilities answers anything that a server asks."""
    return any(name in capabilities for name in CAPABILITY.values())


LOG_IN = "log_in"
"""The gateway's own tool of an upstream, for whoever has not logged in there."""
