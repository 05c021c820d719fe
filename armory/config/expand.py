"""`${VAR}`, `${VAR:-default}` and `${env:VAR}` in texts.

Owns: the expansion of variables, and what their values lose and gain on the way: the newline that
files end with, the encoding that a URL asks of a password. Never imports a room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from armory.config.problems import Path

_REFERENCE = re.compile(
    r"\$(?P<escaped>\$\{)|\$\{(?P<kind>env:|input:)?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"
    r"(?P<rest>:-(?P<default>(?:[^{}]|\{[^{}]*\})*))?\}"
)
_BARE = re.compile(r"(?:[A-Za-z]++ )?\$[A-Za-z_]\w*+")
"""`$NAME` alone, or behind the scheme of a header, as shells and other clients write it."""
PRINCIPAL = "principal"
_TEMPLATES = (("args",), ("env",), ("headers",), ("cwd",))
"""Keys of an upstream in which it is left for later."""
_URLS = (("storage", "url"), ("storage", "redis"))
"""Where a variable may stand for a password inside a URL."""
_RESERVED = re.compile(r"[/?#@\[\]\s]|%(?![0-9A-Fa-f]{2})")
_USER_INFO = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<user_info>[^/?#]*)@")


class Missing(Exception):
    """A variable that is not set and has no default."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def expand(
    text: str,
    variables: Mapping[str, str],
    *,
    keep_principal: bool,
    verbatim: bool,
    url: bool = False,
) -> str:
    """`text` with its variables filled in.

    `$${` stands for a literal `${`. An empty variable counts as unset where a default is given; a
    default may hold one more variable.
    Newlines at a value's end are dropped: secrets that come from files have one.

    Args:
        text: may hold any number of references.
        variables: what is known, environment included.
        keep_principal: whether `${principal}` is left for later.
        verbatim: whether values keep such newlines.
        url: whether a value that stands before the `@` of a URL is percent-encoded where it holds
            what could not stand there otherwise.

    Raises:
        Missing: a variable is not set.
    """
    user_info = _user_info(text) if url else range(0)

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
            value = expand(default, variables, keep_principal=keep_principal, verbatim=verbatim)
        if value is None and name == PRINCIPAL:
            raise Missing(
                "${principal}, the caller, is filled in in 'args', 'env', 'headers' and 'cwd' of "
                "an upstream, and not here"
            )
        if value is None:
            raise Missing(f"the variable {name} is not set; set it, or {_default_of(name)}")
        if not verbatim:
            value = value.rstrip("\r\n")
        if match.start() in user_info and _RESERVED.search(value):
            return quote(value, safe=":")
        return value

    return _REFERENCE.sub(fill, text)


def _default_of(name: str) -> str:
    """How a default is given; shells take a hyphen alone, which may stand in a name here."""
    first, hyphen, rest = name.partition("-")
    if hyphen:
        return f"write ${{{first}:-{rest}}} if {rest!r} is to be the default of {first}"
    return f"give a default: ${{{name}:-...}}"


def referred(text: str) -> frozenset[str]:
    """The names of the variables that a text refers to, those in defaults included."""
    names: set[str] = set()
    for match in _REFERENCE.finditer(text):
        if match["name"]:
            names.add(match["name"])
        if match["default"]:
            names |= referred(match["default"])
    return frozenset(names)


def taken_as_text(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """(path, what to write) of texts that look like a reference and are none.

    They are not quoted: one may be a password after all. In `args` they have a meaning for shells.
    """
    if path[:1] == ("upstreams",) and path[2:3] == ("args",):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from taken_as_text(inner, (*path, str(key)))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from taken_as_text(inner, (*path, position))
    elif not isinstance(value, str):
        return
    elif "${" in _REFERENCE.sub("", value):
        yield (
            path,
            "a '${' in it begins no reference and is taken as it stands; write ${NAME} or "
            "${NAME:-default}, or $${ if it is meant so",
        )
    elif _BARE.fullmatch(value) is not None:
        yield path, "a $NAME is taken as it stands; write ${NAME} if the variable is meant"


def _user_info(text: str) -> range:
    """Where user and password stand in a URL whose variables are not filled in yet."""
    found = _USER_INFO.match(_REFERENCE.sub(lambda match: "x" * len(match[0]), text))
    return range(0) if found is None else range(*found.span("user_info"))


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
            return expand(
                value,
                variables,
                keep_principal=path[:1] == ("upstreams",) and path[2:3] in _TEMPLATES,
                verbatim=path[:1] == ("upstreams",) and path[2:3] == ("env",),
                url=path in _URLS,
            )
        except Missing as error:
            missing[path] = error.message
    return value
