"""The score, its constants, and fitting them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from armory.errors import ConfigError
from armory.retrieval.scoring.calibration import (
    GENERIC,
    SHIPPED,
    Calibration,
    Linear,
    calibration_for,
    cost_weighted,
    judge,
    parse_calibration,
    read_calibrations,
    shape,
    sigmoid,
)
from armory.retrieval.scoring.fitting import (
    Observations,
    fit_linear,
    fit_steps,
    log_odds_of,
    miss_cost_for,
    scores_of,
)


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_the_score_weighs_what_a_mistake_costs() -> None:
    assert cost_weighted(array(0.2), 4.0)[0] == pytest.approx(0.5)  # 4 * 0.2 against 0.8
    np.testing.assert_allclose(cost_weighted(array(0, 0.3, 1), 1.0), [0, 0.3, 1], atol=1e-6)
    rising = cost_weighted(np.linspace(0, 1, 50, dtype=np.float32), 20.0)
    assert (np.diff(rising) > 0).all()


def test_sigmoid_and_log_odds_are_inverse_and_bounded() -> None:
    p = sigmoid(array(-3, 0, 5))
    np.testing.assert_allclose(np.log(p / (1 - p)), [-3, 0, 5], atol=1e-3)
    assert np.isfinite(sigmoid(array(-1e30, 1e30))).all()


def test_a_signal_that_is_absent_counts_as_nothing() -> None:
    linear = Linear({"here": 2.0, "absent": 9.0}, 1.0)
    np.testing.assert_allclose(linear.over({"here": array(1, 2)}, 2), [3, 5])
    assert linear.of({"here": 2.0}) == 5.0


def test_shape_sets_candidates_against_each_other() -> None:
    alone = shape(array(2.0))
    assert alone["gap"][0] == 0
    assert alone["log_share"][0] == 0
    crowd = shape(array(1.0, 3.0, 2.9))
    assert crowd["gap"].tolist() == pytest.approx([-2.0, 0.0, -0.1], abs=1e-5)
    assert np.exp(crowd["log_share"]).sum() == pytest.approx(1.0)
    assert crowd["log_place"].tolist() == pytest.approx(np.log([3, 1, 2]).tolist())


@pytest.mark.parametrize("size", [1, 3, 13])
def test_each_signal_of_a_candidate_beside_the_others_by_hand(size: int) -> None:
    own = [2.0, -1.0, 2.5, 0.0, 0.5, 2.25, -4.0, 1.0, 0.75, -2.0, 1.5, -0.5, -3.0][:size]
    best = sorted(own, reverse=True)
    top, second, fifth = best[0], best[min(1, size - 1)], best[min(4, size - 1)]
    mass, sharp = (math.log(sum(math.exp(by * v) for v in own)) for by in (1, 2))
    of_all = {
        "top": top,
        "rivals": sharp - 2 * top,
        "expected": sum(1 / (1 + math.exp(-v)) for v in best[:10]),
    }
    found = shape(array(*own))
    for place, v in enumerate(own):
        expected = of_all | {
            "own": v,
            "gap": v - top,
            "gap_near": max(v - top, -1.5),
            "over_second": v - second,
            "over_fifth": v - fifth,
            "log_place": math.log(1 + best.index(v)),
            "log_share": v - mass,
            "log_sharp_share": 2 * v - sharp,
        }
        told = {name: float(values[place]) for name, values in found.items()}
        assert told == pytest.approx(expected, abs=1e-5)


def test_what_is_wanted_is_weighed_by_hand() -> None:
    first = Linear({"a": 2.0}, 0.5)
    second = Linear({"own": 1.0, "a": 0.25, "asked": 3.0}, -1.0)
    constants = Calibration(first, second, Linear(bias=1.0), 0.1, 9.0)
    odds, need = judge(constants, {"a": array(1.0, -2.0)}, {"asked": 0.5}, 2)
    assert odds.tolist() == pytest.approx([2.5 + 0.25 + 1.5 - 1, -3.5 - 0.5 + 1.5 - 1])
    assert need == pytest.approx(1 / (1 + math.exp(-1)))


def test_every_ranker_ships_with_constants_for_any_embedder() -> None:
    shipped = read_calibrations(SHIPPED.read_text(encoding="utf-8"))
    for ranker in ("relevance", "hybrid", "semantic", "lexical"):
        assert GENERIC in shipped[ranker]
        found = calibration_for(ranker, "an embedder that nobody knows")
        assert found == parse_calibration(shipped[ranker][GENERIC])
        assert found.miss_cost > 1
        assert not any("cosine" in name for name in found.first.weights)


def test_tuned_constants_come_first() -> None:
    entry = json.loads(json.dumps(calibration_for("relevance", "").to_json())) | {"miss_cost": 7}
    tuned = {"relevance": {"mine": entry}}
    assert calibration_for("relevance", "mine", tuned).miss_cost == 7
    assert calibration_for("relevance", "other", tuned).miss_cost != 7


def test_a_pair_that_nothing_was_fitted_for_takes_generic_constants() -> None:
    formula = calibration_for("semantic", "generic")
    assert calibration_for("multi_factor", "") == formula
    assert (
        calibration_for("multi_factor", "fastembed:sentence-transformers/all-MiniLM-L6-v2")
        == formula
    )
    assert calibration_for("made up", "made up") == formula
    assert calibration_for("hybrid", "made up") == calibration_for("hybrid", "generic")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"version": 99, "rankers": {}}', '{"version": 1, "rankers": []}']
)
def test_unusable_files_say_what_to_do(text: str) -> None:
    with pytest.raises(ConfigError, match=r"calibration file"):
        read_calibrations(text)


def test_an_unusable_entry_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="armory tune"):
        parse_calibration({"first": {"bias": "x", "weights": {}}})


def test_refusal_looks_at_the_query_alone() -> None:
    one = Linear({"fusion": 1.0})
    need = Linear({"top_cosine": 10.0}, -4.0)
    constants = Calibration(one, Linear({"own": 1.0}), need, 0.15, 20.0)
    signals = {"fusion": array(9.0, 1.0)}
    _, need = judge(constants, signals, {"top_cosine": 0.1}, 2)
    assert need < 0.15
    assert constants.refuses(need, 1_000)
    _, need = judge(constants, signals, {"top_cosine": 0.8}, 2)
    assert need > 0.9
    assert not constants.refuses(need, 1_000)


def test_of_a_few_tools_a_query_is_refused_where_it_is_plain() -> None:
    constants = Calibration(Linear(), Linear(), Linear(), 0.16, 20.0)
    refused = {tools: constants.refuses(0.08, tools) for tools in (1, 15, 20, 40, 50, 15_000)}
    assert refused == {1: False, 15: False, 20: False, 40: True, 50: True, 15_000: True}
    assert constants.refuses(0.039, 1)
    assert not constants.refuses(0.041, 15)
    assert not constants.refuses(0.161, 15_000)


def test_the_direction_of_requests_survives_the_file_and_counts_once() -> None:
    need = Linear({"acts": 4.0}, -2.0)
    constants = Calibration(Linear(), Linear(), need, 0.15, 20.0, array(1.0, -0.5))
    again = parse_calibration(json.loads(json.dumps(constants.to_json())))
    vectors = [array(0.0, 1.0), array(1.0, 0.0)]  # the caller's texts: one asks for an act
    assert again.acts_signal(vectors) == constants.acts_signal(vectors) == {"acts": 1.0}
    assert judge(again, {}, again.acts_signal(vectors), 1)[1] > 0.8
    assert judge(again, {}, again.acts_signal(vectors[:1]), 1)[1] < 0.15
    assert constants.acts_signal([]) == {}
    assert Calibration(Linear(), Linear(), need, 0.15, 20.0).acts_signal(vectors) == {}


def test_a_miss_that_costs_next_to_nothing_is_no_zero_in_the_file() -> None:
    entry = Calibration(Linear(), Linear(), Linear(), 0.1, 6e-6).to_json()
    assert parse_calibration(entry).miss_cost == pytest.approx(6e-6)


def test_a_direction_that_is_no_base64_says_what_to_do() -> None:
    entry = Calibration(Linear(), Linear(), Linear(), 0.1, 9.0).to_json()
    with pytest.raises(ConfigError, match="armory tune"):
        parse_calibration({**entry, "acts": "no base64"})


def test_logistic_regression_finds_the_weights_it_was_made_with() -> None:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(20_000, 2)) * [1.0, 5.0] + [3.0, 0.0]
    odds = 1.5 * x[:, 0] - 0.2 * x[:, 1] - 4
    y = (chance.random(len(x)) < 1 / (1 + np.exp(-odds))).astype(float)
    found = fit_linear(["a", "b"], x, y, np.ones(len(x)), ridge=1.0)
    assert found.weights["a"] == pytest.approx(1.5, abs=0.1)
    assert found.weights["b"] == pytest.approx(-0.2, abs=0.02)
    assert found.bias == pytest.approx(-4, abs=0.3)


def test_few_rows_stay_near_the_prior() -> None:
    prior = Linear({"a": 2.0}, -1.0)
    x, y = np.array([[0.0], [1.0]]), np.array([1.0, 0.0])
    kept = fit_linear(["a"], x, y, np.ones(2), ridge=1e4, prior=prior)
    assert kept.weights["a"] == pytest.approx(2.0, abs=0.05)
    assert kept.bias == pytest.approx(-1.0, abs=0.05)


def test_a_constant_signal_is_left_out() -> None:
    x = np.column_stack([np.ones(10), np.arange(10, dtype=np.float64)])
    y = (np.arange(10) > 4).astype(np.float64)
    assert "constant" not in fit_linear(["constant", "x"], x, y, np.ones(10), ridge=1.0).weights


def observations(queries: int, seed: int) -> Observations:
    """Ten candidates a query; the wanted one tends to have the greatest signal."""
    chance = np.random.default_rng(seed)
    signal = chance.normal(size=(queries, 10)).astype(np.float32)
    wanted = np.zeros((queries, 10), np.bool_)
    wanted[np.arange(queries), (signal + 0.5 * chance.normal(size=signal.shape)).argmax(1)] = True
    return Observations(
        {"s": signal},
        {"q": np.zeros(queries, np.float32)},
        wanted,
        np.ones(queries, np.int64),
    )


def test_two_steps_are_calibrated_on_queries_that_they_have_not_seen() -> None:
    first, second = fit_steps(
        [observations(800, 1)], ["s"], ["own", "gap", "log_share", "log_place"]
    )
    fresh = observations(800, 2)
    p = sigmoid(log_odds_of(fresh, first, second))
    best = np.take_along_axis(fresh.wanted, p.argmax(1)[:, None], 1)
    assert best.mean() > 0.6
    assert p.mean() == pytest.approx(0.1, abs=0.01)
    assert p.max(1).mean() == pytest.approx(best.mean(), abs=0.05)


def test_miss_cost_lists_as_many_as_asked() -> None:
    part = observations(500, 3)
    first, second = fit_steps([part], ["s"], ["own", "gap"])
    odds = log_odds_of(part, first, second)
    cost = miss_cost_for([part], [odds], returned=3.0)
    assert (scores_of(odds, cost) >= 0.5).sum(1).mean() == pytest.approx(3.0, abs=0.05)
