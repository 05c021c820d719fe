"""Multi-factor ranking: the constants and the worked examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from armory.domain.tool import ToolRecord
from armory.errors import ConfigError
from armory.retrieval.ports import UsageArrays
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.rankers.boosts import NONE, Boost, boost_of, boosted, boosts, tags_of
from armory.retrieval.rankers.factors import (
    history,
    performance,
    popularity,
    usage_percentile,
)
from armory.retrieval.rankers.multi_factor import (
    DEFAULT_WEIGHTS,
    MultiFactorRanker,
    Weights,
    weights_of,
)
from tests.unit.retrieval.rankers.judged import features, names


@pytest.mark.parametrize(
    ("factors", "score"),
    [
        ((0.92, 0.93, 0.95, 0.91), 0.927),
        ((0.86, 0.88, 0.90, 0.92), 0.882),
        ((0.89, 0.82, 0.50, 0.88), 0.793),
    ],
)
def test_the_weighted_sum_gives_the_worked_examples(
    factors: tuple[float, float, float, float], score: float
) -> None:
    assert DEFAULT_WEIGHTS.score(*factors) == pytest.approx(score, abs=0.001)


def test_weights_are_configurable_and_add_up_to_one() -> None:
    assert weights_of({}) == Weights(0.40, 0.25, 0.20, 0.15)
    assert weights_of({"similarity": 0.5, "popularity": 0.15}).similarity == 0.5
    with pytest.raises(ConfigError, match=r"add up to 1\.1"):
        weights_of({"similarity": 0.5})
    with pytest.raises(ConfigError, match="no factor 'speed'"):
        weights_of({"speed": 1.0})
    with pytest.raises(ConfigError, match="none below 0"):
        weights_of({"similarity": 1.0, "popularity": -0.35})


def test_popularity_is_the_usage_percentile_and_a_tenth_of_the_success_rate() -> None:
    used = [1, 5, 5, 20]
    assert usage_percentile(0, used, 11) == 0.0
    assert usage_percentile(20, used, 11) == 1.0
    assert usage_percentile(5, used, 11) == pytest.approx(0.8)
    assert usage_percentile(1, [1], 1) == 1.0
    assert popularity(0.82, 0.98) == pytest.approx(0.918)
    assert popularity(1.0, 1.0) == 1.0


def test_history_is_the_own_success_rate_with_a_boost_for_recent_use() -> None:
    assert history(0, 0, 0) == 0.0
    assert history(15, 9, 30) == pytest.approx(0.6)
    assert history(15, 9, 7) == pytest.approx(0.72)
    assert history(15, 9, 7.01) == pytest.approx(0.6)
    assert history(15, 14, 1) == 1.0


def test_performance_is_the_mean_of_latency_and_reliability() -> None:
    assert performance(1_500, 0.005, 0.9995) == pytest.approx(0.847, abs=0.0005)
    assert performance(50_000, 1.0, 0.0) == 0.0
    assert performance(10_000, 0.0, 1.0) == 0.5
    assert performance(0, 0.0, 1.0) == 1.0


def record(server: str, *tags: str, meta: dict[str, object] | None = None) -> ToolRecord:
    definition = {"name": "t"} if meta is None else {"name": "t", "_meta": meta}
    return ToolRecord(f"{server}__t", server, "t", definition, "f", tags=tags)


def test_boosts_multiply_temporal_then_workflow_then_policy() -> None:
    assert boost_of(record("a", "async"), 17, None).factor == 1.2
    assert boost_of(record("a", "async"), 16, None) == NONE
    assert boost_of(record("a", "low-latency"), 16, None).factor == 1.1
    assert boost_of(record("a", "low-latency"), 17, None) == NONE
    assert boost_of(record("a", "async"), None, None) == NONE
    assert boosts([record("a"), record("b")], None, "a__other")[0].factor == 1.15
    assert boost_of(record("a", "compliance_certified"), None, None).factor == 1.25
    everything = boost_of(record("a", "async", "compliance-certified"), 20, "a")
    assert everything.factor == pytest.approx(1.2 * 1.15 * 1.25)
    assert len(everything.reasons) == 3


def test_a_boosted_score_is_clamped_to_one() -> None:
    assert boosted(0.5, Boost(1.2)) == pytest.approx(0.6)
    assert boosted(0.9, Boost(1.25)) == 1.0


def test_tags_come_from_configuration_and_from_meta() -> None:
    meta: dict[str, object] = {"dev.armory/tags": ["Async", 3], "compliance_certified": True}
    assert tags_of(record("a", "x", meta=meta)) == {"x", "async", "compliance_certified"}


class Used:
    """Everybody's statistics are the best, and nobody's history is known."""

    def statistics(self, user: str | None, names: Sequence[str]) -> UsageArrays:
        best = np.ones(len(names), np.float32)
        return UsageArrays(best, np.zeros_like(best), best)


def test_the_fifty_most_similar_tools_are_weighed_and_no_more() -> None:
    many = [record(f"s{i}") for i in range(60)]
    like = {one.name: 0.9 - 0.01 * i for i, one in enumerate(many)}
    found = replace(features(["send it"], like, many), usage=Used())
    scores = MultiFactorRanker().rank(found, RankSettings())
    assert names(found, scores.order) == [one.name for one in many[:50]]
    assert scores.raw[49] == pytest.approx(0.40 * 0.41 + 0.25 + 0.15)
    # of the others nobody's statistics are asked for
    assert scores.raw[50] == pytest.approx(0.40 * 0.40)


def test_similarity_is_the_best_over_all_intents_and_never_below_zero() -> None:
    found = features(["deploy it and notify the team"], {"git__log": -0.5, "mail__send": 0.2})
    whole, *clauses = found.subqueries
    assert clauses
    place = next(i for i, one in enumerate(found.records) if one.name == "mail__send")
    cosine = np.array(whole.cosine)
    cosine[place] = 0.8
    found = replace(found, subqueries=[whole, replace(clauses[0], cosine=cosine), *clauses[1:]])
    scores = MultiFactorRanker().rank(found, RankSettings())
    assert scores.raw[place] == pytest.approx(0.40 * 0.8 + 0.15 * 0.5)
    log = next(i for i, one in enumerate(found.records) if one.name == "git__log")
    assert scores.raw[log] == pytest.approx(0.15 * 0.5)
    assert scores.signals_at(log)["similarity"] == 0.0
