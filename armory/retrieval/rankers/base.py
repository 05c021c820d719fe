"""What every ranker does the same way: from a raw formula and signals to a verdict.

Owns: judging the best candidates by the calibration, ordering the rest, reasons. Never imports
indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from armory.retrieval.ordering import descending
from armory.retrieval.ports import CandidateFeatures, FloatArray, IntArray, Ranked, RankSettings
from armory.retrieval.relevance import calibration_for, cost_weighted, judge, sigmoid
from armory.retrieval.tables import Spread, Table

LIKE_BEFORE = 0.8
"""Cosine with a past query from which that query's success says that a tool is needed."""


def verdict(
    ranker: str,
    evidence: CandidateFeatures,
    settings: RankSettings,
    *,
    values: FloatArray,
    raw: FloatArray | None,
    best: IntArray,
    signals: Table,
    query: Mapping[str, float],
) -> Ranked:
    """A verdict over all candidates.

    Args:
        ranker: whose calibration.
        evidence: the candidates.
        settings: see `RankSettings`.
        values: (c,) standardised formula, orders what is not among the best.
        raw: (c,) the ranker's formula, which orders; None: order and raw are the log-odds.
        best: (k,) positions that are judged signal by signal, best first.
        signals: (k,) each.
        query: signals of the query.
    """
    calibration = calibration_for(ranker, evidence.embedder, settings.calibration)
    asked = calibration.asked([g.vector for g in evidence.legs if g.whole and g.vector is not None])
    wanted, refused, need = judge(calibration, signals, {**query, **asked}, len(best))
    refused = refused and not _led_somewhere(evidence)
    last = values[best[-1]]
    odds = np.minimum(values, last)  # of the others: as far below the worst of the best
    np.subtract(last, odds, out=odds)
    np.subtract(wanted.min(), odds, out=odds)
    odds[best] = wanted
    odds = _boosted(odds, evidence, settings)
    order = descending(odds if raw is None else raw)
    if raw is None:
        raw = odds
    else:  # a stricter formula may not be overtaken: probability follows its order
        odds[order] = np.minimum.accumulate(odds[order])
    probability = sigmoid(odds)
    cost = settings.miss_cost if settings.miss_cost is not None else calibration.miss_cost
    return Ranked(
        order=order,
        raw=raw,
        probability=probability,
        score=cost_weighted(probability, cost),
        refused=refused,
        signals=Spread(signals, best, len(values), {"need": need}),
    )


def _led_somewhere(evidence: CandidateFeatures) -> bool:
    """Whether a query like this one was answered by a tool before: then it needs one."""
    used = [float(leg.used.max(initial=0.0)) for leg in evidence.legs if leg.used is not None]
    return max(used, default=0.0) >= LIKE_BEFORE


def _boosted(odds: FloatArray, evidence: CandidateFeatures, settings: RankSettings) -> FloatArray:
    if not settings.tag_boosts:
        return odds
    boosts = {tag: float(np.log(max(f, 1e-6))) for tag, f in settings.tag_boosts.items()}
    gains = [sum(boosts.get(tag, 0.0) for tag in record.tags) for record in evidence.records]
    return odds + np.array(gains, np.float32)


def explain(evidence: CandidateFeatures, ranked: Ranked, position: int) -> str:
    """One sentence: why this candidate stands where it stands."""
    signals = ranked.signals_at(position)
    parts: list[str] = []
    leg = evidence.legs[0]
    if leg.cosine is not None:
        cosine = max(
            float(part.cosine[position]) for part in evidence.legs if part.cosine is not None
        )
        place = 1 + int(np.count_nonzero(leg.cosine > leg.cosine[position]))
        parts.append(f"meaning {cosine:.2f} (place {place})")
    if signals.get("name_said", 0.0) >= 0.99:
        parts.append("its name is in the query")
    elif signals.get("name_said", 0.0) >= 0.5:
        parts.append("most of its name is in the query")
    words = max(float(part.bm25[position]) for part in evidence.legs)
    if words > 0:
        covered = signals.get("covered", 0.0)
        parts.append(f"shares {covered:.0%} of the query's words" if covered else "shares words")
    if signals.get("server_named", 0.0) >= 0.99:
        parts.append("its server is named")
    if signals.get("used", 0.0) >= 0.6:
        parts.append("similar queries led to it before")
    if ranked.refused:
        parts.append("the query seems to need no tool")
    text = "; ".join(parts) or "little in common with the query"
    return f"{text[0].upper()}{text[1:]}: P = {float(ranked.probability[position]):.2f}."
