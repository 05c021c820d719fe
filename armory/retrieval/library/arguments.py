"""Validation of the arguments of `ToolMemory`, with messages that say what was expected.

Owns: the checks of arguments. Never imports the memory, nor the retriever.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

from armory.errors import ConfigError, InvalidRequest
from armory.retrieval.library.toolbox import shown
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.settings import RetrieverSettings

MOST = sys.float_info.max
"""Stands for no upper bound."""

_PARTS = (
    ("embedder", ("identity", "dimension", "embed_documents", "embed_queries", "aclose")),
    ("index", ("stored", "update", "aclose")),
    ("reranker", ("scores",)),
)
"""What a part made by the caller must have, see `ports` and `ranking.rerank`."""
_READ = ("identity", "dimension")
"""Members that are attributes; all others are awaited methods."""


def check_parts(embedder: Any, index: Any, reranker: Any) -> None:
    """Refuse what could be no part of a memory, before the first selection finds out.

    Raises:
        ConfigError: one is neither a name nor an object of its kind, or what is awaited is not.
    """
    for (part, members), given in zip(_PARTS, (embedder, index, reranker), strict=True):
        named = "None" if part == "reranker" else "a name"
        fits = given is None if part == "reranker" else isinstance(given, str)
        made = not isinstance(given, type) and all(hasattr(given, one) for one in members)
        if not (fits or made):
            raise ConfigError(
                f"{part} is {shown(given)}, expected {named}, or an object with "
                f"{', '.join(members)}"
            )
        for member in members if made else ():
            _check_member(f"{part}.{member}", inspect.unwrap(getattr(given, member)))


def _check_member(name: str, member: Any) -> None:
    if not (inspect.isfunction(member) or inspect.ismethod(member)):
        return  # of anything else only its call tells
    read = name.endswith(_READ)
    if read or not inspect.iscoroutinefunction(member):
        expected = "a property" if read else "`async def` (what blocks goes to asyncio.to_thread)"
        raise ConfigError(f"{name} is a plain function, expected {expected}")


@contextmanager
def naming_argument(argument: str) -> Generator[None]:
    """Errors inside name this argument of the library in place of a key of `armory.yaml`.

    Raises:
        ConfigError: as raised inside, with the argument as its path.
    """
    try:
        yield
    except ConfigError as error:
        said = error.message.removeprefix(f"{error.path}: ")
        raise ConfigError(said, path=argument) from error.__cause__


def folder_of(folder: Any) -> Path | None:
    """A folder, or None for none.

    Raises:
        ConfigError: the value is no path.
    """
    if folder is None:
        return None
    if not isinstance(folder, str | os.PathLike):
        raise ConfigError(f"folder is {shown(folder)}, expected a path")
    return Path(cast("str | os.PathLike[str]", folder))


def texts_of(query: Any) -> tuple[Any, ...]:
    """The texts of a query; of what type they are is checked where it is searched for.

    Raises:
        InvalidRequest: neither a text nor several.
    """
    if isinstance(query, str):
        return (query,)
    if isinstance(query, bytes | bytearray | Mapping) or not isinstance(query, Iterable):
        raise InvalidRequest(
            f"query is {shown(query)}, expected a text or a list of texts", parameter="query"
        )
    return tuple(cast("Iterable[Any]", query))


def tool_count(name: str, value: Any) -> int:
    """A number of tools.

    Raises:
        InvalidRequest: no whole number, or none from 1 on.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidRequest(
            f"{name} is {shown(value)}, expected a whole number, at least 1", parameter=name
        )
    return int(value)


def number(name: str, value: Any, least: float, most: float) -> float | None:
    """A number within bounds, or None for none.

    Raises:
        InvalidRequest: the value is no number, or out of bounds.
    """
    if value is None:
        return None
    if not _between(value, least, most):
        bounds = "" if most == MOST else f" from {least:g} to {most:g}"
        raise InvalidRequest(
            f"{name} is {shown(value)}, expected a number{bounds}, or None", parameter=name
        )
    return float(value)


def identifier_of(value: Any) -> str:
    """The identifier of one tool.

    Raises:
        InvalidRequest: no text, such as the tool itself.
    """
    if not isinstance(value, str):
        raise InvalidRequest(
            f"identifier is {shown(value)}, expected the text that `add` returned for the tool",
            parameter="identifier",
        )
    return value


def listed(parameter: str, value: Any, what: str) -> tuple[Any, ...]:
    """The entries of a list.

    Raises:
        InvalidRequest: a text alone, whose letters would be taken for entries, or no list.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        fix = f", as in [{value!r}]" if isinstance(value, str) else ""
        raise InvalidRequest(
            f"{parameter} is {shown(value)}, expected a list of {what}{fix}", parameter=parameter
        )
    return tuple(cast("Iterable[Any]", value))


def identifiers(exclude: Any) -> frozenset[str]:
    """Identifiers to leave out.

    Raises:
        InvalidRequest: a text alone, whose letters would be taken for identifiers, or no list.
    """
    given = listed("exclude", exclude, "identifiers")
    for one in given:
        if not isinstance(one, str):
            raise InvalidRequest(
                f"exclude holds {shown(one)}, expected identifiers", parameter="exclude"
            )
    return frozenset(given)


def handles_of(handles: Any) -> Mapping[str, Any]:
    """What runs the tools of a saved folder, by identifier; none without any.

    Raises:
        InvalidRequest: the value is no mapping.
    """
    if handles is not None and not isinstance(handles, Mapping):
        raise InvalidRequest(
            f"handles is {shown(handles)}, expected a callable by identifier", parameter="handles"
        )
    return cast("Mapping[str, Any]", handles or {})


def check_handles(handles: Mapping[str, Any], saved: Iterable[str]) -> None:
    """Refuse handles of tools that a saved folder does not have: they would never run.

    Raises:
        InvalidRequest: one or more, which it names.
    """
    unknown = handles.keys() - set(saved)
    if unknown:
        named = shown(sorted(map(str, unknown)))
        raise InvalidRequest(
            f"handles: no tool of the saved ones has the identifier of {named}",
            parameter="handles",
        )


def check_filters(filters: Any) -> None:
    """Refuse what narrows nothing.

    Raises:
        InvalidRequest: neither metadata nor a predicate, or `tags` that are no words.
    """
    if filters is None or callable(filters):
        return
    if not isinstance(filters, Mapping):
        raise InvalidRequest(
            f"filters is {shown(filters)}, expected metadata, as in {{'team': 'ops'}}, or a "
            "function of a tool",
            parameter="filters",
        )
    tags = cast("Mapping[Any, Any]", filters).get("tags", "")
    listed = isinstance(tags, list | tuple | set | frozenset)
    if not isinstance(tags, str) and not (
        listed and all(isinstance(tag, str) for tag in cast("Iterable[Any]", tags))
    ):
        raise InvalidRequest(
            f"filters: tags is {shown(tags)}, expected a tag or a list of tags", parameter="filters"
        )


def settings_of(
    ranker: Any, known: Iterable[str], tag_boosts: Any, diversity: Any
) -> RetrieverSettings:
    """How a memory searches.

    Args:
        ranker: a name.
        known: the names that there are.
        tag_boosts: factor by tag, or None.
        diversity: weight of relevance, or None.

    Raises:
        ConfigError: one of them cannot be used.
    """
    names = sorted(known)
    if ranker not in names:
        raise ConfigError(f"unknown ranker {shown(ranker)}; one of {', '.join(names)}")
    if diversity is not None and not (_between(diversity, 0, 1) and diversity > 0):
        raise ConfigError(
            f"diversity is {shown(diversity)}, expected a number above 0, at most 1, or None"
        )
    if tag_boosts is not None and not isinstance(tag_boosts, Mapping):
        raise ConfigError(f"tag_boosts is {shown(tag_boosts)}, expected a factor by tag")
    boosts = cast("Mapping[Any, Any]", tag_boosts or {})
    for tag, factor in boosts.items():
        if not isinstance(tag, str) or not (_between(factor, 0, MOST) and factor > 0):
            raise ConfigError(
                f"tag_boosts: {shown(tag)} is {shown(factor)}, expected a factor above 0 by tag"
            )
    return RetrieverSettings(
        ranker=ranker, rank=RankSettings(tag_boosts=boosts), diversity=diversity
    )


def _between(value: Any, least: float, most: float) -> bool:
    """Whether it is a number between these, both included."""
    number = not isinstance(value, bool) and isinstance(value, Real)
    return number and bool(least <= cast("Any", value) <= most)
