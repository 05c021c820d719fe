"""From a ranking to what a listing shows: threshold, refusal, caps. Pure functions.

Owns: settings of a search, its verdict, the cut and its reasons. Never imports rankers, embedders
or indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from armory.domain.query import Query
from armory.domain.query import Ranker as RankerName
from armory.domain.results import Match
from armory.retrieval.fallback import plain_hits
from armory.retrieval.ports import (
    CandidateFeatures,
    FloatArray,
    IntArray,
    Ranked,
    Ranker,
    RankSettings,
)

ThresholdOn = Literal["calibrated", "raw"]
BELOW, CAP, BUDGET, REFUSED = "below threshold", "cap", "token budget", "refused"


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be shown.

    Attributes:
        threshold: least score (or raw score) of a shown tool; 0 is a threshold too.
        threshold_on: which of the two it is compared with.
        min_tools: so many best tools are shown whatever their score, a refusal included.
        max_tools: no more than so many.
        token_budget: no more estimated tokens of definitions than this; None: no budget. Wins
            over `min_tools`. A tool that does not fit is left out, smaller ones after it may fit.
    """

    threshold: float = 0.5
    threshold_on: ThresholdOn = "calibrated"
    min_tools: int = 0
    max_tools: int = 20
    token_budget: int | None = None


def limits_for(query: Query, limits: Limits) -> Limits:
    """The configured limits, with what the query sets itself."""
    if query.threshold is not None:
        limits = replace(limits, threshold=query.threshold)
    if query.top_k is not None:
        limits = replace(limits, max_tools=query.top_k)
    return limits


@dataclass(frozen=True, slots=True)
class RetrieverSettings:
    """How a retriever searches; a query may override ranker, threshold and number.

    Attributes:
        ranker: name of the default ranker.
        limits: threshold and caps; a query's `top_k` replaces `max_tools`.
        rank: passed to rankers.
        candidates: best tools by cosine that an index which does not score everything returns.
        diversity: None, or the weight in (0, 1] of relevance against novelty (MMR) over the best
            50; 1 changes nothing.
        dense_timeout_s: how long a query may wait for its embedding and the vector store before it
            is answered by words alone.
    """

    ranker: RankerName = "relevance"
    limits: Limits = field(default_factory=Limits)
    rank: RankSettings = field(default_factory=RankSettings)
    candidates: int = 200
    diversity: float | None = None
    dense_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """A judged query before anything is cut.

    Attributes:
        evidence: None when there was nothing to search.
        ranked: likewise.
        order: (r,) positions of the candidates, best first, re-ranking and diversity applied.
        degraded: what was lost, or None.
        ranker: the ranker that judged.
    """

    evidence: CandidateFeatures | None
    ranked: Ranked | None
    order: IntArray
    degraded: str | None
    ranker: Ranker


def match_of(verdict: Verdict, position: int) -> Match:
    """One candidate of a verdict that was reached, as callers see it."""
    evidence, ranked = verdict.evidence, verdict.ranked
    assert evidence is not None
    assert ranked is not None
    return Match(
        tool=evidence.records[position],
        score=float(ranked.score[position]),
        probability=float(ranked.probability[position]),
        raw_score=float(ranked.raw[position]),
        signals=ranked.signals_at(position),
        reason=verdict.ranker.reason(evidence, ranked, position),
    )


def cut(
    ranked: Ranked,
    order: IntArray,
    limits: Limits,
    tokens_of: Callable[[int], int],
    withheld: dict[int, str] | None = None,
    *,
    words: FloatArray | None = None,
    plain: bool = False,
) -> list[int]:
    """Positions to show, best first.

    Args:
        ranked: scores over the candidates.
        order: (r,) positions, best first.
        limits: see `Limits`.
        tokens_of: estimated tokens of the definition at a position; asked only under a budget.
        withheld: filled with why each other position of `order` is not shown.
        words: where words are all there is, `fallback.word_share`: a tool that has no word of the
            query passes no threshold but 0.
        plain: with `words`: tools that the words name plainly are shown, whatever their score.
    """
    passing = _passing(ranked, order, limits, words, plain)
    if withheld is not None:
        why = REFUSED if ranked.refused else BELOW
        withheld.update(dict.fromkeys(order[~passing].tolist(), why))
    shown: list[int] = []
    spent = 0
    for position in order[np.flatnonzero(passing)].tolist():
        if len(shown) >= limits.max_tools:
            if withheld is None:
                break
            withheld[position] = CAP
            continue
        if limits.token_budget is not None:
            cost = tokens_of(position)
            if spent + cost > limits.token_budget:
                if withheld is not None:
                    withheld[position] = BUDGET
                continue
            spent += cost
        shown.append(position)
    return shown


def _passing(
    ranked: Ranked, order: IntArray, limits: Limits, words: FloatArray | None, plain: bool
) -> NDArray[np.bool_]:
    """(r,) which places of `order` may be shown, caps aside."""
    judged = ranked.raw if limits.threshold_on == "raw" else ranked.score
    passing = (judged >= limits.threshold)[order]
    if ranked.refused:
        passing[:] = False
    if words is not None and limits.threshold > 0:
        passing &= words[order] > 0
        if plain:
            passing[plain_hits(words, order)] = True
    passing[: limits.min_tools] = True
    return passing
