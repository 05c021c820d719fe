"""Names of tools and of their arguments.

Owns: which characters a name may have, and making names unique. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Container, MutableMapping

_TOOL_CHARS = 128
_ARGUMENT_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_ARGUMENT = re.compile(rf"[A-Za-z0-9_.-]{{1,{_ARGUMENT_CHARS}}}")
"""Argument names that model providers accept; Anthropic's API refuses every request in which a tool
has another."""


def tool_name(
    method: str,
    path: str,
    operation_id: object,
    taken: Container[str],
    numbers: MutableMapping[str, int],
) -> str:
    """The name of an operation's tool: its `operationId`, or one made from method and path.

    Args:
        method: HTTP method, lower case.
        path: template below the base URL.
        operation_id: as described, of whatever type.
        taken: names that other tools have.
        numbers: by name the first that may be free behind it; kept from one tool to the next.
    """
    name = ""
    if isinstance(operation_id, str):
        name = _UNSAFE.sub("_", operation_id).strip("_")[:_TOOL_CHARS]
    if name and name not in taken:
        return name
    words = _UNSAFE.sub("_", path.replace("{", "by_").replace("}", "")).strip("_")
    plain = f"{method}_{words}" if words else method
    name = plain = plain[:120]
    while name in taken:
        numbers[plain] = number = numbers.get(plain, 1) + 1
        name = f"{plain}_{number}"
    return name


def is_argument_name(name: str) -> bool:
    """Whether a parameter's name can be used unchanged as an argument's."""
    return _ARGUMENT.fullmatch(name) is not None


def argument_name(name: str, place: str, taken: Container[str]) -> str:
    """A unique argument name for a parameter.

    Args:
        name: the parameter's.
        place: where the parameter travels; tells those of one name apart.
        taken: names that other arguments have.
    """
    if not is_argument_name(name):
        name = _UNSAFE.sub("_", name).strip("_") or place
    found, number = name[:_ARGUMENT_CHARS], 1
    while found in taken:
        end = f"_{place}" if number == 1 else f"_{place}_{number}"
        found, number = f"{name[: _ARGUMENT_CHARS - len(end)]}{end}", number + 1
    return found
