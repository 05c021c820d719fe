"""The lexical half of a search: BM25 of every subquery, and who is best by it.

Owns: `Words`. Blocking NumPy work, run in a thread. Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from armory.retrieval.features import Moments
from armory.retrieval.lexical.postings import TermHits
from armory.retrieval.ports import FloatArray, IntArray, Probed
from armory.retrieval.search.scope import Scope

#: Best lexical rows of a subquery whose cosine is wanted even from an index that returns only the
#: best.
_CANDIDATES = 100


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The lexical half of the m parts of a scope.

    Attributes:
        hits: one a part.
        bm25: (m, n) float32 over all rows.
        moments: one a part, over the allowed rows.
        best: ascending allowed rows that are lexically best for some part.
    """

    hits: list[TermHits]
    bm25: FloatArray
    moments: list[Moments]
    best: IntArray


def words_of(scope: Scope) -> Words:
    """Score the words of every part."""
    snapshot, allowed = scope.snapshot, scope.allowed
    hits = [snapshot.postings.search(part.text) for part in scope.parts]
    bm25 = np.empty((len(hits), len(snapshot.records)), np.float32)
    spread: list[tuple[float, float]] = []
    chosen: list[IntArray] = []
    for hit, row in zip(hits, bm25, strict=True):
        row[:] = sums = hit.sums()
        inside = sums if allowed is None else sums[allowed]
        mean = float(inside.mean())
        square = float(inside @ inside) / len(inside) - mean**2
        spread.append((mean, max(square, 0.0) ** 0.5))
        scored = np.flatnonzero(inside > 0)
        if allowed is not None:
            scored = allowed[scored]
        if len(scored) > _CANDIDATES:
            part = np.argpartition(-row[scored], _CANDIDATES)[:_CANDIDATES]
            scored = scored[part]
        chosen.append(scored)
    if isinstance(snapshot.view, Probed):  # which returns the best by meaning only
        chosen += _best_by_keyword(scope, hits)
    moments = [Moments(*pair) for pair in np.array(spread, np.float32).tolist()]
    return Words(hits, bm25, moments, np.unique(np.concatenate(chosen)))


def _best_by_keyword(scope: Scope, hits: Sequence[TermHits]) -> list[IntArray]:
    """Rows that are best for the caller's texts by the score of `lexical` and `hybrid`."""
    found: list[IntArray] = []
    for part, hit in zip(scope.parts, hits, strict=True):
        if part.whole:
            score = scope.snapshot.postings.keyword(part.text, hit)
            rows = np.flatnonzero(score > 0)
            if scope.allowed is not None:
                rows = np.intersect1d(rows, scope.allowed, assume_unique=True)
            if len(rows) > _CANDIDATES:
                rows = rows[np.argpartition(-score[rows], _CANDIDATES)[:_CANDIDATES]]
            found.append(rows)
    return found
