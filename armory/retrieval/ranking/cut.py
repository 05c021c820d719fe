"""Cutting a ranking: threshold, refusal, caps. Pure functions.

Owns: the cut and its reasons; the rule for searches by words alone. Never imports a
ranker, an embedder or an index.

There is one cut. MCP lists, REST, the library, the agent and evaluation differ in the `Limits` that
they ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.features import CandidateFeatures
from armory.retrieval.lexical.postings import K1
from armory.retrieval.options import Limits
from armory.retrieval.ports import FloatArray, IntArray
from armory.retrieval.rankers.base import Scores
from armory.retrieval.scoring.ordering import Order

BELOW, CAP, BUDGET, REFUSED = "below threshold", "cap", "token budget", "refused"
#: A plain hit has at least this share of what the query's words can give, and this of the best
#: tool's.
_PLAIN = 0.2
_PLAIN_OF_BEST = 0.6
_PLAIN_HITS = 5


@dataclass(frozen=True, slots=True)
class Cut:
    """The shown part of a ranking.

    Attributes:
        shown: positions of the candidates, best first.
        withheld: why each other one that was ranked is not; filled only when asked for.
    """

    shown: list[int]
    withheld: dict[int, str] = field(default_factory=dict[int, str])


def passing(
    features: CandidateFeatures, scores: Scores, order: Order, limits: Limits
) -> NDArray[np.bool_]:
    """(c,) which candidates may be shown, caps aside."""
    may = np.ones(len(scores.score), np.bool_)
    threshold = limits.threshold
    if threshold is not None:
        judged = scores.raw if limits.threshold_on == "raw" else scores.score
        may = judged >= threshold
        if refused(scores, limits):
            may[:] = False
        if threshold > 0 and len(order) and (scores.by_words or not features.dense):
            may &= features.worded
            if not limits.exact:
                first = order[:_PLAIN_HITS]
                may[first[plain_hits(word_share(features), first)]] = True
    may[order[: limits.min_tools]] = True
    if limits.min_raw is not None:
        may &= scores.raw >= limits.min_raw
    if limits.min_cosine is not None:
        cosine = features.cosine
        if cosine is None:
            may &= limits.min_cosine <= 0
        else:
            may &= cosine >= limits.min_cosine
    return may


def refused(scores: Scores, limits: Limits) -> bool:
    """Whether nothing passes a threshold, as the query needs no tool; a raw one asks no more."""
    return scores.refused and limits.threshold is not None and limits.threshold_on != "raw"


def capped(
    places: IntArray, limits: Limits, tokens_of: Callable[[int], int], *, explain: bool
) -> Cut:
    """The cut by number and tokens.

    Args:
        places: positions that pass the threshold, best first.
        limits: see `Limits`.
        tokens_of: estimated tokens of the definition at a position; asked only under a budget.
        explain: fill `withheld`.
    """
    cut = Cut([])
    spent = 0
    for position in places.tolist():
        if len(cut.shown) >= limits.max_tools:
            if not explain:
                break
            cut.withheld[position] = CAP
            continue
        if limits.token_budget is not None:
            cost = tokens_of(position)
            if spent + cost > limits.token_budget:
                cut.withheld[position] = BUDGET
                continue
            spent += cost
        cut.shown.append(position)
    return cut


def word_share(features: CandidateFeatures) -> FloatArray:
    """(c,) best BM25F of each candidate over the caller's texts ÷ the most that the text's terms
    can attain, in [0, 1].
    """
    shares = [
        subquery.bm25 / max(float(subquery.hits.idf.sum()) * (K1 + 1), 1e-6)
        for subquery in features.whole
    ]
    return np.max(shares, axis=0)


def plain_hits(share: FloatArray, order: IntArray) -> IntArray:
    """Places in `order` (at most the first five) of tools that the words name plainly.

    A probability is divided among equals: of a hundred copies of the one fitting tool none passes
    a threshold. And whether a query needs a tool is judged less surely by words alone.
    """
    first = share[order[:_PLAIN_HITS]]
    least = max(_PLAIN, _PLAIN_OF_BEST * float(first.max(initial=0.0)))
    return np.flatnonzero(first >= least)
