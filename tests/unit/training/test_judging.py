"""How a calibration is judged before it ships: figures of rankings and lists, and their groups."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.scoring.calibration import Calibration, Linear
from armory.retrieval.scoring.fitting import Observations
from training.english.make import words_of
from training.relevance import among, judge, sets, sized
from training.relevance.need import Acts

WANTED = np.array([[True, False, True, False], [False, False, False, False]])
SEEN = Observations({}, {}, WANTED, np.array([3, 0]))
SCORES = np.array([[0.9, 0.6, 0.2, 0.1], [0.8, 0.1, 0.1, 0.1]], np.float32)
NONE = np.array([False, False])


def test_a_list_is_judged_by_what_passes_the_threshold() -> None:
    at = judge.listing(SEEN, SCORES, NONE, 0.5)
    assert at["returned"].tolist() == [2, 1]
    assert at["recall"].tolist() == pytest.approx([1 / 3, 0])
    assert at["precision"].tolist() == [0.5, 0]
    assert at["f1"].tolist() == pytest.approx([0.4, 0])
    assert at["nothing"].tolist() == [0, 0]


def test_a_query_that_is_refused_gets_nothing() -> None:
    at = judge.listing(SEEN, SCORES, np.array([False, True]), 0.5)
    assert at["nothing"].tolist() == [0, 1]


def test_a_ranking_is_judged_by_all_that_is_wanted_candidates_or_not() -> None:
    first = SEEN.only(np.array([True, False]))
    figures = judge.ranking(first, SCORES[:1])
    assert figures["recall@5"].tolist() == pytest.approx([2 / 3])
    ideal = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert figures["ndcg@10"].tolist() == pytest.approx([(1 + 1 / np.log2(4)) / ideal])


def test_bins_of_a_reliability_diagram_have_everything_once() -> None:
    bins = judge.reliability(SCORES, WANTED, 3)
    assert sum(rows for _, _, rows in bins) == SCORES.size
    assert [p for p, _, _ in bins] == sorted(p for p, _, _ in bins)


def test_an_interval_is_the_same_each_time_and_around_the_mean() -> None:
    values = {"a": np.arange(20.0), "b": np.full(5, 3.0)}
    told = judge.macro(values)
    assert told == judge.macro(values)
    assert told["low"] < told["macro"] < told["high"]
    assert told["sets"] == {"a": 9.5, "b": 3.0}


def test_recall_counts_the_first_five() -> None:
    assert sized.recall(np.array([4, 3, 2, 1, 0, 9]), frozenset({4, 9})) == 0.5


@pytest.mark.parametrize(
    ("name", "group", "plain", "size"),
    [
        ("toole-multi", "toole", "toole-multi", 0),
        ("bfcl among 500", "bfcl", "bfcl", 500),
        ("small-x-07", "written-x", "small-x-07", 0),
        ("written-y", "written-y", "written-y", 0),
    ],
)
def test_sets_that_share_their_tools_are_one(name: str, group: str, plain: str, size: int) -> None:
    assert sets.group_of(name) == group
    assert (among.plain_name(name), among.size_of(name)) == (plain, size)


def test_only_plain_words_are_taken_for_the_list_of_english() -> None:
    lines = ["word\n", "abc\n", "Name\n", "don't\n", "naïve\n", "words\n", "word\n"]
    assert words_of(lines) == {"word", "words"}


def test_what_is_refused_goes_by_the_number_of_tools_as_in_the_product() -> None:
    constants = Calibration(Linear(), Linear(), Linear({"plain": 1.0}), 0.16, 20.0)
    few = np.array([np.log(size) for size in (200 / 15, 200 / 50, 1.0)], np.float32)
    need = np.full(3, -2.44, np.float32)  # a probability of 0.08
    asked = Observations(
        {},
        {"plain": need, "few": few},
        np.ones((3, 1), np.bool_),
        np.ones(3, np.int64),
        1.0,
        list("abc"),
    )
    acts = Acts(lambda texts: np.eye(len(texts), 4, dtype=np.float32))
    assert judge.is_refused(constants, asked, acts).tolist() == [False, True, True]
