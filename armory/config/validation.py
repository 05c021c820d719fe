"""Rewords pydantic's errors for `armory.yaml`.

Owns: paths, nearest keys and values for messages; hides what may be secret. Never imports a room.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from armory.config.base import BASE_PATH, HTTP_URL, REDIS_PREFIX_PATTERN, VARIABLE_PATTERN
from armory.config.model import Config
from armory.config.problems import Path, nearest
from armory.domain.expectations import MAPPING, expectation

SECRET_PARTS = frozenset(
    {
        "token",
        "tokens",
        "api_key",
        "secret",
        "client_secret",
        "audience_client_secret",
        "private_key",
        "encryption_key",
        "headers",
        "env",
        "redis",
        "url",
        "openapi",
        "base_url",
        "proxy",
        "args",
    }
)
_PATTERNS = {
    HTTP_URL: "an http:// or https:// URL",
    VARIABLE_PATTERN: "the name of a variable, in which * stands for anything, without = or spaces",
    BASE_PATH: "a path as /armory, of letters, digits and . _ ~ -",
    REDIS_PREFIX_PATTERN: "a text such as team-a:, of 1 to 100 characters without spaces",
}
_TOP_LEVEL_MAPS = ("mcpServers", "servers")
_BLOCKS = ("dict_type", "list_type", "model_type", "model_attributes_type")
_ANCHORS = (
    "an anchor stands where it is used first: `a: &base {...}`, and then `b: {<<: *base, ...}`"
)
_FEW = 8
"""Blocks with fewer keys have all of them named in the error about a value of another kind."""
_NOWHERE = object()


def problems_of(
    error: ValidationError, filled: Mapping[Any, Any], written: Mapping[Any, Any]
) -> list[tuple[Path, str]]:
    """(path, message) of every error; alternatives of one value become one message.

    Args:
        error: what pydantic found.
        filled: the data that it validated.
        written: the same data before variables were filled in; messages quote from this one.
    """
    grouped: dict[Path, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=True):
        path = _real_path(detail, filled)
        grouped.setdefault(path, []).append(_message(detail, path, written))
    return [(path, _join(messages)) for path, messages in grouped.items()]


def _join(messages: list[str]) -> str:
    unique = list(dict.fromkeys(messages))
    if len(unique) == 1:
        return unique[0]
    split = [message.partition("; it is ") for message in unique]
    tail = max((end for _, _, end in split), key=len)
    heads = [split[0][0], *(head.removeprefix("expected ") for head, _, _ in split[1:])]
    return " or ".join(dict.fromkeys(heads)) + (f"; it is {tail}" if tail else "")


def _real_path(detail: ErrorDetails, data: Any) -> Path:
    """The error's location without the names of union branches and validators."""
    path: list[str | int] = []
    place = data
    location = detail["loc"]
    for position, part in enumerate(location):
        inner = _step(place, part)
        if isinstance(place, dict):
            part = str(part)
        if inner is not _NOWHERE:
            place = inner
        elif position < len(location) - 1 or detail["type"] != "missing":
            continue
        path.append(part)
    return tuple(path)


def _step(place: Any, part: str | int) -> Any:
    if isinstance(place, dict):
        return place.get(part, _NOWHERE)
    if isinstance(place, list) and isinstance(part, int) and part < len(place):
        return place[part]
    return _NOWHERE


def _message(detail: ErrorDetails, path: Path, written: Any) -> str:
    kind = detail["type"]
    context: Mapping[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return "this key is needed here and missing"
    if kind == "invalid_key" or detail["loc"][-1:] == ("[key]",):
        return f"a key is text here; put it in quotes: '{path[-1]}'"
    value = _value(path, written)
    wanted = expectation(kind, context, detail["input"], _PATTERNS)
    if wanted == MAPPING and (keys := [*_known_keys(path)]):
        wanted = f"{MAPPING}: {', '.join(keys)}" if len(keys) < _FEW else wanted
        if isinstance(detail["input"], str) and not SECRET_PARTS.isdisjoint(keys):
            value = "text"  # perhaps the secret itself, given in place of its block
    tail = f"; it is {value}" if value else ""
    if wanted is None:  # a check of Armory's own, which says what it found
        return f"{detail['msg'].removeprefix('Value error, ')}{tail}"
    return f"expected {wanted}{tail}{_fix(kind, detail['input'], wanted, value)}"


def _fix(kind: str, given: Any, wanted: str, shown: str) -> str:
    """What to write instead; empty if that is not known."""
    if kind == "literal_error" and isinstance(given, str):
        choices = [part.strip("'") for part in wanted.replace(" or ", ", ").split(", ")]
        guess = nearest(given, choices)
        return f"; did you mean {guess!r}?" if guess else ""
    if given is None and kind in _BLOCKS:
        return "; leave the key out"
    if kind == "list_type" and isinstance(given, str):
        return f"; write it as [{shown}]" if shown else "; write it as [a, b]"
    if kind == "string_type" and isinstance(given, (bool, int, float)):
        return f"; put it in quotes: '{shown}'" if shown else "; put it in quotes"
    return ""


def _unknown_key(path: Path) -> str:
    if len(path) == 1 and str(path[0]).startswith("x-"):  # as Compose has it for anchors
        return f"unknown key; {_ANCHORS}"
    known = list(_known_keys(path[:-1]))
    guess = nearest(str(path[-1]), known)
    hint = f"did you mean {guess!r}? Known" if guess else "known"
    return f"unknown key; {hint} here: {', '.join(known)}"


def _known_keys(path: Path) -> Iterator[str]:
    """The keys that the block at `path` may have."""
    place: Any = Config
    for part in path:
        place = _inner(place, part)
        if place is None:
            return
    if isinstance(place, type) and issubclass(place, BaseModel):
        yield from place.model_fields
        if place is Config:
            yield from _TOP_LEVEL_MAPS


def _inner(place: Any, part: str | int) -> Any:
    """The type behind one step of a path, unions and containers looked through."""
    if isinstance(place, type) and issubclass(place, BaseModel):
        known = place.model_fields.get(str(part))
        return _model_in(known.annotation) if known else None
    if typing.get_origin(place) is dict:
        return _model_in(typing.get_args(place)[1])
    if typing.get_origin(place) is list:
        return _model_in(typing.get_args(place)[0])
    return None


def _model_in(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for option in typing.get_args(annotation):
            if isinstance(option, type) and issubclass(option, BaseModel):
                return option
    return annotation


def _value(path: Path, written: Any) -> str:
    """The value in the file as short text; empty for what may be a secret."""
    place = written
    for part in path:
        if (place := _step(place, part)) is _NOWHERE:
            return ""
    if isinstance(place, dict):
        return "a mapping"
    if isinstance(place, list):
        return "a list"
    if place is None:
        return "empty"
    if isinstance(place, str) and "${" in place:
        return repr(place)
    if not isinstance(place, bool) and SECRET_PARTS.intersection(map(str, path)):
        return ""
    text = str(place).lower() if isinstance(place, bool) else repr(place)
    return text if len(text) <= 80 else text[:77] + "..."
