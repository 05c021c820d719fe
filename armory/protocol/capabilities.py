"""Capabilities: which questions a client answers, and the extensions of clients and servers.

Owns: the requests that a server may make, what capabilities say of them, the names and settings of
extensions, what of them is declared in a session. Never imports anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
GROUPS_EXTENSION = "io.modelcontextprotocol/groups"
GROUPS_DECLARED: dict[str, Any] = {"extensions": {GROUPS_EXTENSION: {}}}
"""The capabilities of a client that supports groups."""
APPS_EXTENSION = "io.modelcontextprotocol/ui"
APPS_TYPE = "text/html;profile=mcp-app"
"""What a client that renders interfaces of tools says it renders."""
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
"""The extension for long calls in the modern era."""
DIRECTORY_READ = "directoryRead"
"""The setting of a server that lists folders."""

CAPABILITY: Mapping[str, str] = MappingProxyType(
    {
        "elicitation/create": "elicitation",
        "sampling/createMessage": "sampling",
        "roots/list": "roots",
    }
)
"""What a server may ask of a client, and the capability that a client declares for it."""
_ASKED_FOR = frozenset(CAPABILITY.values())


def may_be_asked(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client with these capabilities answers any question of a server."""
    return not _ASKED_FOR.isdisjoint(capabilities)


ROOTS, SAMPLING, FORM, URL, SAMPLING_TOOLS, APPS = 1, 2, 4, 8, 16, 32
"""Bits of what a client answers, and whether it renders interfaces: servers list tools by these."""
EVERYTHING = ROOTS | SAMPLING | FORM | URL | SAMPLING_TOOLS | APPS
SHOWN_ALL = 127
"""Stands for callers over REST or the command line: they answer no question, and are shown what any
client is. The bit beyond `EVERYTHING` distinguishes them from a client that answers every
question."""
HANDSHAKE = 128
"""Set for a client with a handshake that answers any question: its upstream sessions have a
handshake, too."""


def answers_of(capabilities: Mapping[str, Any]) -> int:
    """The questions that a client with these capabilities answers, as bits: `ROOTS` and so on."""
    found = ROOTS if "roots" in capabilities else 0
    if "sampling" in capabilities:
        modes = capabilities["sampling"]
        with_tools = isinstance(modes, Mapping) and "tools" in modes
        found |= SAMPLING | SAMPLING_TOOLS if with_tools else SAMPLING
    if "elicitation" in capabilities:
        kinds = capabilities["elicitation"]
        if isinstance(kinds, Mapping) and "url" in kinds:
            found |= URL | FORM if "form" in kinds else URL
        else:  # without kinds, forms are meant
            found |= FORM
    return found | APPS if declares_apps(capabilities) else found


def session_answers(capabilities: Mapping[str, Any]) -> int:
    """As `answers_of`, for a client with a handshake: with `HANDSHAKE` where it answers
    anything.
    """
    found = answers_of(capabilities)
    return found | HANDSHAKE if found & ~APPS else found


def declaration(answers: int) -> Mapping[str, Any]:
    """The capabilities of a client that answers exactly these questions."""
    declared: dict[str, Any] = {}
    if answers & (FORM | URL):
        kinds = (("form", FORM), ("url", URL))
        declared["elicitation"] = {name: {} for name, bit in kinds if answers & bit}
    if answers & SAMPLING:
        declared["sampling"] = {"tools": {}} if answers & SAMPLING_TOOLS else {}
    if answers & ROOTS:
        declared["roots"] = {}
    if answers & APPS:
        declared["extensions"] = {APPS_EXTENSION: {"mimeTypes": [APPS_TYPE]}}
    return declared


def declared_in_sessions(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The client capabilities that are declared upstream where either side has a session: all but
    tasks.

    Under `tasks`, a server would ask for the client's tasks by ids that are not kept apart by
    server. The extension belongs to the modern era: its results mean nothing in a session.
    """
    declared = {name: value for name, value in capabilities.items() if name != "tasks"}
    extensions = declared.get("extensions")
    if isinstance(extensions, dict) and TASKS_EXTENSION in extensions:
        named = cast("dict[str, Any]", extensions)
        declared["extensions"] = {name: named[name] for name in named if name != TASKS_EXTENSION}
    return declared


def skills_settings(capabilities: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The settings of the skills extension (SEP-2640) if a server declares it, else None."""
    declared = capabilities.get("extensions")
    if not isinstance(declared, dict):
        return None
    settings = cast("dict[str, Any]", declared).get(SKILLS_EXTENSION)
    return cast("dict[str, Any]", settings) if isinstance(settings, dict) else None


def declares_groups(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client or a server declares groups."""
    declared = capabilities.get("extensions")
    return isinstance(declared, Mapping) and GROUPS_EXTENSION in declared


def declares_apps(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client renders user interfaces of tools (MCP Apps)."""
    declared = capabilities.get("extensions")
    return isinstance(declared, Mapping) and APPS_EXTENSION in declared


def merged_skills_settings(servers: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The combined settings of several servers; None where none declares the extension.

    Args:
        servers: the capabilities of each.
    """
    declared = [found for each in servers if (found := skills_settings(each)) is not None]
    if not declared:
        return None
    return {DIRECTORY_READ: True} if any(s.get(DIRECTORY_READ) is True for s in declared) else {}
