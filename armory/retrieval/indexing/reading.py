"""Reads tools: their documents, terms and rows, once for each tool until it changes.

Owns: documents, the lexical index, the rows of tools. Never imports an embedder, an index, a ranker
or a writer of example queries.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence

from armory.domain.tool import ToolRecord
from armory.logger import Logger
from armory.retrieval.indexing.document import Document, document_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.options import Strategy
from armory.retrieval.ports import Row
from armory.retrieval.snapshot import Snapshot, words_only
from armory.retrieval.states import differing
from armory.threads import in_turn

_log = Logger(__name__)
Written = Callable[[ToolRecord], Sequence[str] | None]
_SLICE = 200
#: Seconds for which pure Python may keep other threads waiting, and for which it then pauses.
_TURN_S = 0.001
_ASIDE_S = 0.00005
#: Tools that may be removed, beyond the present number, before the lexical index is rebuilt: it
#: never forgets a word.
_GONE = 2_000
#: One in so many, where their words leave no room for new ones.
_SHARE = 4


class Reader:
    """The documents of a catalog. It has one owner, which reads one catalog after the other.

    Args:
        strategy: what of a tool is embedded.
        written: gives the example queries of a tool, None where they are still to be written;
            blocking. None: there are none, or those of templates under `synthetic_queries`.
    """

    def __init__(self, strategy: Strategy, written: Written | None = None) -> None:
        self._strategy: Strategy = strategy
        self._written = written
        self._lacking: dict[str, ToolRecord] = {}
        self._lexical = LexicalIndex()
        self._gone = 0
        self._documents: dict[str, tuple[ToolRecord, Document]] = {}
        self._examples: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, Row] = {}
        self._listed: tuple[Sequence[ToolRecord], list[Row]] = (), []
        self._tools: Sequence[ToolRecord] = ()  # all of which were read
        self._words: Snapshot | None = None

    def document(self, name: str) -> Document:
        """The document of a tool that was read.

        Raises:
            KeyError: the tool was not read.
        """
        return self._documents[name][1]

    @property
    def lacking(self) -> Sequence[ToolRecord]:
        """Tools whose example queries were not there when they were read."""
        return tuple(self._lacking.values())

    def examples(self, tool: ToolRecord) -> tuple[str, ...]:
        """The queries that were written for a tool; none for one that was not read so."""
        read = self._documents.get(tool.name)
        return self._examples.get(tool.name, ()) if read is not None and read[0] == tool else ()

    async def read(self, tools: Sequence[ToolRecord], go_on: Callable[[], None]) -> Snapshot:
        """The tools with their words and without vectors; documents of what is new.

        In slices, so that the loop and other threads get a turn; `go_on` is called before each,
        and after the last.
        """
        before, self._tools = self._tools, ()
        complete = not self._lexical.left_out
        fresh = await in_turn(self._fresh, tools, before)
        queries: Mapping[str, Sequence[str]] = {}
        if self._written is not None:
            fresh, queries = await in_turn(self._with_queries, fresh, self._written)
        for start in range(0, len(fresh), _SLICE):
            go_on()
            part = fresh[start : start + _SLICE]
            await in_turn(self._read_slice, part, queries)
        if complete and self._lexical.left_out:
            _log.warning(
                "words_left_out",
                tools=len(tools),
                hint="definitions have more different words than are told apart; further ones are "
                "not searched for",
            )
        self._tools = tuple(tools)
        go_on()
        return await in_turn(self._snapshot)

    def rows(self, identity: str) -> list[Row]:
        """Of all tools of the last catalog, in order, for the embedder of that identity."""
        known, tools = self._rows, self._tools
        before, rows = self._listed
        places = differing(tools, before)
        if places is None:
            rows = [known.get(tool.name) or self._row(identity, tool) for tool in tools]
        else:  # most are the very rows that they were
            rows = rows.copy()
            for i in places:
                rows[i] = known.get(tools[i].name) or self._row(identity, tools[i])
        self._listed = tools, rows
        return rows

    def _snapshot(self) -> Snapshot:
        before = self._words
        names = None if before is None else before.postings.keys
        if before is None or not _named_so(self._tools, before.records):
            names = tuple(tool.name for tool in self._tools)
        self._words = words_only(self._tools, self._lexical.freeze(names), before)
        return self._words

    def _fresh(self, tools: Sequence[ToolRecord], before: Sequence[ToolRecord]) -> list[ToolRecord]:
        """Those that have to be read; what is gone is forgotten."""
        places = differing(tools, before)
        if places is None or any(tools[i].name != before[i].name for i in places):
            self._forget_all_but(tools)
            places = None
        full = self._lexical.full and self._gone > len(tools) // _SHARE
        if full or self._gone > len(tools) + _GONE:
            self._gone, self._lexical, self._words = 0, LexicalIndex(), None
            self._listed = (), []  # example queries may be others than they were
            return list(tools)
        read, unread = self._documents, (None, None)
        asked = tools if places is None else [tools[i] for i in places]
        return [  # most are the very objects that were read: no field of them is looked at
            tool
            for tool in asked
            if (known := read.get(tool.name, unread)[0]) is not tool and _differs(known, tool)
        ]

    def _with_queries(
        self, fresh: list[ToolRecord], written: Written
    ) -> tuple[list[ToolRecord], dict[str, Sequence[str]]]:
        """What has to be read, with tools whose queries came since, and the queries by name."""
        found = {tool.name: texts for tool in fresh if (texts := written(tool)) is not None}
        named = {tool.name for tool in fresh}
        late: list[ToolRecord] = []
        for name, tool in self._lacking.items():
            if name not in named and (texts := written(tool)) is not None:
                found[name] = texts
                late.append(tool)
        if late:
            self._listed = (), []  # their rows are others, though the tools are the same
        return [*fresh, *late], found

    def _forget_all_but(self, tools: Sequence[ToolRecord]) -> None:
        if len(self._documents) == sum(tool.name in self._documents for tool in tools):
            return  # a set of 100,000 names would keep other threads waiting while it grows
        named = {tool.name for tool in tools}
        for name in [name for name in self._documents if name not in named]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        del self._documents[name]
        self._rows.pop(name, None)
        self._examples.pop(name, None)
        self._lacking.pop(name, None)
        self._lexical.remove(name)
        self._gone += 1

    def _read_slice(
        self, tools: Sequence[ToolRecord], queries: Mapping[str, Sequence[str]]
    ) -> None:
        began = time.monotonic()
        for tool in tools:
            if time.monotonic() - began > _TURN_S:
                time.sleep(_ASIDE_S)
                began = time.monotonic()
            made = queries.get(tool.name, ())
            strategy: Strategy = "synthetic_queries" if made else self._strategy
            document = document_of(tool, strategy, made)
            before = self._documents.get(tool.name)
            self._documents[tool.name] = (tool, document)
            self._examples.pop(tool.name, None)
            if made:
                self._examples[tool.name] = tuple(made)
            self._lacking.pop(tool.name, None)
            if self._written is not None and tool.name not in queries:
                self._lacking[tool.name] = tool
            self._rows.pop(tool.name, None)
            known = tool.name in self._lexical
            if not known or before is None or before[1].fields != document.fields:
                self._lexical.add(tool.name, document.fields)
                self._gone += known

    def _row(self, identity: str, tool: ToolRecord) -> Row:
        texts = self._documents[tool.name][1].texts
        joined = "\0".join((identity, *texts)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(joined).hexdigest()
        self._rows[tool.name] = row = Row(tool.name, digest, tool.server, tool.category or "")
        return row


def _named_so(now: Sequence[ToolRecord], before: Sequence[ToolRecord]) -> bool:
    """Whether the tools have the names that they had, in the same order."""
    places = differing(now, before)
    return places is not None and all(now[i].name == before[i].name for i in places)


def _differs(known: ToolRecord | None, tool: ToolRecord) -> bool:
    return known is None or known != tool or known.server_about != tool.server_about
