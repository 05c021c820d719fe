"""Tools by what they are called: a name or a server's name as a query, and names that come near.

Owns: `ToolNames`, over one catalog. Never decides what may be seen: callers say among what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from difflib import SequenceMatcher, get_close_matches

from armory.domain.catalog import Catalog, replaced
from armory.domain.tool import ToolRecord

NEAREST = 5
_LONGEST = 100
_SHORTLIST = 64
_COMPARED = 500
"""Names that are compared letter by letter where none shares a word."""
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FILLERS = frozenset(("the", "mcp", "server", "servers", "tool", "tools", "use", "using", "with"))


#: Original name, title, server and its title.
_Face = tuple[str, str, str, str]


class ToolNames:
    """The names of one catalog.

    Args:
        catalog: the snapshot.
        before: the names of another one; what is called the same is not taken apart again.
    """

    def __init__(self, catalog: Catalog, before: ToolNames | None = None) -> None:
        self._records = catalog.tools
        others = None if before is None else replaced(before._records, self._records)
        if before is not None and others is not None:
            was = before._records
            if all(_face(self._records[name]) == _face(was[name]) for name in others):
                self._words, self._own = before._words, before._own
                self._tools, self._servers = before._tools, before._servers
                return
        self._words: dict[str, frozenset[str]] = {}
        #: What each tool is called, beside what it was made of.
        self._own: dict[str, tuple[_Face, frozenset[str]]] = {}
        self._tools: dict[str, list[str]] = {}
        self._servers: dict[str, list[str]] = {}
        servers: dict[tuple[str, str], set[str]] = {}
        for name, tool in self._records.items():
            face = _face(tool)
            known = None if before is None else before._own.get(name)
            if before is not None and known is not None and known[0] == face:
                words = before._words[name]
            else:
                found = _words(name)
                words = frozenset(found)
                own = {" ".join(found), _called(tool.original_name), _called(tool.title)}
                known = face, frozenset(own)
            self._words[name], self._own[name] = words, known
            for called in known[1]:
                self._tools.setdefault(called, []).append(name)
            server = tool.server, tool.server_title
            if server not in servers:
                servers[server] = {_called(tool.server), _called(tool.server_title)}
            for called in servers[server]:
                self._servers.setdefault(called, []).append(name)
        for called_so in (self._tools, self._servers):
            called_so.pop("", None)

    def called(self, text: str) -> dict[str, str]:
        """Tools whose own or whose server's name a text is, with why; own names first."""
        if len(text) > _LONGEST:
            return {}
        words = _words(text)
        found: dict[str, str] = {}
        for called in (" ".join(words), _without_fillers(words)):
            for name in self._tools.get(called, ()):
                found.setdefault(name, "its name is what was asked for")
        for name in self._servers.get(_without_fillers(words), ()):
            found.setdefault(name, "its server's name is what was asked for")
        return found

    def nearest(self, name: str, among: Set[str], also: Iterable[str] = ()) -> list[str]:
        """At most five of `among` that are called most like `name`, best first.

        Args:
            name: what was asked for.
            among: what the caller may see.
            also: names outside the catalog.
        """
        name = name[:_LONGEST]
        words = frozenset(_words(name))
        extra = list(also)
        if words:
            known = {**self._words, **{other: frozenset(_words(other)) for other in extra}}
            shared = [
                (len(words & own) / len(words | own), other)
                for other, own in known.items()
                if not words.isdisjoint(own) and (other in among or other in extra)
            ]
            if shared:
                shared.sort(key=lambda entry: -entry[0])
                likest = sorted(
                    ((share + _alike(name, other), other) for share, other in shared[:_SHORTLIST]),
                    key=lambda entry: -entry[0],
                )
                return [other for _, other in likest[:NEAREST]]
        few = [other for other in self._words if other in among][:_COMPARED]
        return get_close_matches(name, [*extra, *few], NEAREST, 0.5)


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()


def _face(tool: ToolRecord) -> _Face:
    return tool.original_name, tool.title, tool.server, tool.server_title


def _words(text: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", text[:_LONGEST]).lower())


def _called(text: str) -> str:
    return _without_fillers(_words(text))


def _without_fillers(words: list[str]) -> str:
    return " ".join([word for word in words if word not in _FILLERS] or words)
