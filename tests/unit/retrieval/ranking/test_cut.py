"""Threshold, refusal, floors and caps, as a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from armory.domain.tool import ToolRecord
from armory.retrieval.features import NO_MOMENTS, CandidateFeatures, Subquery
from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.options import Limits
from armory.retrieval.rankers.base import Scores
from armory.retrieval.rankers.formulas import SemanticRanker
from armory.retrieval.ranking.answer import Ranking
from armory.retrieval.ranking.cut import word_share
from armory.retrieval.ranking.diversity import mmr
from armory.retrieval.ranking.tokens import TokenCounts, definition_tokens
from armory.retrieval.scoring.ordering import Order

LOW = "below threshold"
SCORES = [0.9, 0.2, 0.7, 0.5]
RAW = [3.0, -1.0, 0.4, 2.0]
COSINES = [-0.2, -0.3, 0.7, 0.0]
COSTS = [40, 40, 40, 25]


def tool(place: int, tokens: int) -> ToolRecord:
    """A tool whose definition has so many tokens."""
    definition = {"name": f"t{place}", "description": ""}
    while definition_tokens(definition) < tokens:
        definition["description"] += " word"
    return ToolRecord(f"s__t{place}", "s", f"t{place}", definition, "0")


def ranking(refused: bool = False, *, dense: bool = True, by_words: bool = False) -> Ranking:
    """Four candidates; only the first two have a word of the query."""
    score, raw = np.array(SCORES, np.float32), np.array(RAW, np.float32)
    index = LexicalIndex()
    for place, text in enumerate(["deploy release", "deploy", "other", "thing"]):
        index.add(str(place), Fields(text))
    postings = index.freeze()
    hits = postings.search("deploy release")
    bm25, cosine = hits.bm25(), np.array(COSINES, np.float32)
    subquery = Subquery(
        text="deploy release",
        parent=0,
        whole=True,
        cosine=cosine if dense else None,
        cosine_moments=NO_MOMENTS,
        bm25=bm25,
        bm25_moments=NO_MOMENTS,
        hits=hits,
    )
    records = [tool(place, tokens) for place, tokens in enumerate(COSTS)]
    features = CandidateFeatures([subquery], records, np.arange(4), postings, 4, "e")
    scores = Scores(np.argsort(-score), raw, score, score, refused=refused, by_words=by_words)
    return Ranking(features, scores, Order.of(scores.order), SemanticRanker(), TokenCounts())


@pytest.mark.parametrize(
    ("limits", "refused", "shown", "withheld"),
    [
        (Limits(), False, [0, 2, 3], {1: LOW}),
        (Limits(threshold=0.0), False, [0, 2, 3, 1], {}),
        (Limits(threshold=1.0), False, [], dict.fromkeys(range(4), LOW)),
        (Limits(threshold=1.0, min_tools=2), False, [0, 2], dict.fromkeys([1, 3], LOW)),
        (Limits(max_tools=1), False, [0], {2: "cap", 3: "cap", 1: LOW}),
        (Limits(), True, [], dict.fromkeys(range(4), "refused")),
        (Limits(min_tools=1), True, [0], dict.fromkeys([1, 2, 3], "refused")),
        (Limits(threshold=0.5, threshold_on="raw"), False, [0, 3], dict.fromkeys([1, 2], LOW)),
        (Limits(threshold=0.5, threshold_on="raw"), True, [0, 3], dict.fromkeys([1, 2], LOW)),
        (Limits(token_budget=65), False, [0, 3], {2: "token budget", 1: LOW}),
        (Limits(threshold=None), True, [0, 2, 3, 1], {}),
        (Limits(threshold=None, max_tools=2), False, [0, 2], {3: "cap", 1: "cap"}),
        (Limits(threshold=None, min_raw=0.5), True, [0, 3], dict.fromkeys([2, 1], LOW)),
        (Limits(threshold=0.0, min_cosine=0.0), False, [2, 3], dict.fromkeys([0, 1], LOW)),
        (Limits(token_budget=25, min_tools=3), False, [3],
         {0: "token budget", 2: "token budget", 1: LOW}),
    ],
)  # fmt: skip
def test_limits_cut_a_ranking_and_say_why(
    limits: Limits, refused: bool, shown: list[int], withheld: dict[int, str]
) -> None:
    answer = ranking(refused)
    explained = answer.cut(limits, explain=True)
    assert (explained.shown, explained.withheld) == (shown, withheld)
    assert answer.cut(limits).shown == shown


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        (Limits(), [0]),
        (Limits(threshold=0.8), [0]),
        (Limits(threshold=0.95), [0]),  # named plainly by the words
        (Limits(threshold=0.95, exact=True), []),
        (Limits(threshold=0.0, exact=True), [0, 2, 3, 1]),
        (Limits(threshold=0.1, exact=True), [0, 1]),
        (Limits(threshold=None), [0, 2, 3, 1]),
        (Limits(threshold=None, min_cosine=0.1), []),
        (Limits(threshold=None, min_cosine=0.0), [0, 2, 3, 1]),
    ],
)
def test_by_words_alone_a_tool_needs_a_word_of_the_query(limits: Limits, shown: list[int]) -> None:
    assert ranking(dense=False).cut(limits).shown == shown


class Explaining(SemanticRanker):
    """Notes for which candidates a reason was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """As the meaning ranker's."""
        self.asked.append(position)
        return super().reason(features, scores, position)


def test_reasons_are_computed_where_they_are_read() -> None:
    ranker = Explaining()
    found = replace(ranking(), ranker=ranker).select(Limits(), explain=True)
    assert [len(found.matches), len(found.ranking), ranker.asked] == [3, 4, []]
    assert found.matches[1].reason.startswith("Meaning 0.70")
    assert ranker.asked == [2]


def test_where_words_decide_beside_vectors_a_tool_needs_one_too() -> None:
    assert ranking(by_words=True).cut(Limits(threshold=0.4)).shown == [0]
    assert ranking().cut(Limits(threshold=0.4)).shown == [0, 2, 3]


def test_the_share_of_words_is_of_all_that_a_tool_could_have() -> None:
    both, one, *none = word_share(ranking().features).tolist()
    assert 0.0 < one < both <= 1.0
    assert none == [0.0, 0.0]
    assert both > 0.5


def test_the_selection_is_the_cut_with_its_tools() -> None:
    selection = ranking().select(Limits(max_tools=2), explain=True)
    assert [match.tool.name for match in selection.matches] == ["s__t0", "s__t2"]
    assert [match.tool.name for match in selection.ranking] == ["s__t0", "s__t2", "s__t3", "s__t1"]
    assert selection.withheld == {"s__t3": "cap", "s__t1": LOW}
    assert (selection.visible, selection.threshold) == (4, 0.5)
    assert selection.top_score == pytest.approx(0.9)
    assert selection.matches[0].reason
    assert selection.matches[0].raw_score == pytest.approx(3.0)
    assert selection.nearest == ()


@pytest.mark.parametrize(
    ("limits", "refused", "threshold", "nearest"),
    [
        (Limits(threshold=0.99), False, 0.99, 4),
        (Limits(), True, 0.5, 4),
        (Limits(threshold=9.0, threshold_on="raw"), False, 9.0, 4),
        (Limits(threshold=9.0, threshold_on="raw"), True, 9.0, 4),
        (Limits(threshold=None), True, 0.0, 0),
    ],
)
def test_where_nothing_is_shown_the_nearest_are_named(
    limits: Limits, refused: bool, threshold: float, nearest: int
) -> None:
    selection = ranking(refused).select(limits)
    assert bool(selection.matches) is (nearest == 0)
    assert (selection.threshold, len(selection.nearest)) == (threshold, nearest)
    assert selection.refused is (refused and limits.threshold_on != "raw")
    assert (selection.ranking, selection.withheld) == ((), {}), "nobody asked why"


def test_an_empty_ranking_answers_like_any_other() -> None:
    empty = Ranking.empty(SemanticRanker(), "nothing is indexed yet")
    for limits in (Limits(), Limits(threshold=None), Limits(min_tools=3, token_budget=1)):
        selection = empty.select(limits, explain=True)
        assert (selection.matches, selection.ranking, selection.withheld) == ((), (), {})
    assert (selection.visible, selection.degraded) == (0, "nothing is indexed yet")
    assert (empty.top_score, empty.features.dense, empty.features.cosine) == (0.0, False, None)
    assert empty.cut(Limits(threshold=None, min_raw=0.1, min_cosine=0.1)).shown == []


def test_mmr_by_hand() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    score = np.array([0.9, 0.8, 0.6], np.float32)
    assert mmr(score, vectors, 1.0) == [0, 1, 2]
    # second pick: 0.5 * 0.8 - 0.5 * 1 = -0.1 against 0.5 * 0.6 - 0 = 0.3
    assert mmr(score, vectors, 0.5) == [0, 2, 1]
    assert mmr(np.zeros(0, np.float32), np.zeros((0, 2), np.float32), 0.5) == []
