"""The ranker that knows how tools fare: similarity, popularity, own history, performance.

Owns: the weighted sum, its weights and its reasons. Statistics come in through `UsageSource`;
never imports who keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from armory.errors import ConfigError
from armory.retrieval.boosts import NONE, Boost, boosted, boosts
from armory.retrieval.factors import UNMEASURED
from armory.retrieval.ports import (
    CandidateFeatures,
    FloatArray,
    IntArray,
    Ranked,
    RankSettings,
    UsageArrays,
)
from armory.retrieval.rankers.base import verdict
from armory.retrieval.rankers.formulas import FormulaRanker, SemanticRanker
from armory.retrieval.rankers.remembered import USE_HALF
from armory.retrieval.rankers.signals import (
    best_of,
    candidate_signals,
    fuse,
    greatest,
    query_signals,
    z,
)
from armory.retrieval.tables import Spread

CANDIDATES = 50
SIGNALS = ("similarity", "popularity", "history", "performance")


@dataclass(frozen=True, slots=True)
class Weights:
    """What each factor counts for; together 1."""

    similarity: float = 0.40
    popularity: float = 0.25
    history: float = 0.20
    performance: float = 0.15

    def score(
        self, similarity: float, popularity: float, history: float, performance: float
    ) -> float:
        """The weighted sum of four factors in [0, 1]: in [0, 1] as well."""
        return (
            self.similarity * similarity
            + self.popularity * popularity
            + self.history * history
            + self.performance * performance
        )


DEFAULT_WEIGHTS = Weights()


def weights_of(given: Mapping[str, float]) -> Weights:
    """The weights that configuration gives; those that it leaves out keep their default.

    Raises:
        ConfigError: an unknown factor, a negative weight, or a sum that is not 1.
    """
    unknown = sorted(given.keys() - set(SIGNALS))
    if unknown:
        raise ConfigError(f"no factor {unknown[0]!r}; expected {', '.join(SIGNALS)}")
    found = replace(DEFAULT_WEIGHTS, **given)
    values = [found.similarity, found.popularity, found.history, found.performance]
    if min(values) < 0 or not math.isclose(sum(values), 1.0, abs_tol=1e-6):
        raise ConfigError(
            f"the weights {values} add up to {sum(values):g}; expected 1, none below 0"
        )
    return found


class MultiFactorRanker(FormulaRanker):
    """0.40 similarity + 0.25 popularity + 0.20 history + 0.15 performance over the best 50.

    Similarity is the best cosine over the query and each of its intents, in [0, 1]. Only it says
    whether a tool is wanted, so P is the one that `semantic` is calibrated to; the other factors
    say which of the wanted ones to take first.
    """

    name = "multi_factor"

    def __init__(self, hour: Callable[[], int] | None = None) -> None:
        """`hour` gives the local hour for queries that bring none; None: the machine's."""
        self._hour = hour or local_hour

    def formula(self, evidence: CandidateFeatures) -> FloatArray:
        """The weighted sum under the default weights, without boosts."""
        return self._judged(evidence, RankSettings())[0]

    def rank(self, evidence: CandidateFeatures, settings: RankSettings) -> Ranked:
        """Re-rank the 50 most similar tools."""
        raw, candidates, factors, given = self._judged(evidence, settings)
        similarity = factors["similarity"]
        signals, best = self.signals(similarity)
        near = candidate_signals(evidence, fuse(evidence))
        mean, std = float(similarity.mean()), float(similarity.std())
        ranked = verdict(
            SemanticRanker.name, evidence, settings, values=z(similarity, mean, std),
            raw=similarity, best=best, signals=signals, query=query_signals(evidence, near),
        )  # fmt: skip
        boost = np.ones(len(raw), np.float32)
        boost[candidates] = [one.factor for one in given]
        assert isinstance(ranked.signals, Spread)  # what `verdict` gives
        shown = ranked.signals.joined({**factors, "boost": boost})
        order = candidates[np.argsort(-raw[candidates], kind="stable")]
        return replace(ranked, order=order, raw=raw, signals=shown)

    def reason(self, evidence: CandidateFeatures, ranked: Ranked, position: int) -> str:
        """The factors that decided, the greatest contribution first."""
        signals = ranked.signals_at(position)
        values = {name: signals[name] for name in SIGNALS}
        parts = [(getattr(DEFAULT_WEIGHTS, n) * v, _phrase(n, v)) for n, v in values.items()]
        said = [phrase for _, phrase in sorted(parts, reverse=True) if phrase]
        text = ", ".join(said) or "little is known of it"
        factor = signals["boost"]
        if factor > 1.0:
            record = evidence.records[position]
            why = boosts([record], self._hour_of(evidence), evidence.last_tool)[0].reasons
            text += f"; boosted x{factor:.2f} ({', '.join(why)})"
        return f"{text[0].upper()}{text[1:]}."

    def _hour_of(self, evidence: CandidateFeatures) -> int:
        return self._hour() if evidence.hour is None else evidence.hour

    def _judged(
        self, evidence: CandidateFeatures, settings: RankSettings
    ) -> tuple[FloatArray, IntArray, dict[str, FloatArray], list[Boost]]:
        cosines = [leg.cosine for leg in evidence.legs if leg.cosine is not None]
        similarity = np.clip(greatest(cosines), 0.0, 1.0)
        candidates = best_of(similarity, CANDIDATES)[:CANDIDATES]
        records = [evidence.records[i] for i in candidates.tolist()]
        usage = _usage(evidence, [record.name for record in records])
        usage = _with_past_queries(evidence, usage, candidates)
        weights = weights_of(settings.weights)
        context = settings.context_boosts
        given = (
            boosts(records, evidence.hour, evidence.last_tool) if context else [NONE] * len(records)
        )
        raw = (weights.similarity * similarity).astype(np.float32)
        for place, (position, boost) in enumerate(zip(candidates.tolist(), given, strict=True)):
            score = weights.score(
                float(similarity[position]),
                float(usage.popularity[place]),
                float(usage.history[place]),
                float(usage.performance[place]),
            )
            raw[position] = boosted(score, boost)
        factors = {"similarity": similarity}
        for name in SIGNALS[1:]:
            factors[name] = np.zeros(len(similarity), np.float32)
            factors[name][candidates] = getattr(usage, name)
        return raw, candidates, factors, given


def local_hour() -> int:
    """The hour of the day on this machine, 0 to 23."""
    return datetime.now().astimezone().hour


def _usage(evidence: CandidateFeatures, names: list[str]) -> UsageArrays:
    if evidence.usage is not None:
        return evidence.usage.statistics(evidence.user, names)
    nothing = np.zeros(len(names), np.float32)
    return UsageArrays(nothing, nothing, np.full(len(names), UNMEASURED, np.float32))


def _with_past_queries(
    evidence: CandidateFeatures, usage: UsageArrays, candidates: IntArray
) -> UsageArrays:
    """History counts what similar queries led to as well, where memory of use is on."""
    used = [leg.used[candidates] for leg in evidence.legs if leg.used is not None]
    if evidence.uses is None or not used:
        return usage
    uses = evidence.uses[candidates]
    learned = np.max(used, axis=0) * uses / (uses + USE_HALF)
    return replace(usage, history=np.maximum(usage.history, learned).astype(np.float32))


def _phrase(name: str, value: float) -> str:
    if name == "similarity":
        if value >= 0.6:
            return f"close in meaning ({value:.2f})"
        return f"related in meaning ({value:.2f})" if value >= 0.3 else ""
    if name == "popularity":
        return f"popular ({value:.2f})" if value >= 0.5 else ""
    if name == "history":
        if value >= 0.5:
            return f"worked for you before ({value:.2f})"
        return f"used by you, with failures ({value:.2f})" if value > 0 else ""
    if value >= 0.8:
        return f"fast and reliable ({value:.2f})"
    return f"slow or unreliable ({value:.2f})" if value < UNMEASURED else ""
