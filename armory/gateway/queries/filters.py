"""`params.filter` of a list request (draft SEP-2564): names and URIs by pattern, vendor keys.

Owns: reading it, matching patterns, and the capability that announces it. Only where
`server.experimental` has `filter`. Never imports a transport.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from typing import Any, cast

import msgspec
from msgspec import Raw

from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.meta import OWN_PREFIX
from armory.protocol.rawjson import members, need_value
from armory.protocol.scanning.values import at_once
from armory.threads import steps_for_callers

FILTER = "filter"
MAX_PATTERNS = 64
MAX_PATTERN_CHARS = 256
_TEXT_CHARS = 8_192
"""Longest name or URI that can match a pattern: nothing else runs while one is matched."""
_LITTLE = 50_000
"""Characters of patterns, times names, that are matched at once; more of them in a thread."""
_PIECE = 500
_NAMES, _URIS = "namePatterns", "uriPatterns"
CARRIED = (
    "query", "threshold", "top_k", "servers", "categories", "ranker", "hour", "last_tool",
)  # fmt: skip
"""Keys of `_meta`, without their prefix, that count in the filter of a list of tools as well."""
_SUPPORTED: Mapping[str, tuple[str, ...]] = {
    "tools": (_NAMES, *(OWN_PREFIX + name for name in CARRIED)),
    "prompts": (_NAMES,),
    "resources": (_NAMES, _URIS),
}


@dataclass(frozen=True)
class Patterns:
    """Glob patterns, of which one must match. Case-sensitive; `*`, `?` and `[…]` are special. Many
    texts are matched in slices beside other requests.

    Attributes:
        texts: at least one.
    """

    texts: tuple[str, ...]

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.texts)))

    async def among(self, names: Collection[str]) -> frozenset[str]:
        """The names that match."""
        steps = self._matching(tuple(names))
        if sum(map(len, self.texts)) * (1 + len(names)) <= _LITTLE:
            return at_once(steps)
        return await steps_for_callers(steps)

    def _matching(self, names: tuple[str, ...]) -> Generator[None, None, frozenset[str]]:
        match, found = self._any.match, set[str]()
        for first in range(0, len(names), _PIECE):
            if first:
                yield
            some = names[first : first + _PIECE]
            found.update(name for name in some if len(name) <= _TEXT_CHARS and match(name))
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class ListFilter:
    """The `filter` of a list request; all of its members must match.

    Attributes:
        names: patterns of names; None: any name.
        uris: patterns of URIs; None: any URI.
        vendor: every member whose name has a prefix, unread.
    """

    names: Patterns | None = None
    uris: Patterns | None = None
    vendor: Mapping[str, Raw] = field(default_factory=dict[str, Raw])


NOTHING = ListFilter()


def read_filter(params: Mapping[str, Raw], experimental: frozenset[str]) -> ListFilter:
    """The filter of a list request; unknown members are ignored.

    Raises:
        RpcError: it is no object, or its patterns are not some strings of 256 characters at most.
    """
    raw = params.get(FILTER)
    if raw is None or FILTER not in experimental or bytes(memoryview(raw)) == b"null":
        return NOTHING
    try:
        given = members(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _bad(FILTER, "an object") from None
    vendor = {key: member for key, member in given.items() if "/" in key}
    return ListFilter(_patterns(given, _NAMES), _patterns(given, _URIS), vendor)


def with_filtering(capabilities: dict[str, Any], experimental: frozenset[str]) -> None:
    """Capabilities that also announce which members of a filter are supported."""
    if FILTER not in experimental:
        return
    for kind, supported in _SUPPORTED.items():
        if kind in capabilities:
            capabilities[kind] = {
                **capabilities[kind],
                "filtering": {"supported": list(supported)},
            }


def _patterns(given: Mapping[str, Raw], name: str) -> Patterns | None:
    raw = given.get(name)
    found = None if raw is None else need_value(raw, f"params.{FILTER}.{name}")
    if found is None or found == []:
        return None
    texts: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [None]
    if len(texts) > MAX_PATTERNS or not all(
        isinstance(text, str) and 1 <= len(text) <= MAX_PATTERN_CHARS for text in texts
    ):
        raise _bad(
            f"{FILTER}.{name}",
            f"a list of at most {MAX_PATTERNS} glob patterns, each a string of 1 to "
            f"{MAX_PATTERN_CHARS} characters",
        )
    if any("[" in text and not text.isascii() for text in texts):
        raise _bad(f"{FILTER}.{name}", "patterns with `[...]` in ASCII alone")
    return Patterns(tuple(texts))


def _bad(where: str, expected: str) -> RpcError:
    where = f"params.{where}"
    return RpcError(INVALID_PARAMS, f"{where} is not as expected: {expected}", {"parameter": where})
