"""The interface of rankers: candidates in, scores out.

Owns: the `Ranker` Protocol, its settings and its `Scores`. Never imports a ranker, an index or an
embedder. A ranker of your own needs this file and `armory.retrieval.features`; most take their
probabilities from `rankers.calibrated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np

from armory.retrieval.features import CandidateFeatures
from armory.retrieval.ports import FloatArray, IntArray
from armory.retrieval.scoring.ordering import Order
from armory.retrieval.scoring.tables import SparseSignals


@dataclass(frozen=True, slots=True)
class RankSettings:
    """The settings of rankers.

    Attributes:
        miss_cost: c of the score, > 0; None: the calibration's own.
        weights: of `multi_factor`, by signal.
        tag_boosts: factor on the raw score's probability odds by tag.
        context_boosts: whether hour and last tool count.
        calibration: parsed calibration that overrides the shipped one; None: shipped.
    """

    miss_cost: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    tag_boosts: Mapping[str, float] = field(default_factory=dict[str, float])
    context_boosts: bool = False
    calibration: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A ranker's scores over the c candidates of a `CandidateFeatures`.

    Attributes:
        order: (r,) int64 positions into the candidates, best first; r < c only for a ranker that
            re-ranks a few (`multi_factor`).
        raw: (c,) the ranker's formula, higher is better.
        probability: (c,) calibrated P(wanted) in [0, 1].
        score: (c,) c*P / (c*P + 1 - P), in [0, 1].
        refused: the query needs no tool.
        signals: named (c,) arrays for explanations; of one tool, `signals_at`.
        weights: what each signal counts for, where the formula is a weighted sum of them.
        by_words: words alone decided, though there may be vectors; a candidate that has none of
            them has probability 0.
    """

    order: IntArray | Order
    raw: FloatArray
    probability: FloatArray
    score: FloatArray
    refused: bool = False
    signals: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    by_words: bool = False

    def signals_at(self, position: int) -> dict[str, float]:
        """Every signal of one candidate."""
        if isinstance(self.signals, SparseSignals):
            return self.signals.at(position)
        return {name: float(values[position]) for name, values in self.signals.items()}


@cache
def no_scores() -> Scores:
    """The scores of no candidates at all."""
    none = np.zeros(0, np.float32)
    return Scores(np.zeros(0, np.int64), none, none, none)


class Ranker(Protocol):
    """Scores candidates; no I/O, no state."""

    @property
    def name(self) -> str:
        """The name by which `tool_rag.ranker` chooses it."""
        ...

    def works_without_vectors(self, tools: int) -> bool:
        """Whether it ranks so many tools well by words alone; where not, `lexical` stands in."""
        ...

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        """Score every candidate; there is at least one."""
        ...

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """One readable sentence made of the signals that decided for this candidate."""
        ...
