"""The features of a query for rankers: its subqueries, scored over the same candidate tools.

Owns: `Subquery`, `CandidateFeatures` and the statistics that stand beside them. Never imports an
embedder, an index or a ranker.

A query has *subqueries*: each text that the caller sent, and each clause of it. The candidates may
be a few of the visible tools; whatever a formula needs to know of all of them is a value of its
own (`visible`, `Moments`, the document frequencies in `postings`), so that its result does not
depend on how many candidates an index returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.lexical.postings import Postings, TermHits
from armory.retrieval.ports import FloatArray, IntArray, UsageSource


class Moments(NamedTuple):
    """Mean and standard deviation of a score over all visible tools, not over the candidates."""

    mean: float
    std: float


NO_MOMENTS = Moments(0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Subquery:
    """One text to search for.

    Attributes:
        text: a text of the query, or a clause of one.
        parent: position of the text that it is or belongs to, among those searched for.
        whole: whether it is the caller's whole text, not a clause.
        cosine: (c,) best cosine of each candidate; None: no dense side.
        cosine_moments: of the best cosine, over the visible tools.
        bm25: (c,) BM25F over all fields, at least 0.
        bm25_moments: of the same, over the visible tools.
        hits: the same words as pairs, for `CandidateFeatures.postings.fields`; its rows are those
            of the snapshot.
        used: (c,) best cosine with a past query that led to this tool, 0 without one; None: no
            memory of use.
        past: (c,) how like the queries that led to this tool the text is, in standard scores
            against other tools' queries, 0 without any; None: no memory of use.
        vector: (d,) of the text, of unit length; None: no dense side.
    """

    text: str
    parent: int
    whole: bool
    cosine: FloatArray | None
    cosine_moments: Moments
    bm25: FloatArray
    bm25_moments: Moments
    hits: TermHits
    used: FloatArray | None = None
    past: FloatArray | None = None
    vector: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CandidateFeatures:
    """All features of one query over its candidate tools.

    Attributes:
        subqueries: the whole texts first in the caller's order, then clauses; empty only where
            nothing could be searched.
        records: (c,) the candidate tools.
        rows: (c,) their rows in the snapshot, ascending.
        postings: the words of the whole snapshot, its document frequencies among them:
            `postings.keyword(subquery.text)[rows]`, `postings.fields(subquery.hits, rows)`.
        visible: number of tools searched (>= c).
        embedder: identity of the embedder, "" without dense side.
        uses: (c,) float32, how many past uses stand behind `Subquery.used`; None: no memory of use.
        usage: statistics of calls, asked only for the tools that a ranker looks at; None: unknown.
        user, hour, last_tool: context of the query, see `Query`.
        servers: (c,) a number for the server of each candidate, its own for a tool of none; None:
            not known, or not every visible tool is a candidate.
        searched: ascending rows that were searched; None: all of the snapshot.
        sample: the same of tools that stand for all visible ones; None: the candidates are all.
        implied: what the query asks for besides without saying it, see `lexical.implied`.
    """

    subqueries: Sequence[Subquery]
    records: Sequence[ToolRecord]
    rows: IntArray
    postings: Postings
    visible: int
    embedder: str
    uses: FloatArray | None = None
    usage: UsageSource | None = None
    user: str | None = None
    hour: int | None = None
    last_tool: str | None = None
    servers: IntArray | None = None
    searched: IntArray | None = None
    sample: CandidateFeatures | None = None
    implied: Sequence[Subquery] = ()

    @property
    def dense(self) -> bool:
        """Whether the subqueries carry cosines."""
        return bool(self.subqueries) and self.subqueries[0].cosine is not None

    @property
    def whole(self) -> list[Subquery]:
        """The caller's own texts."""
        return [subquery for subquery in self.subqueries if subquery.whole]

    @property
    def cosine(self) -> FloatArray | None:
        """(c,) best cosine of each candidate over the caller's texts; None: no dense side."""
        return best_cosine(self.whole)

    @property
    def worded(self) -> NDArray[np.bool_]:
        """(c,) whether each candidate has a word of the query, or of what it implies."""
        return np.any([text.bm25 > 0 for text in (*self.whole, *self.implied)], axis=0)


def moments_of(values: FloatArray) -> Moments:
    """Mean and deviation of a score of many tools."""
    return Moments(float(values.mean()), float(values.std()))


def best_cosine(subqueries: Sequence[Subquery]) -> FloatArray | None:
    """(c,) the greatest cosine of each candidate over some subqueries; None without any."""
    cosines = [subquery.cosine for subquery in subqueries if subquery.cosine is not None]
    return greatest(cosines) if cosines else None


def greatest(values: Sequence[FloatArray]) -> FloatArray:
    """The greatest at each place; of one array that array itself."""
    best = values[0]
    for other in values[1:]:
        best = np.maximum(best, other)
    return best


@cache
def nothing() -> CandidateFeatures:
    """The features of a query without anything to search: no candidate, no subquery."""
    return CandidateFeatures(
        subqueries=(),
        records=(),
        rows=np.zeros(0, np.int64),
        postings=LexicalIndex().freeze(),
        visible=0,
        embedder="",
    )
