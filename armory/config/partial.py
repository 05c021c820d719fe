"""The rest of a configuration after its invalid values were removed.

Owns: the stand-in that cross-checks run on, so that every problem shows at once. Never imports a
room.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from armory.config.model import Config
from armory.config.problems import Path

_ROUNDS = 3
_STAND_IN = "stands in for what is missing"
_NAMED_BLOCKS: tuple[Path, ...] = (
    ("upstreams",),
    ("sets",),
    ("security", "tokens"),
    ("accounts", "plans"),
)
"""Maps of blocks: a wrong entry becomes an empty one, since others may speak of its name."""


def without(filled: Mapping[Any, Any], wrong: Collection[Path]) -> Config | None:
    """The model of everything that is not at one of the paths; None when nothing can be made of it.

    What is needed and missing is stood in for, so the result is good for comparing other values and
    for nothing else.

    Args:
        filled: the data, variables filled in.
        wrong: where problems have been found.
    """
    data = copy.deepcopy(dict(filled))
    for path in wrong:
        _take_out(data, path)
    for number in range(_ROUNDS):
        try:
            return Config.model_validate(data)
        except ValidationError as error:
            for position, detail in enumerate(error.errors(include_url=False)):
                if detail["type"] == "missing":
                    _put(data, detail["loc"], f"{_STAND_IN} {number}.{position}")
                else:  # no text can stand in for it
                    _take_out(data, detail["loc"][:-1])
    return None


def concerns(path: Path, wrong: Collection[Path]) -> bool:
    """Whether the value at `path`, or one around it, is among the wrong ones."""
    return any(path[: len(bad)] == bad for bad in wrong)


def _take_out(data: dict[Any, Any], path: Path) -> None:
    while path and isinstance(path[-1], int):
        path = path[:-1]  # the whole list: later entries must keep their numbers
    if not path:
        return
    parent = _at(data, path[:-1])
    if not isinstance(parent, dict) or path[-1] not in parent:
        return
    if path[:-1] in _NAMED_BLOCKS:
        parent[path[-1]] = {}
    else:
        del parent[path[-1]]


def _put(data: dict[Any, Any], path: Path, value: str) -> None:
    parent = _at(data, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value


def _at(data: Any, path: Path) -> Any:
    try:
        for part in path:
            data = data[part]
    except (LookupError, TypeError):
        return None
    return data
