"""Labelled sets among the pool's tools, so that what is learned holds for large catalogs.

A set of its own tools and 500, 2,000, 5,000 and 15,000 of the pool's (all that there are, for the
last) is `toole among 15000`. The pool's tools are drawn differently for each set, and the sizes
hold each other. Near-copies of wanted tools are left out: they would count as wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.indexing.document import document_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from training.data import split_name
from training.relevance.sets import (
    Array,
    CachedModel,
    Catalog,
    Question,
    read_questions,
    record_of,
    rows_of,
)
from training.relevance.written import POOL, held_queries, server_of

SIZES = (500, 2000, 5000, 15000)
#: Cosine of two descriptions, by the untouched base, from which one is a copy of the other.
_NEAR = 0.85
#: A description of fewer words says too little to tell copies by it.
_LEAST_WORDS = 4
_MARK = " among "


def plain_name(name: str) -> str:
    """The set's own name: `toole among 500` -> `toole`."""
    return name.partition(_MARK)[0]


def size_of(name: str) -> int:
    """How many of the pool's tools stand beside the set's own."""
    return int(name.partition(_MARK)[2] or 0)


@dataclass(frozen=True)
class Mixed:
    """A set's tools, then the pool's in the order in which they join; and what is asked."""

    name: str
    own: int
    records: tuple[ToolRecord, ...]
    questions: tuple[Question, ...]


def mixed(root: Path, name: str, base: CachedModel, cap: int) -> Mixed:
    """A labelled set, or a half of the written queries (`written-x`), and the pool behind it.

    Args:
        root: the labelled sets.
        name: of the set.
        base: tells copies.
        cap: queries at most.
    """
    rows = rows_of(root / POOL / "tools.jsonl")
    pool = [(replace(record_of(row), name=f"{POOL}:{row['id']}"), server_of(row)) for row in rows]
    if name.startswith("written-"):
        asked = held_queries(rows)[name.removeprefix("written-")]
        asked = asked[:: max(1, -(-len(asked) // cap))]
        servers = {server for _, _, theirs in asked for server in theirs}
        own = [record for record, server in pool if server in servers]
        rest = [record for record, server in pool if server not in servers]
        place = {record.name: i for i, record in enumerate(own)}
        questions = [
            Question(f"{name}:{i}", text, frozenset(place[f"{POOL}:{t}"] for t in ids))
            for i, (text, ids, _) in enumerate(asked)
        ]
    else:
        own = [record_of(row) for row in rows_of(root / name / "tools.jsonl")]
        rest = [record for record, _ in pool]
        place = {record.name: i for i, record in enumerate(own)}
        questions = [q for q in read_questions(root, name, place, cap) if q.relevant]
    theirs, others = _described(base, own), _described(base, rest)
    if name.startswith("written-"):  # the pool holds copies of what is wanted: they are as right
        alike = theirs @ theirs.T > _NEAR
        questions = [
            replace(
                q, relevant=frozenset(np.flatnonzero(alike[sorted(q.relevant)].any(0)).tolist())
            )
            for q in questions
        ]
    wanted = sorted({i for q in questions for i in q.relevant})
    said = {_said(own[i]) for i in wanted}
    copies = (others @ theirs[wanted].T > _NEAR).any(1)
    rest = [r for r, copy in zip(rest, copies, strict=True) if not copy and _said(r) not in said]
    random.Random(f"among {name}").shuffle(rest)
    return Mixed(name, len(own), (*own, *rest), tuple(questions))


def catalogs(
    source: Mixed, embed: CachedModel, sizes: Sequence[int] = (0, *SIZES)
) -> Iterator[Catalog]:
    """The set among so many of the pool's tools each."""
    documents = [document_of(record) for record in source.records]
    lexical = LexicalIndex()
    vectors = embed([text for document in documents for text in document.texts])
    counts = np.array([len(document.texts) for document in documents])
    starts: NDArray[np.int64] = np.cumsum(counts) - counts
    done = 0
    for size in sorted(sizes):
        end = min(source.own + size, len(source.records))
        for record, document in zip(source.records[done:end], documents[done:end], strict=True):
            lexical.add(record.name, document.fields)
        done = end
        name = f"{source.name}{_MARK}{size}" if size else source.name
        most = int(starts[end - 1] + counts[end - 1])
        yield Catalog(name, source.records[:end], lexical.freeze(), vectors[:most], starts[:end])


def _described(base: CachedModel, records: Sequence[ToolRecord]) -> Array:
    return base([document_of(record).texts[0] for record in records])


def _said(record: ToolRecord) -> tuple[str, str]:
    """What two tools that are the same have in common."""
    text = " ".join(record.description.lower().split())
    if len(text.split()) < _LEAST_WORDS:
        return record.name, ""
    return split_name(record.original_name), text
