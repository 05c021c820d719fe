"""Requests and notifications of MCP by name, and the levels of log messages.

Owns: their methods, and the members of `subscriptions/listen` that ask for notifications. Never
imports anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LOGGED = "notifications/message"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
LISTS_CHANGED = (TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED)
GROUPS_CHANGED = "notifications/groups/list_changed"
ROOTS_CHANGED = "notifications/roots/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
TASK = "notifications/tasks"
TASK_STATUS = "notifications/tasks/status"
ELICITATION_COMPLETE = "notifications/elicitation/complete"
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

REQUESTS = frozenset(
    (
        "completion/complete",
        "groups/get",
        "groups/list",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        LISTEN,
        "tasks/cancel",
        "tasks/get",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/describe",
        "tools/list",
        "tools/manifest",
    )
)
"""What a client may send, in any revision; upstreams may know more."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Least severe first."""
_RANKS = {level: rank for rank, level in enumerate(LOG_LEVELS)}
ABOUT_TASKS = frozenset((TASK, TASK_STATUS))
NEWS_FOR_LISTENERS = frozenset((*LISTS_CHANGED, GROUPS_CHANGED, RESOURCE_UPDATED))
"""Notifications for all who listen, even where an upstream sends them in the middle of a call."""
HANDSHAKE_ERA_ONLY = frozenset((TASK_STATUS, ELICITATION_COMPLETE))
"""Notifications that the modern revision does not have."""
LISTENED: Mapping[str, str] = MappingProxyType(
    {
        "toolsListChanged": TOOLS_CHANGED,
        "promptsListChanged": PROMPTS_CHANGED,
        "resourcesListChanged": RESOURCES_CHANGED,
        "groupsListChanged": GROUPS_CHANGED,
    }
)
"""Members of `subscriptions/listen`, and the notification that each of them asks for."""


def loud_enough(level: object, wanted: str | None) -> bool:
    """Whether a message of `level` reaches a client that wants `wanted` or more severe.

    An unknown level does, unless the client wants no log at all (None).
    """
    if wanted is None:
        return False
    rank = _RANKS.get(level) if isinstance(level, str) else None
    return rank is None or rank >= _RANKS.get(wanted, 0)
