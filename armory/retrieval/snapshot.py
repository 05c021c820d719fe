"""One searchable state: the tools, their words and, where there are any, their vectors.

Owns: `Snapshot` and making one. Never imports an embedder, an index or a ranker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from armory.domain.tool import ToolRecord
from armory.retrieval.lexical.intents import read_names
from armory.retrieval.lexical.postings import Postings
from armory.retrieval.ports import IntArray, Row, VectorView
from armory.threads import let_go


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One searchable state; immutable but for its cache.

    Attributes:
        records: the tools; the position is the row.
        row_of: exposed name to row.
        postings: the words.
        view: the vectors; None without a dense side.
        dense: (n,) row of each tool in `view`, -1 where it has no vectors yet; None: the same rows.
        servers, categories: (n,) small codes, and the code of each name.
    """

    records: tuple[ToolRecord, ...]
    row_of: Mapping[str, int]
    postings: Postings
    view: VectorView | None
    dense: IntArray | None
    servers: tuple[IntArray, Mapping[str, int]]
    categories: tuple[IntArray, Mapping[str, int]]

    def __del__(self) -> None:
        let_go([*self.records])


def words_only(
    tools: Sequence[ToolRecord], postings: Postings, before: Snapshot | None = None
) -> Snapshot:
    """The tools with their words, rows in the same order, and without vectors.

    `before`: another state; what of it is the same is taken over.
    """
    records = tuple(tools)
    servers = categories = None
    if before is not None and before.postings.keys is postings.keys:  # the same tools, changed
        row_of = before.row_of
        pairs = zip(records, before.records, strict=True)
        others = [(tool, was) for tool, was in pairs if tool is not was]
        if all(tool.server == was.server for tool, was in others):
            servers = before.servers
        if all(tool.category == was.category for tool, was in others):
            categories = before.categories
    else:
        row_of = {tool.name: i for i, tool in enumerate(records)}
    if servers is None:
        servers = _codes([tool.server for tool in records])
        read_names(dict.fromkeys([*servers[1], *(tool.server_title for tool in records)]))
    if categories is None:
        categories = _codes([tool.category or "" for tool in records])
        read_names(categories[1])
    return Snapshot(records, row_of, postings, None, None, servers, categories)


def with_vectors(words: Snapshot, rows: Sequence[Row], view: VectorView) -> Snapshot:
    """The snapshot with a view that holds these rows, in the order of the records."""
    if len(rows) == len(words.records):
        return replace(words, view=view, dense=None)
    place = {row.key: i for i, row in enumerate(rows)}
    dense = np.array([place.get(tool.name, -1) for tool in words.records], np.int64)
    return replace(words, view=view, dense=dense)


def _codes(values: Sequence[str]) -> tuple[IntArray, dict[str, int]]:
    names = {name: code for code, name in enumerate(dict.fromkeys(values))}
    return np.fromiter(map(names.__getitem__, values), np.int64, len(values)), names
