"""The rankers with a fixed formula: `semantic`, `hybrid`, `lexical`.

Owns: their formulas. Never imports indexes, embedders or the retriever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from armory.retrieval.ports import CandidateFeatures, FloatArray, IntArray, Ranked, RankSettings
from armory.retrieval.rankers.base import explain, verdict
from armory.retrieval.rankers.signals import (
    best_of,
    candidate_signals,
    fuse,
    greatest,
    query_signals,
    z,
)
from armory.retrieval.tables import Table

VECTOR_SHARE = 0.7
KEYWORD_SHARE = 0.3


def keyword(evidence: CandidateFeatures) -> FloatArray:
    """(c,) best keyword score of each candidate over the caller's texts, in [0, 1]."""
    rows = evidence.rows
    every = len(rows) == len(evidence.postings)
    texts = [evidence.postings.keyword(leg.text) for leg in evidence.legs if leg.whole]
    return greatest(texts if every else [values[rows] for values in texts])


def cosine(evidence: CandidateFeatures) -> FloatArray:
    """(c,) best cosine of each candidate over the caller's texts, in [-1, 1]."""
    found = [leg.cosine for leg in evidence.legs if leg.whole and leg.cosine is not None]
    return greatest(found)


class FormulaRanker(ABC):
    """A raw formula that orders, and the calibration that says what it means."""

    name: ClassVar[str]
    needs_dense: bool = True

    @abstractmethod
    def formula(self, evidence: CandidateFeatures) -> FloatArray:
        """(c,) the raw score."""

    def rank(self, evidence: CandidateFeatures, settings: RankSettings) -> Ranked:
        """Order by the formula, calibrate."""
        raw = self.formula(evidence)
        signals, best = self.signals(raw)
        near = candidate_signals(evidence, fuse(evidence))
        return verdict(
            self.name, evidence, settings, values=z(raw, float(raw.mean()), float(raw.std())),
            raw=raw, best=best, signals=signals, query=query_signals(evidence, near),
        )  # fmt: skip

    def signals(self, raw: FloatArray) -> tuple[Table, IntArray]:
        """Signals of the best candidates, (k,) each, and their positions, best first."""
        best = best_of(raw)
        found = raw[best]
        spread = z(found, float(raw.mean()), float(raw.std()))
        signals = {"raw": found, "raw_z": spread, "raw_gap": found - found[0]}
        return Table.of(signals, len(best)), best

    def reason(self, evidence: CandidateFeatures, ranked: Ranked, position: int) -> str:
        """See `Ranker.reason`."""
        return explain(evidence, ranked, position)


class SemanticRanker(FormulaRanker):
    """Cosine only."""

    name = "semantic"

    def formula(self, evidence: CandidateFeatures) -> FloatArray:
        """The cosine."""
        return cosine(evidence)


class HybridRanker(FormulaRanker):
    """0.7 * max(cosine, 0) + 0.3 * keyword."""

    name = "hybrid"

    def formula(self, evidence: CandidateFeatures) -> FloatArray:
        """The weighted sum, in [0, 1]."""
        dense = np.maximum(cosine(evidence), 0)
        return (VECTOR_SHARE * dense + KEYWORD_SHARE * keyword(evidence)).astype(np.float32)


class LexicalRanker(FormulaRanker):
    """The keyword score; works without an embedder."""

    name = "lexical"
    needs_dense = False

    def formula(self, evidence: CandidateFeatures) -> FloatArray:
        """The keyword score, in [0, 1]."""
        return keyword(evidence)
