"""Finds tools by name: exact names of tools and servers as queries, and similar names.

Owns: `ToolNames`, over one catalog. Never decides what may be seen: callers say among what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from sys import intern

from armory.domain.catalog import Catalog, replaced, same_order
from armory.domain.tool import ToolRecord
from armory.threads import copied, let_go

NEAREST = 5
_LONGEST = 100
_LEAST = 5
"""Shortest name that may stand for a longer one."""
_ENDINGS = ("sql", "ql", "db", "js", "io", "ai", "hq", "app", "api")
"""Endings that product names have or leave off."""
_SHORTLIST = 64
_FEW = 500
"""Changed tools up to which the tables before are updated instead of being made again."""
_COMPARED = 500
"""Names that are compared letter by letter where none shares a word."""
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FILLERS = frozenset(("the", "mcp", "server", "servers", "tool", "tools", "use", "using", "with"))


@dataclass(frozen=True, slots=True, eq=False)
class _ToolWords:
    """The words of one tool: of its name, its title and its server's title, none twice.

    Tuples, since a set takes 216 bytes; equal words are shared. That saves 60 MB at 100,000 tools.
    """

    tool: ToolRecord
    words: tuple[str, ...]
    own: tuple[str, ...]
    server: tuple[str, ...]

    @classmethod
    def of(cls, name: str, tool: ToolRecord) -> _ToolWords:
        words = _words(name)
        called, title = (_called(text[:_LONGEST]) for text in (tool.original_name, tool.title))
        own = tuple(dict.fromkeys(filter(None, (" ".join(words), called, title))))
        words = dict.fromkeys(map(intern, words))
        return cls(
            tool, tuple(words), own, _server_called(tool.server, tool.server_title[:_LONGEST])
        )


class ToolNames:
    """The names of one catalog.

    Args:
        catalog: the snapshot.
        before: the names of another one; what is called the same is not taken apart again.
    """

    def __init__(self, catalog: Catalog, before: ToolNames | None = None) -> None:
        self._records = records = catalog.tools
        known = {} if before is None else before._known
        others = None if before is None else replaced(before._records, records)
        self._known: dict[str, _ToolWords] = {} if others is None else copied(known)
        fresh = self._read(known, records if others is None else others)
        gone = _gone(known, records, fresh) if others is None else fresh
        self._tools: dict[str, list[str]] = {}
        self._servers: dict[str, list[str]] = {}
        if before is None or gone is None or len(gone) + len(fresh) > _FEW:
            for name, one in self._known.items():
                _enter(self._tools, one.own, name)
                _enter(self._servers, one.server, name)
        else:
            self._tools, self._servers = copied(before._tools), copied(before._servers)
            self._exchange(known, gone, fresh)

    def __del__(self) -> None:
        # Perhaps the last to hold the snapshot's tools: they are freed beside the event loop.
        for table in (self._known, self._tools, self._servers):
            let_go(table)

    def are_of(self, catalog: Catalog) -> bool:
        """Whether these are the names of a catalog, whichever version of it."""
        return self._records is catalog.tools

    def _read(self, known: Mapping[str, _ToolWords], names: Iterable[str]) -> list[str]:
        """Add the tools of these names, reusing known words; returns the names whose words are new
        or differ.
        """
        fresh: list[str] = []
        for name in names:
            was, tool = known.get(name), self._records[name]
            if was is None or (was.tool is not tool and _titles(was.tool) != _titles(tool)):
                was = _ToolWords.of(name, tool)
                fresh.append(name)
            elif was.tool is not tool:
                was = _ToolWords(tool, was.words, was.own, was.server)
            self._known[name] = was
        return fresh

    def _exchange(self, known: Mapping[str, _ToolWords], gone: list[str], fresh: list[str]) -> None:
        """Remove names and insert others at their place in the catalog."""
        if not gone and not fresh:
            return
        place = {name: number for number, name in enumerate(self._known)}
        out = frozenset(gone)
        for table, of in ((self._tools, "own"), (self._servers, "server")):
            added: dict[str, list[str]] = {}
            touched = {called for name in gone for called in getattr(known[name], of)}
            for name in fresh:
                for called in getattr(self._known[name], of):
                    added.setdefault(called, []).append(name)
            for called in touched | added.keys():
                names = [name for name in table.get(called, ()) if name not in out]
                names = sorted([*names, *added.get(called, ())], key=place.__getitem__)
                if names:
                    table[called] = names
                else:
                    table.pop(called, None)

    def called(self, text: str) -> dict[str, str]:
        """Tools whose own or whose server's name a text is, with the reason; own names first."""
        if len(text) > _LONGEST:
            return {}
        read = (_words(text), _plain(text))
        found: dict[str, str] = {}
        for words in read:
            for called in (" ".join(words), _without_fillers(words)):
                for name in self._tools.get(called, ()):
                    found.setdefault(name, "its name is what was asked for")
        for words in read:
            for name in self._servers.get(_without_fillers(words), ()):
                found.setdefault(name, "its server's name is what was asked for")
        return found or self._nearly(_without_fillers(read[-1]))

    def _nearly(self, word: str) -> dict[str, str]:
        """Tools of servers whose name differs only by a common ending of product names (PostgreSQL,
        postgres).
        """
        names = [word + ending for ending in _ENDINGS] if len(word) >= _LEAST else []
        names += [
            word.removesuffix(ending)
            for ending in _ENDINGS
            if word.endswith(ending) and len(word) - len(ending) >= _LEAST
        ]
        why = "its server's name is nearly what was asked for"
        return {tool: why for name in names for tool in self._servers.get(name, ())}

    def nearest(self, name: str, among: Set[str], also: Iterable[str] = ()) -> list[str]:
        """At most five of `among` with the most similar names, best first.

        Args:
            name: what was asked for.
            among: what the caller may see.
            also: names outside the catalog.
        """
        name = name[:_LONGEST]
        words = frozenset(_words(name))
        extra = list(also)
        if words:
            known = {own: one.words for own, one in self._known.items()}
            known |= {other: tuple(_words(other)) for other in extra}
            shared = [
                (len(words.intersection(own)) / len(words.union(own)), other)
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
        few = [other for other in self._known if other in among][:_COMPARED]
        return get_close_matches(name, [*extra, *few], NEAREST, 0.5)


def _gone(
    known: Mapping[str, _ToolWords], records: Mapping[str, ToolRecord], fresh: Iterable[str]
) -> list[str] | None:
    """The known names that do not hold any more; None: the rest is in another order."""
    stay, were = [n for n in records if n in known], [n for n in known if n in records]
    if not same_order(stay, were):
        return None
    again = frozenset(name for name in fresh if name in known)
    return [name for name in known if name not in records or name in again]


def _enter(table: dict[str, list[str]], called: Iterable[str], name: str) -> None:
    for text in called:
        names = table.get(text)
        if names is None:
            table[text] = [name]  # an empty one that grows would have room for four
        else:
            names.append(name)


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()


def _titles(tool: ToolRecord) -> tuple[str, str, str, str]:
    """All texts that `_ToolWords` depends on."""
    return tool.original_name, tool.title, tool.server, tool.server_title


def _words(text: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", text[:_LONGEST]).lower())


def _plain(text: str) -> list[str]:
    """The words, without splitting at capitals: GitHub is one word."""
    return _WORD.findall(text[:_LONGEST].lower())


@lru_cache(maxsize=1_000)
def _called(text: str) -> str:
    return _without_fillers(_words(text))


@lru_cache(maxsize=1_000)
def _server_called(server: str, title: str) -> tuple[str, ...]:
    called = (_called(server), _called(title), _without_fillers(_plain(title)))
    return tuple(dict.fromkeys(filter(None, called)))


def _without_fillers(words: list[str]) -> str:
    return " ".join([word for word in words if word not in _FILLERS] or words)
