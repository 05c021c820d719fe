"""Compares the HTTP headers of a modern request with its body.

Owns: the refusal of a header that is missing, doubled or says something else. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from armory.protocol.codes import HEADER_MISMATCH
from armory.protocol.errors import RpcError
from armory.protocol.headers import (
    METHOD_HEADER,
    NAME_HEADER,
    VERSION_HEADER,
    annotation_problem,
    declared_headers,
    header_text,
    rendered,
)
from armory.protocol.rawjson import NULL, brief, text_or_none, values_at

_ONCE = frozenset(name.lower() for name in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER))
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")


def repeated(headers: Mapping[str, str]) -> RpcError | None:
    """The error for a repeated header: two readers may see two values.

    Args:
        headers: with a length and items that count each line.
    """
    if len(set(map(str.lower, headers))) == len(headers):
        return None
    seen: set[str] = set()
    for name, _ in headers.items():  # noqa: PERF102 keys do not come twice
        key = name.lower()
        if key in seen:
            return RpcError(HEADER_MISMATCH, f"{key} header appears more than once")
        if key in _ONCE:
            seen.add(key)
    return None


def mismatch(
    headers: Mapping[str, str],
    version: Raw,
    method: str,
    named: str | None,
    params: Mapping[str, Raw],
) -> RpcError | None:
    """The error for the first header that does not match the body.

    Args:
        headers: case-insensitive.
        version: the revision in the body.
        method: the body's method.
        named: the parameter that `Mcp-Name` repeats for this method, or None.
        params: members of the body's params.
    """
    given = headers.get(VERSION_HEADER)
    if given is None or given != text_or_none(version):  # where the body says null, too
        return _refused(headers, VERSION_HEADER, "_meta's protocol version", version)
    if headers.get(METHOD_HEADER) != method:
        return _refused(headers, METHOD_HEADER, "method", method)
    name = params.get(named) if named is not None else None
    if name is not None and name != NULL:
        wanted = text_or_none(name)
        if wanted is None or header_text(headers.get(NAME_HEADER)) != wanted:
            return _refused(headers, NAME_HEADER, f"{named!r} parameter", name)
    return None


def _refused(headers: Mapping[str, str], header: str, part: str, wanted: object) -> RpcError:
    given = headers.get(header)
    state = "is missing" if given is None else f"is {brief(given)}"
    return RpcError(
        HEADER_MISMATCH,
        f"{header.lower()} header does not match the request body's {part}: it {state}; "
        f"expected {brief(wanted)}, as in the body",
    )


def param_refusal(
    schema: Mapping[str, Any], params: Mapping[str, Raw], headers: Mapping[str, str]
) -> RpcError | None:
    """The error for `Mcp-Param-*` headers that do not match the arguments; None when they do.

    Nothing is checked for a schema with invalid annotations: clients leave such a tool out.
    """
    if annotation_problem(schema) is not None:
        return None
    given: dict[str, list[str]] = {}
    for name, text in headers.items():
        given.setdefault(name.lower(), []).append(text)
    declared = declared_headers(schema)
    arguments = values_at(params.get("arguments"), (path for path, _ in declared.values()))
    for header, (path, kind) in declared.items():
        problem = _param_problem(given.get(header.lower(), ()), arguments.get(path), kind)
        if problem is not None:
            where = f"the argument {'.'.join(path)!r}"
            return RpcError(HEADER_MISMATCH, f"{header} header {problem.format(where)}")
    return None


def _param_problem(given: Sequence[str], argument: Any, kind: str) -> str | None:
    """What is wrong with one such header; the argument's name is to be inserted."""
    if len(given) > 1:
        return "appears more than once"
    text = rendered(argument)
    if text is None:
        return "is there, but {} has no value for it" if given else None
    if not given:
        return "is missing, but {} has a value"
    said = header_text(given[0])
    if said is None:
        return "holds no valid base64"
    return None if _same(said, text, argument, kind) else "does not match {}"


def _same(said: str, text: str, argument: Any, kind: str) -> bool:
    """Whether a header equals the argument; whole numbers are compared as numbers."""
    number = _DECIMAL.fullmatch(said) if kind == "integer" else None
    whole = isinstance(argument, int) or (isinstance(argument, float) and argument.is_integer())
    if number is None or isinstance(argument, bool) or not whole:
        return said == text
    try:
        return int(number[1]) == int(argument)
    except ValueError:  # more digits than Python reads
        return False
