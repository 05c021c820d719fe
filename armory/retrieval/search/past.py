"""Memory of use in a search: the tools that similar past queries led to.

Owns: joining what is remembered with the candidates. Pure NumPy. Never imports embedders, indexes,
rankers or who remembers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from armory.retrieval.ports import FloatArray, IntArray, Recalled, VectorHits
from armory.retrieval.search.scope import Scope

#: Best tools of a subquery whose cosine is wanted even from an index that returns only the best.
_CANDIDATES = 20
#: Cosines with past queries of unrelated tools, in standard deviations above the mean of the
#: descriptions' cosines, for the best and for the mean of a tool's queries. They count as this many
#: tools beside the remembered ones, which say little while they are few.
_PAST_ABOVE = (1.0, 0.4)
_PAST_TOOLS = 20
_LEAST_STD = 0.06


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What is remembered of the m parts of a scope and c candidates.

    Attributes:
        used: (m, c) best cosine with a past query, 0 without one.
        past: (m, c) standard scores, 0 without any.
        uses: (c,) uses behind them.
    """

    used: FloatArray
    past: FloatArray
    uses: FloatArray


def remembered_rows(scope: Scope, recalled: Recalled) -> IntArray:
    """Ascending allowed rows of the tools that the most similar past queries led to."""
    chosen: set[int] = set()
    for cosine in recalled.cosine:
        best = np.argsort(-cosine, kind="stable")[:_CANDIDATES]
        rows = (scope.snapshot.row_of.get(recalled.names[int(i)]) for i in best.tolist())
        chosen.update(row for row in rows if row is not None)
    rows = np.array(sorted(chosen), np.int64)
    return (
        rows if scope.allowed is None else np.intersect1d(rows, scope.allowed, assume_unique=True)
    )


def past_of(scope: Scope, rows: IntArray, recalled: Recalled, hits: VectorHits) -> Past:
    """What is remembered of the candidates at `rows`."""
    row_of = scope.snapshot.row_of
    known = [(t, row_of[n]) for t, n in enumerate(recalled.names) if n in row_of]
    used = np.zeros((len(recalled.cosine), len(rows)), np.float32)
    past, uses = np.zeros_like(used), np.zeros(len(rows), np.float32)
    if known and len(rows):
        tools, places = np.array(known, np.int64).T
        at = np.minimum(np.searchsorted(rows, places), len(rows) - 1)
        inside = rows[at] == places
        to, of = at[inside], tools[inside]
        both = zip((recalled.cosine, recalled.centre), _PAST_ABOVE, strict=True)
        scores = [_standard(values, above, hits.mean, hits.std)[:, of] for values, above in both]
        used[:, to], past[:, to] = recalled.cosine[:, of], (scores[0] + scores[1]) / 2
        uses[to] = recalled.uses[of]
    return Past(used, past, uses)


def _standard(values: FloatArray, above: float, mean: FloatArray, std: FloatArray) -> FloatArray:
    """(m, t) standard scores of cosines with past queries, against those of all tools."""
    count, beside = values.shape[1], _PAST_TOOLS
    std = np.maximum(std, _LEAST_STD)
    prior = mean + above * std
    middle = (values.sum(1) + beside * prior) / (count + beside)
    square = ((values - middle[:, None]) ** 2).sum(1) + beside * (std**2 + (prior - middle) ** 2)
    return (values - middle[:, None]) / np.sqrt(square / (count + beside))[:, None]
