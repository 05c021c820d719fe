"""The operations of a description as tools.

Owns: which of them are offered, their names, and why others are left out. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from typing import cast

from armory.openapi.document import BadDescription, Document, Object
from armory.openapi.names import tool_name
from armory.openapi.operation import Operation, read_operation

MAX_OPERATIONS = 2_000
MAX_PATHS = 50_000
_PATH_CHARS = 2_000
METHODS = ("get", "put", "post", "delete", "patch")


@dataclass(slots=True)
class Operations:
    """The operations of a description.

    Attributes:
        by_name: the operations that can be called.
        left_out: name and reason of each that cannot.
    """

    by_name: dict[str, Operation] = field(default_factory=dict[str, Operation])
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def read_operations(
    document: Document,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    base: str | None = None,
) -> Operations:
    """Read all operations that the patterns select; one that cannot be read is left out without
    affecting others.

    Args:
        document: the description.
        include: glob patterns of names, or of `METHOD /path`; none: all.
        exclude: likewise; wins.
        base: where the API is said to be by the configuration; None: where the description says.
    """
    found = Operations()
    places = frozenset(place.rstrip("/") for place in document.places(base))
    numbers: dict[str, int] = {}
    for path, method, item, operation in _each(document, found):
        name = tool_name(method, path, operation.get("operationId"), found.by_name, numbers)
        labels = (name, f"{method.upper()} {path}")
        if (include and not _any(labels, include)) or _any(labels, exclude):
            continue
        if len(found.by_name) >= MAX_OPERATIONS:
            found.left_out.append((name, f"there are more than {MAX_OPERATIONS:,} operations"))
            continue
        try:
            found.by_name[name] = read_operation(
                document, item, operation, places, name=name, method=method, path=path
            )
        except BadDescription as problem:
            found.left_out.append((name, str(problem)))
        except RecursionError:
            found.left_out.append((name, "it is nested too deeply"))
    return found


def _each(document: Document, found: Operations) -> Iterator[tuple[str, str, Object, Object]]:
    paths = cast("Object", document.content.get("paths") or {})
    if len(paths) > MAX_PATHS:
        found.left_out.append(("", f"there are more than {MAX_PATHS:,} paths"))
    for path, node in islice(paths.items(), MAX_PATHS):
        if path.startswith("x-"):
            continue
        try:
            if len(path) > _PATH_CHARS:
                raise BadDescription(f"its path has more than {_PATH_CHARS:,} characters")
            item = document.object_at(node, "its path item")
        except BadDescription as problem:
            found.left_out.append((path[:_PATH_CHARS], str(problem)))
            continue
        for method in METHODS:
            if method in item:
                try:
                    operation = document.object_at(item[method], "it")
                except BadDescription as problem:
                    found.left_out.append((f"{method.upper()} {path}", str(problem)))
                else:
                    yield path, method, item, operation


def _any(labels: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(label, pattern) for label in labels for pattern in patterns)
