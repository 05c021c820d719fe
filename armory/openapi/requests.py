"""Builds the HTTP request of a tool call.

Owns: where each argument goes, and rejecting paths that lead elsewhere. Invalid arguments are
rejected before anything is sent. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from armory.openapi.bodies import body_of
from armory.openapi.operation import Operation
from armory.openapi.styles import BadArguments, in_cookie, in_header, in_path, in_query

_DECODED = 5
"""How often servers and proxies may decode a path on its way."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The request to send.

    Attributes:
        method: HTTP method.
        target: path and query below the base URL, encoded.
        headers: of this call alone.
        body: or None.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


def request_for(operation: Operation, arguments: Mapping[str, Any]) -> HttpRequest:
    """Build the request of one call.

    Raises:
        BadArguments: one is missing, is not known, or cannot be written where it belongs.
    """
    _check(operation, arguments)
    path, query = _literal(operation.path), list[str]()
    headers, cookies = dict[str, str](), list[str]()
    for parameter in operation.parameters:
        value = arguments.get(parameter.argument)
        if value is None:
            continue
        if parameter.place == "path":
            path = path.replace(_literal(f"{{{parameter.name}}}"), in_path(parameter, value))
        elif parameter.place == "query":
            query += in_query(parameter, value)
        elif parameter.place == "header":
            headers[parameter.name] = in_header(parameter, value)
        else:
            cookies += in_cookie(parameter, value)
    if _leaves(path):
        raise BadArguments(
            "a path parameter has a part that is '.' or '..', which would lead to another path"
        )
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    body = None
    if operation.body is not None and arguments.get(operation.body.argument) is not None:
        kind, body = body_of(operation.body, arguments[operation.body.argument])
        headers["Content-Type"] = kind
    target = path + (f"?{'&'.join(query)}" if query else "")
    return HttpRequest(operation.method, target, headers, body)


def _leaves(path: str) -> bool:
    """Whether a server might read a path as a different one: some servers decode before they split,
    some decode twice (after a proxy), some treat backslashes as slashes, and some drop what follows
    a semicolon.
    """
    for _ in range(_DECODED):
        path, encoded = unquote(path), path
        if path == encoded:
            break
    parts = path.replace("\\", "/").split("/")
    return any(part.partition(";")[0] in (".", "..") for part in parts)


def _literal(template: str) -> str:
    return quote(template, safe="/{}:@!$&'()*+,;=~%")


def _check(operation: Operation, arguments: Mapping[str, Any]) -> None:
    known = {parameter.argument for parameter in operation.parameters}
    if operation.body is not None:
        known.add(operation.body.argument)
    unknown = sorted(arguments.keys() - known)
    if unknown:
        takes = ", ".join(sorted(known)) or "no arguments"
        raise BadArguments(f"there is no argument {unknown[0][:80]!r}; it takes {takes}")
    missing = sorted(name for name in operation.required if arguments.get(name) is None)
    if missing:
        raise BadArguments(f"the argument {missing[0]!r} is missing")
