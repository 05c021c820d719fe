"""`${VAR}`, `${VAR:-default}` and `${env:VAR}` in texts.

Owns: the expansion of variables. Never imports a room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from armory.config.problems import Path

_REFERENCE = re.compile(
    r"\$(?P<escaped>\$\{)|\$\{(?P<kind>env:|input:)?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"
    r"(?P<rest>:-(?P<default>(?:[^{}]|\{[^{}]*\})*))?\}"
)
PRINCIPAL = "principal"


class Missing(Exception):
    """A variable that is not set and has no default."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def expand(text: str, variables: Mapping[str, str], *, keep_principal: bool) -> str:
    """`text` with its variables filled in.

    `$${` stands for a literal `${`. An empty variable counts as unset where a default is given.

    Args:
        text: may hold any number of references.
        variables: what is known, environment included.
        keep_principal: whether `${principal}` is left for later.

    Raises:
        Missing: a variable is not set.
    """

    def fill(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        name, default = match["name"], match["default"]
        if keep_principal and name == PRINCIPAL and match["rest"] is None:
            return match[0]
        if match["kind"] == "input:":
            raise Missing(
                f"{match[0]} asks an editor's user, which a gateway cannot; "
                f"write ${{{name.upper().replace('-', '_')}}} and set that variable"
            )
        value = variables.get(name)
        if match["rest"] is not None and not value:
            return default
        if value is None:
            raise Missing(
                f"the variable {name} is not set; set it, or give a default: ${{{name}:-...}}"
            )
        return value

    return _REFERENCE.sub(fill, text)


def expand_tree(
    value: Any,
    variables: Mapping[str, str],
    missing: dict[Path, str],
    path: Path = (),
) -> Any:
    """`value` with every text in it expanded; what is missing is noted by path and left alone."""
    if isinstance(value, dict):
        return {
            key: expand_tree(inner, variables, missing, (*path, str(key)))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [
            expand_tree(inner, variables, missing, (*path, position))
            for position, inner in enumerate(value)
        ]
    if isinstance(value, str) and "${" in value:
        try:
            return expand(value, variables, keep_principal=path[:1] == ("upstreams",))
        except Missing as error:
            missing[path] = error.message
    return value
