"""The rankers with a fixed formula: `semantic`, `hybrid`, `lexical`.

Owns: their formulas. Never imports indexes, embedders or the retriever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from armory.retrieval.features import CandidateFeatures, Moments, greatest, moments_of
from armory.retrieval.lexical.postings import NAME
from armory.retrieval.ports import FloatArray, IntArray
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.retrieval.rankers.calibrated import FormulaResult, calibrated, explain
from armory.retrieval.rankers.fusion import best_of, fuse, z_scores
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.scoring.tables import SignalTable

VECTOR_SHARE = 0.7
KEYWORD_SHARE = 0.3


def keyword(features: CandidateFeatures, of: IntArray | None = None) -> FloatArray:
    """(c,) best keyword score of each candidate over the caller's texts, in [0, 1].

    `of`: only of these candidates, (k,).
    """
    rows = features.rows if of is None else features.rows[of]
    every = len(rows) == len(features.postings) and of is None
    score = features.postings.keyword
    return greatest([score(s.text, s.hits, None if every else rows) for s in features.whole])


def hybrid(features: CandidateFeatures, of: IntArray | None = None) -> FloatArray:
    """(c,) 0.7 * max(cosine, 0) + 0.3 * keyword, in [0, 1]; `ValueError` as for `cosine`.

    `of`: only of these candidates, (k,).
    """
    dense = np.maximum(cosine(features, of), 0)
    return (VECTOR_SHARE * dense + KEYWORD_SHARE * keyword(features, of)).astype(np.float32)


def cosine(features: CandidateFeatures, of: IntArray | None = None) -> FloatArray:
    """(c,) best cosine of each candidate over the caller's texts, in [-1, 1].

    `of`: only of these candidates, (k,).

    Raises:
        ValueError: there is no dense side; see `Ranker.works_without_vectors`.
    """
    best = features.cosine
    if best is None:
        raise ValueError("a formula of cosines was asked about features without any")
    return best if of is None else best[of]


class FormulaRanker(ABC):
    """A raw formula that orders, and the calibration that says what it means."""

    name: ClassVar[str]

    def works_without_vectors(self, tools: int) -> bool:
        """As `Ranker.works_without_vectors`: no, unless its formula needs none."""
        return False

    @abstractmethod
    def formula(self, features: CandidateFeatures) -> FloatArray:
        """(c,) raw scores, higher is better."""

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        """Order by the formula, calibrate."""
        raw = self.formula(features)
        return calibrated(self.result(self.name, features, raw), features, settings)

    def spread(self, features: CandidateFeatures, raw: FloatArray) -> Moments:
        """Moments of the formula over the visible tools, (c,) values of which are known."""
        sample = features.sample
        return moments_of(raw if sample is None else self.formula(sample))

    def result(self, ranker: str, features: CandidateFeatures, raw: FloatArray) -> FormulaResult:
        """The formula's (c,) values with all that its calibration, that of `ranker`, looks at."""
        moments = self.spread(features, raw)
        signals, best = _signals(raw, moments)
        query = query_signals(features, candidate_signals(features, fuse(features)))
        return FormulaResult(ranker, z_scores(raw, moments), raw, best, signals, query)

    def signals(self, features: CandidateFeatures, raw: FloatArray) -> tuple[SignalTable, IntArray]:
        """Signals of the best candidates, (k,) each, and their positions, best first."""
        return _signals(raw, self.spread(features, raw))

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """See `Ranker.reason`."""
        return explain(features, scores, position)


def _signals(raw: FloatArray, moments: Moments) -> tuple[SignalTable, IntArray]:
    best = best_of(raw)
    top = raw[best]
    signals = {"raw": top, "raw_z": z_scores(top, moments), "raw_gap": top - top[0]}
    return SignalTable.of(signals, len(best)), best


class SemanticRanker(FormulaRanker):
    """Raw score: the cosine alone."""

    name = "semantic"

    def formula(self, features: CandidateFeatures) -> FloatArray:
        """(c,) cosines, in [-1, 1]."""
        return cosine(features)

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """Of meaning alone, which alone decided."""
        return explain(features, scores, position, words=False)


class HybridRanker(FormulaRanker):
    """Raw score: 0.7 * max(cosine, 0) + 0.3 * keyword."""

    name = "hybrid"

    def formula(self, features: CandidateFeatures) -> FloatArray:
        """(c,) weighted sums, in [0, 1]."""
        return hybrid(features)


class LexicalRanker(FormulaRanker):
    """Raw score: the keyword score; works without an embedder."""

    name = "lexical"

    def works_without_vectors(self, tools: int) -> bool:
        """As `Ranker.works_without_vectors`: always."""
        return True

    def formula(self, features: CandidateFeatures) -> FloatArray:
        """(c,) keyword scores, in [0, 1]."""
        return keyword(features)

    def result(self, ranker: str, features: CandidateFeatures, raw: FloatArray) -> FormulaResult:
        """As any formula's; of equals those first whose names have more of the query."""
        found = super().result(ranker, features, raw)
        return replace(found, best=_named_first(features, raw, found.best), by_words=True)

    def spread(self, features: CandidateFeatures, raw: FloatArray) -> Moments:
        """Of all: words are known of every tool."""
        if features.sample is None:
            return moments_of(raw)
        score, searched = features.postings.keyword, features.searched
        every = greatest([score(subquery.text) for subquery in features.whole])
        return moments_of(every if searched is None else every[searched])

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """Of words alone, which alone decided."""
        return explain(features, scores, position, meaning=False)


def _named_first(features: CandidateFeatures, raw: FloatArray, best: IntArray) -> IntArray:
    """The best, of which equals stand by how much of the query their names have."""
    top = raw[best]
    if np.all(top[1:] < top[:-1]):
        return best
    near = np.zeros(len(best), np.float32)
    for subquery in features.whole:
        fields = features.postings.fields(subquery.hits, features.rows[best])
        np.maximum(near, fields.shares[:, NAME], out=near)
    return best[np.lexsort((-near, -top))]
