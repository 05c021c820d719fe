"""From a formula and its signals to probabilities, the same for all built-in rankers.

Owns: judging the best candidates by the calibration, ordering the rest, reasons. Never imports
indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from armory.domain.tool import ToolRecord
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.lexical.elsewhere import is_elsewhere
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.text import STOP_WORDS, every_word, terms
from armory.retrieval.ports import FloatArray, IntArray
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.retrieval.rankers.evidence import Evidence, ordered
from armory.retrieval.scoring.calibration import (
    TERSE,
    calibration_for,
    cost_weighted,
    judge,
    sigmoid,
)
from armory.retrieval.scoring.ordering import Order, descending
from armory.retrieval.scoring.tables import SignalTable, SparseSignals

LIKE_BEFORE = 0.8
"""Cosine with a past query from which that query's success says that a tool is needed."""
_MOSTLY = 0.5
"""Share of a tool's name from which on a reason says that it is in the query."""
_FEW_WORDS, _NAMED_AMONG = 3, 5
#: Best tools that keep their probability however doubtful it is that any is needed, and how many
#: more at most.
_KEPT, _DOUBTED = 3, 17
_NEEDED_ELSEWHERE = 0.01
"""Probability that a tool is needed where none is for what is wished; below every bar."""


@dataclass(frozen=True, slots=True, eq=False)
class FormulaResult:
    """The result of a ranker's formula, before it is calibrated.

    Attributes:
        ranker: whose calibration.
        values: (c,) standardised formula, orders what is not among the best.
        raw: (c,) the ranker's formula, which orders; None: order and raw are the log-odds.
        best: (k,) positions that are judged signal by signal, best first.
        signals: (k,) each.
        query: signals of the query.
        evidence: what orders the best besides; None: nothing.
        shown: (c,) each; further signals for explanations, which the calibration does not see.
        by_words: whether the formula is of words alone; without a dense side every one is.
    """

    ranker: str
    values: FloatArray
    raw: FloatArray | None
    best: IntArray
    signals: SignalTable
    query: Mapping[str, float]
    evidence: Evidence | None = None
    shown: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    by_words: bool = False


def calibrated(
    result: FormulaResult, features: CandidateFeatures, settings: RankSettings
) -> Scores:
    """Scores of all candidates."""
    calibration = calibration_for(result.ranker, features.embedder, settings.calibration)
    best, raw = result.best, result.raw
    acts = calibration.acts_signal([s.vector for s in features.whole if s.vector is not None])
    wanted, need = judge(calibration, result.signals, {**result.query, **acts}, len(best))
    if _elsewhere(features):
        need = min(need, _NEEDED_ELSEWHERE)
    refused = calibration.refuses(need, features.visible)
    refused = refused and not (_led_somewhere(features) or _named(features, best))
    if (evidence := result.evidence) is not None:
        if refused and evidence.instead:
            evidence = replace(evidence, implied=[*evidence.implied, *evidence.instead])
        wanted = ordered(wanted, evidence, calibration.lean, result.query, features.visible)
        if refused and evidence.implied:
            wanted = _but(evidence.implied, wanted, need)
        refused = refused and not (evidence.implied or evidence.named)
    last = result.values[best[-1]]
    odds = np.minimum(result.values, last)  # of the others: as far below the worst of the best
    np.subtract(last, odds, out=odds)
    np.subtract(wanted.min(), odds, out=odds)
    odds[best] = wanted
    if raw is None:
        raw = odds = _boosted(odds, features, settings)
        order = _order_of(odds, best, wanted, settings)
    else:  # a stricter formula may not be overtaken: probability follows its order
        order = descending(raw)
        order[: len(best)] = best  # the same, but that equals may have an order of their own
        odds[order] = np.minimum.accumulate(odds[order])
        if settings.tag_boosts:  # but by what tags say
            odds = _boosted(odds, features, settings)
            order = order[descending(odds[order])]
    probability = sigmoid(odds)
    if refused:  # what was said holds for queries that need a tool
        probability *= np.float32(need)
    elif not calibration.refuses(need, features.visible):
        terse = result.query.get(TERSE, 0.0)
        _doubt(probability, order, calibration.sure(need, features.visible, terse))
    if by_words := result.by_words or not features.dense:  # nothing then speaks for the others
        probability[~features.worded] = 0.0
    cost = settings.miss_cost if settings.miss_cost is not None else calibration.miss_cost
    return Scores(
        order=order,
        raw=raw,
        probability=probability,
        score=cost_weighted(probability, cost),
        refused=refused,
        signals=SparseSignals(result.signals, best, len(odds), {"need": need}, result.shown),
        by_words=by_words,
    )


def _elsewhere(features: CandidateFeatures) -> bool:
    """Whether a query of one wish wants what none of the tools is for."""
    if len(features.subqueries) != 1:
        return False
    words = KnownWords(features.postings, features.searched)
    return is_elsewhere(features.subqueries[0].text, words)


def _but(implied: Sequence[int], odds: FloatArray, need: float) -> FloatArray:
    """(k,) log-odds where a query needs nothing but what it implies: of the others, what they are
    by it and its need of a tool together.
    """
    probability = sigmoid(odds) * np.float32(need)
    lowered = np.log(probability) - np.log1p(-probability)
    lowered[list(implied)] = odds[list(implied)]
    return lowered


def _doubt(probability: FloatArray, order: IntArray | Order, sure: float) -> None:
    """Lower (c,) probabilities where it is not sure that a tool is needed: those behind the first
    few, the fewer the less sure.
    """
    if sure < 1.0:
        first = order[: round(_KEPT + _DOUBTED * sure)]
        kept = probability[first]
        probability *= np.float32(sure)
        probability[first] = kept


def _order_of(
    odds: FloatArray, best: IntArray, wanted: FloatArray, settings: RankSettings
) -> Order:
    """Of (c,) log-odds, none of which is above the (k,) ones `wanted` of the best."""
    if settings.tag_boosts:  # any tool may have become the best
        return Order.of(descending(odds))
    above = np.sort(best[wanted > wanted.min()])  # others may have as much as the last of them
    return Order(above[descending(odds[above])], len(odds), lambda: descending(odds))


def _led_somewhere(features: CandidateFeatures) -> bool:
    """Whether a query like this one was answered by a tool before: then it needs one."""
    used = [float(s.used.max(initial=0.0)) for s in features.subqueries if s.used is not None]
    return max(used, default=0.0) >= LIKE_BEFORE


def _named(features: CandidateFeatures, best: IntArray) -> bool:
    """Whether one of the best tools has all words of a short text in its name: `fork`, `time`."""
    names = [set(terms(features.records[i].original_name)) for i in best[:_NAMED_AMONG].tolist()]
    asked = [set(terms(subquery.text, _FEW_WORDS + 1)) for subquery in features.whole]
    few = [words for words in asked if 0 < len(words) <= _FEW_WORDS]
    return any(words <= name for words in few for name in names)


def _boosted(odds: FloatArray, features: CandidateFeatures, settings: RankSettings) -> FloatArray:
    return odds + tag_gains(features.records, settings) if settings.tag_boosts else odds


def tag_gains(records: Iterable[ToolRecord], settings: RankSettings) -> FloatArray:
    """What tags add to the log-odds of tools."""
    gains = {tag: float(np.log(max(f, 1e-6))) for tag, f in settings.tag_boosts.items()}
    found = [sum(gains.get(tag, 0.0) for tag in record.tags) for record in records]
    return np.array(found, np.float32)


def _name_said(features: CandidateFeatures, said: float, position: int) -> float:
    """The share of a tool's name that is said; nothing where it is hardly said, or where a small
    word of it, which is searched for nowhere, is not: `git_show` is more than git.
    """
    if said < _MOSTLY:
        return 0.0
    small = STOP_WORDS & every_word(features.records[position].original_name)
    texts = (every_word(subquery.text) for subquery in features.whole)
    return said if not small or any(small <= text for text in texts) else 0.0


def _words_shared(features: CandidateFeatures, position: int) -> float:
    """The share of a text's words that a tool has, the greatest over the caller's texts: of words
    as they are counted, not as they weigh for the order.
    """
    row = int(features.rows[position])
    return max(len(s.hits.of(row)) / max(len(s.hits.idf), 1) for s in features.whole)


def explain(
    features: CandidateFeatures,
    scores: Scores,
    position: int,
    *,
    meaning: bool = True,
    words: bool = True,
) -> str:
    """One sentence: why this candidate stands where it stands.

    `meaning`, `words`: whether that counted.
    """
    signals = scores.signals_at(position)
    parts: list[str] = []
    first = features.subqueries[0].cosine
    if meaning and first is not None:
        cosines = [s.cosine for s in features.subqueries if s.cosine is not None]
        nearest = max(cosines, key=lambda cosine: cosine[position])  # which part of the query
        best = nearest[position]
        place = 1 + int(np.count_nonzero(nearest > best))
        parts.append(f"meaning {best:.2f} (place {place})")
    said = _name_said(features, signals.get("name_said", 0.0), position)
    if said >= 0.99:
        parts.append("its name is in the query")
    elif said >= _MOSTLY:
        parts.append("most of its name is in the query")
    if words and (shared := _words_shared(features, position)):
        parts.append(f"shares {shared:.0%} of the query's words")
    if signals.get("server_named", 0.0) >= 0.99:
        parts.append("its server is named")
    if signals.get("implied", 0.0) > 0:
        parts.append("the query asks for what it does without saying so")
    if signals.get("used", 0.0) >= 0.6:
        parts.append("similar queries led to it before")
    if scores.refused:
        parts.append("the query seems to need no tool")
    text = "; ".join(parts) or "little in common with the query"
    probability = float(scores.probability[position])
    return f"{text[0].upper()}{text[1:]}: wanted with probability {probability:.2f}."
