"""The ranker that uses statistics of calls: similarity, popularity, own history, performance.

Owns: the weighted sum, its weights and its reasons. Statistics come in through `UsageSource`;
never imports who keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from armory.errors import ConfigError
from armory.retrieval.features import CandidateFeatures, Moments, best_cosine, moments_of
from armory.retrieval.ports import FloatArray, IntArray, UsageArrays
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.retrieval.rankers.boosts import NONE, Boost, boosted, boosts
from armory.retrieval.rankers.calibrated import calibrated, tag_gains
from armory.retrieval.rankers.factors import UNMEASURED
from armory.retrieval.rankers.formulas import FormulaRanker, SemanticRanker
from armory.retrieval.rankers.fusion import best_of
from armory.retrieval.rankers.remembered import USE_HALF

CANDIDATES = 50
SIGNALS = ("similarity", "popularity", "history", "performance")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each factor; together 1."""

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

    def formula(self, features: CandidateFeatures) -> FloatArray:
        """The weighted sum under the default weights, without boosts."""
        return _weighed(features, RankSettings()).raw

    def spread(self, features: CandidateFeatures, raw: FloatArray) -> Moments:
        """Of similarity, which alone is judged."""
        return moments_of(raw if features.sample is None else _similarity(features.sample))

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        """Re-rank the 50 most similar tools."""
        weighed = _weighed(features, settings)
        similarity = weighed.factors["similarity"]
        boost = np.ones(len(similarity), np.float32)
        boost[weighed.candidates] = [one.factor for one in weighed.boosts]
        result = self.result(SemanticRanker.name, features, similarity)
        shown = {**weighed.factors, "boost": boost}
        scores = calibrated(replace(result, shown=shown), features, settings)
        sums = weighed.raw[weighed.candidates]
        if settings.tag_boosts:
            chances = np.clip(sums, 1e-6, 1 - 1e-6)
            records = [features.records[i] for i in weighed.candidates.tolist()]
            sums = np.log(chances / (1 - chances)) + tag_gains(records, settings)
        best_first = np.argsort(-sums, kind="stable")
        weights = asdict(weights_of(settings.weights))
        order = weighed.candidates[best_first]
        return replace(scores, order=order, raw=weighed.raw, weights=weights)

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """The factors that decided, the greatest contribution first; none that weighs nothing."""
        signals = scores.signals_at(position)
        values = {name: signals[name] for name, weight in scores.weights.items() if weight > 0}
        phrases = {name: _phrase(name, value) for name, value in values.items()}
        own = _usage(features, [features.records[position].name]).history[0]
        if values.get("history", 0.0) > own:  # not the caller's own, see `_with_past_queries`
            phrases["history"] = f"similar queries led to it before ({values['history']:.2f})"
        parts = [(scores.weights[n] * values[n], phrase) for n, phrase in phrases.items()]
        said = [phrase for _, phrase in sorted(parts, reverse=True) if phrase]
        text = ", ".join(said) or "little is known of it"
        factor = signals["boost"]
        if factor > 1.0:
            record = features.records[position]
            why = boosts([record], features.hour, features.last_tool)[0].reasons
            text += f"; boosted x{factor:.2f} ({', '.join(why)})"
        return f"{text[0].upper()}{text[1:]}."


@dataclass(frozen=True, slots=True, eq=False)
class _Weighed:
    """The weighted sum.

    Attributes:
        raw: (c,) with boosts; of those that are not among the candidates similarity's part alone.
        candidates: (k,) positions of the most similar tools, which are weighed.
        factors: (c,) each, by name; 0 for the others, but for similarity.
        boosts: of the candidates.
    """

    raw: FloatArray
    candidates: IntArray
    factors: Mapping[str, FloatArray]
    boosts: Sequence[Boost]


def _weighed(features: CandidateFeatures, settings: RankSettings) -> _Weighed:
    similarity = _similarity(features)
    candidates = best_of(similarity, CANDIDATES)[:CANDIDATES]
    records = [features.records[i] for i in candidates.tolist()]
    usage = _usage(features, [record.name for record in records])
    usage = _with_past_queries(features, usage, candidates)
    weights = weights_of(settings.weights)
    given = [NONE] * len(records)
    if settings.context_boosts:
        given = boosts(records, features.hour, features.last_tool)
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
    return _Weighed(raw, candidates, factors, given)


def _similarity(features: CandidateFeatures) -> FloatArray:
    """(c,) best cosine over the query and its intents, in [0, 1]."""
    cosine = best_cosine(features.subqueries)
    if cosine is None:
        raise ValueError("multi_factor was asked about features without cosines")
    return np.clip(cosine, 0.0, 1.0)


def _usage(features: CandidateFeatures, names: list[str]) -> UsageArrays:
    if features.usage is not None:
        return features.usage.statistics(features.user, names)
    nothing = np.zeros(len(names), np.float32)
    return UsageArrays(nothing, nothing, np.full(len(names), UNMEASURED, np.float32))


def _with_past_queries(
    features: CandidateFeatures, usage: UsageArrays, candidates: IntArray
) -> UsageArrays:
    """History counts what similar queries led to as well, where memory of use is on."""
    used = [s.used[candidates] for s in features.subqueries if s.used is not None]
    if features.uses is None or not used:
        return usage
    uses = features.uses[candidates]
    learned = np.max(used, axis=0) * uses / (uses + USE_HALF)
    return replace(usage, history=np.maximum(usage.history, learned).astype(np.float32))


def _phrase(name: str, value: float) -> str:
    if name == "similarity":
        if value >= 0.6:
            return f"close in meaning ({value:.2f})"
        if value >= 0.3:
            return f"related in meaning ({value:.2f})"
        return f"loosely related in meaning ({value:.2f})" if value >= 0.005 else ""
    if name == "popularity":
        return f"popular ({value:.2f})" if value >= 0.5 else ""
    if name == "history":
        if value >= 0.5:
            return f"worked for you before ({value:.2f})"
        return f"used by you, with failures ({value:.2f})" if value > 0 else ""
    if value >= 0.8:
        return f"fast and reliable ({value:.2f})"
    return f"slow or unreliable ({value:.2f})" if value < UNMEASURED else ""
