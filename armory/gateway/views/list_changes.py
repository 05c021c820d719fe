"""Compares two versions of an upstream's lists.

Owns: the comparison. Does no I/O.
"""

from __future__ import annotations

from armory.domain.catalog import ServerLists, same_entries
from armory.protocol.methods import (
    GROUPS_CHANGED,
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
)


def changed_lists(before: ServerLists, now: ServerLists) -> frozenset[str]:
    """The list-changed methods for the lists that differ."""
    pairs = (
        (TOOLS_CHANGED, before.tools, now.tools),
        (PROMPTS_CHANGED, before.prompts, now.prompts),
        (RESOURCES_CHANGED, before.resources, now.resources),
        (RESOURCES_CHANGED, before.templates, now.templates),
        (RESOURCES_CHANGED, before.skills, now.skills),
    )
    changed = {method for method, old, new in pairs if not same_entries(old, new)}
    if [*before.groups] != [*now.groups]:
        changed.add(GROUPS_CHANGED)
    return frozenset(changed)
