"""Rankers over hand-made features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from armory.domain.tool import ToolRecord
from armory.retrieval.rankers.base import Ranker, RankSettings
from armory.retrieval.rankers.formulas import (
    HybridRanker,
    LexicalRanker,
    SemanticRanker,
    cosine,
    hybrid,
    keyword,
)
from armory.retrieval.rankers.fusion import best_of, fuse
from armory.retrieval.rankers.relevance import RelevanceRanker
from armory.retrieval.rankers.remembered import with_uses
from armory.retrieval.rankers.signals import candidate_signals
from armory.retrieval.scoring.calibration import TERSE, Lean, Linear, calibration_for
from armory.retrieval.scoring.ordering import Order
from tests.unit.retrieval.rankers.judged import features, names, tools

RANKERS: list[Ranker] = [RelevanceRanker(), HybridRanker(), SemanticRanker(), LexicalRanker()]


def test_of_two_tools_that_are_as_near_the_one_of_the_nearer_server_comes_first() -> None:
    crowd = [ToolRecord(f"x__t{i}", "x", f"t{i}", {}, "0", f"Filler {i}") for i in range(500)]
    like = {"x__t7": 0.52, "math__add": 0.5, "math__sum": 0.4, "math__mean": 0.4}
    more = [ToolRecord(n, "math", n[6:], {}, "0", "A number") for n in ("math__sum", "math__mean")]
    found = features(["how many is that"], like, [*tools()[:6], *more, *crowd])
    numbers = {name: i for i, name in enumerate({r.server: 0 for r in found.records})}
    servers = np.array([numbers[record.server] for record in found.records])
    unknown = RelevanceRanker().rank(found, RankSettings())
    known = RelevanceRanker().rank(replace(found, servers=servers), RankSettings())
    assert names(found, unknown.order)[0] == "x__t7"
    assert names(found, known.order)[0] == "math__add"
    assert known.raw[known.order[0]] == unknown.raw[unknown.order[0]]
    assert known.refused == unknown.refused


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: ranker.name)
def test_the_less_sure_that_any_is_needed_the_fewer_keep_their_probability(ranker: Ranker) -> None:
    crowd = [ToolRecord(f"x__t{i}", "x", f"t{i}", {}, "0", f"Filler {i}") for i in range(90)]
    found = features(["show the commit history"], {"git__log": 0.4}, [*tools()[:6], *crowd])
    shipped = calibration_for(ranker.name, found.embedder, None)
    bar = shipped.refuse_below

    def ranked(need: float) -> list[float]:
        odds = Linear({}, float(np.log(need / (1 - need))))
        entry = replace(shipped, need=odds).to_json()
        settings = RankSettings(calibration={ranker.name: {found.embedder: entry}})
        scores = ranker.rank(found, settings)
        assert not scores.refused
        return scores.probability[scores.order[:40]].tolist()

    sure, doubtful = ranked(bar * 5.5), ranked(bar * 1.08)
    share = 1.08 / 5.4
    kept = 3 + round(17 * share)
    assert doubtful[:kept] == pytest.approx(sure[:kept])
    assert doubtful[kept:] == pytest.approx([p * share for p in sure[kept:]], rel=1e-3)


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: ranker.name)
def test_that_a_wish_is_terse_lets_it_pass_and_makes_it_no_surer(ranker: Ranker) -> None:
    crowd = [ToolRecord(f"x__t{i}", "x", f"t{i}", {}, "0", f"Filler {i}") for i in range(90)]
    found = features(["show history"], {"git__log": 0.4}, [*tools()[:6], *crowd])
    shipped = calibration_for(ranker.name, found.embedder, None)
    bar = shipped.refuse_below
    below = float(np.log(bar / (1 - bar))) - 2.0

    def ranked(need: Linear) -> list[float]:
        entry = replace(shipped, need=need).to_json()
        settings = RankSettings(calibration={ranker.name: {found.embedder: entry}})
        scores = ranker.rank(found, settings)
        assert not scores.refused
        return scores.probability[scores.order[:40]].tolist()

    terse, sure = ranked(Linear({TERSE: 9.0}, below)), ranked(Linear({}, 5.0))
    assert terse[:3] == pytest.approx(sure[:3])
    assert terse[5:] == pytest.approx([p * 0.031 for p in sure[5:]], rel=0.3)


@pytest.mark.parametrize("like", [{"math__add": 0.5, "x__t7": 0.4}, dict.fromkeys(["x__t3"], 0.1)])
def test_the_best_are_those_of_the_whole_order(like: dict[str, float]) -> None:
    crowd = [ToolRecord(f"x__t{i}", "x", f"t{i}", {}, "0", f"Filler {i % 7}") for i in range(700)]
    found = features(["add two numbers"], like, [*tools()[:6], *crowd])
    scores = RelevanceRanker().rank(found, RankSettings())
    assert isinstance(scores.order, Order)
    assert 0 < len(scores.order.best) <= 100
    assert scores.order.tolist() == np.argsort(-scores.raw, kind="stable").tolist()
    assert scores.order.best.tolist() == scores.order.tolist()[: len(scores.order.best)]


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda r: r.name)
def test_every_ranker_judges_every_candidate(ranker: Ranker) -> None:
    found = features(["send an email"], {"mail__send": 0.7, "mail__list": 0.5})
    scores = ranker.rank(found, RankSettings())
    count = len(found.records)
    assert names(found, scores.order)[0] == "mail__send"
    assert sorted(scores.order.tolist()) == list(range(count))
    for values in (scores.raw, scores.probability, scores.score, *scores.signals.values()):
        assert values.shape == (count,)
        assert np.isfinite(values).all()
    assert (scores.probability >= 0).all()
    assert (scores.score <= 1).all()
    assert (np.diff(scores.raw[scores.order]) <= 1e-6).all()
    assert (np.diff(scores.score[scores.order]) <= 1e-6).all()
    reason = ranker.reason(found, scores, int(scores.order[0]))
    assert reason.endswith(".")
    assert reason[0].isupper()


def test_formulas_are_what_they_say() -> None:
    found = features(["commit history"], {"git__log": -0.3, "git__commit": 0.9})
    words, meaning = keyword(found), cosine(found)
    np.testing.assert_allclose(SemanticRanker().formula(found), meaning)
    np.testing.assert_allclose(
        HybridRanker().formula(found), 0.7 * np.maximum(meaning, 0) + 0.3 * words, rtol=1e-5
    )
    np.testing.assert_allclose(LexicalRanker().formula(found), words)
    some = np.array([2, 0])
    for formula in (keyword, cosine, hybrid):
        assert formula(found, some).tolist() == formula(found)[some].tolist()
    assert HybridRanker().formula(found).min() >= 0


def test_words_alone_are_enough_for_the_lexical_ranker() -> None:
    found = features(["commit history"], None)
    scores = LexicalRanker().rank(found, RankSettings())
    assert names(found, scores.order)[0] == "git__log"


def test_each_wish_of_a_query_is_served() -> None:
    like = {"weather__forecast": 0.5, "mail__send": 0.45}
    found = features(["weather forecast of a city and send an email message"], like)
    best = names(found, RelevanceRanker().rank(found, RankSettings()).order)[:3]
    assert {"weather__forecast", "mail__send"} <= set(best)


def test_several_texts_count_by_their_best() -> None:
    like = {"math__add": 0.4, "git__log": 0.4, "weather__forecast": 0.35}
    both = features(["add two numbers", "show the commit history"], like)
    best = names(both, RelevanceRanker().rank(both, RankSettings()).order)[:2]
    assert set(best) == {"math__add", "git__log"}


def test_small_talk_is_refused_and_a_plain_request_is_not() -> None:
    chat = features(["Why do people dream?"], {"math__add": 0.12})
    plain = features(["Please send an email message to Anna"], {"mail__send": 0.8})
    lexical = LexicalRanker()
    assert not RelevanceRanker().rank(plain, RankSettings()).refused
    assert not lexical.rank(plain, RankSettings()).refused
    assert RelevanceRanker().rank(chat, RankSettings()).signals["need"][0] < 0.2


def test_what_is_shown_of_a_refused_query_is_as_unlikely_as_that_it_needs_a_tool() -> None:
    found = features(["Thanks a lot, have a nice day!"], {"mail__send": 0.5})
    scores = RelevanceRanker().rank(found, RankSettings())
    assert scores.refused
    need = scores.signals_at(int(scores.order[0]))["need"]
    assert float(scores.probability.max()) <= need < 0.13
    odds = scores.raw[scores.order[0]]
    assert float(scores.probability.max()) == pytest.approx(need / (1 + np.exp(-odds)), rel=1e-5)


def test_past_uses_lift_a_tool() -> None:
    found = features(["ship it"], {"git__log": 0.3})
    count = len(found.records)
    used = np.zeros(count, np.float32)
    used[0] = 0.9
    uses = np.where(used > 0, 10, 0).astype(np.float32)
    subqueries = [replace(subquery, used=used, past=9 * used) for subquery in found.subqueries]
    learnt = replace(found, subqueries=subqueries, uses=uses)
    ranker = RelevanceRanker()
    before = names(found, ranker.rank(found, RankSettings()).order).index("git__commit")
    after = ranker.rank(learnt, RankSettings())
    assert names(learnt, after.order).index("git__commit") == 0 < before
    said = ranker.reason(learnt, after, 0)
    assert "led to it before" in said
    assert said.endswith(f": wanted with probability {float(after.probability[0]):.2f}.")


def test_one_remembered_tool_does_not_push_down_the_others() -> None:
    found = features(["send an email"], {"mail__send": 0.7})
    past = np.zeros(len(found.records), np.float32)
    past[0] = 1.5  # somewhat like the queries that led to git__commit
    learnt = replace(
        found,
        subqueries=[replace(subquery, past=past, used=past / 4) for subquery in found.subqueries],
        uses=np.where(past > 0, 30, 0).astype(np.float32),
    )
    scores = RelevanceRanker().rank(learnt, RankSettings())
    assert names(learnt, scores.order)[0] == "mail__send"
    before, after = fuse(found).total, fuse(with_uses(learnt)).total
    np.testing.assert_array_equal(before[1:], after[1:])


def test_a_tool_used_for_something_else_is_still_found_by_its_description() -> None:
    found = features(["send an email"], {"mail__send": 0.7})
    unlike = np.full(len(found.records), -1, np.float32)
    learnt = replace(
        found,
        subqueries=[
            replace(subquery, past=unlike, used=np.zeros_like(unlike))
            for subquery in found.subqueries
        ],
        uses=np.full(len(found.records), 30, np.float32),
    )
    position = [record.name for record in found.records].index("mail__send")
    before, after = found.subqueries[0].cosine, with_uses(learnt).subqueries[0].cosine
    assert before is not None
    assert after is not None
    assert after[position] == before[position]


def test_memory_reads_the_clauses_of_a_text_that_has_some() -> None:
    text = "Please show me the commit history and then send an email message to Anna"
    found = features([text], {"git__log": 0.5, "mail__send": 0.5})
    assert len(found.subqueries) > 1
    past = np.full(len(found.records), 4, np.float32)
    learnt = replace(
        found,
        subqueries=[replace(subquery, past=past, used=past / 8) for subquery in found.subqueries],
        uses=np.full(len(found.records), 9, np.float32),
    )
    for subquery, mixed in zip(found.subqueries, with_uses(learnt).subqueries, strict=True):
        assert subquery.whole == np.array_equal(subquery.cosine, mixed.cosine)  # type: ignore[arg-type]


def test_memory_lifts_cosines_and_says_nothing_of_need() -> None:
    found = features(["ship it"], {"git__log": 0.3})
    past = np.zeros(len(found.records), np.float32)
    past[0] = 4.0
    subqueries = [replace(subquery, past=past, used=past / 8) for subquery in found.subqueries]
    learnt = replace(
        found, subqueries=subqueries, uses=np.where(past > 0, 10, 0).astype(np.float32)
    )
    lifted = with_uses(learnt)
    assert lifted.subqueries[0].cosine is not None
    assert found.subqueries[0].cosine is not None
    assert lifted.subqueries[0].cosine[0] > found.subqueries[0].cosine[0]
    ranker = RelevanceRanker()
    need = [ranker.rank(e, RankSettings()).signals["need"][0] for e in (found, learnt)]
    assert need[1] <= need[0] + 0.05, "a lifted tool is no sign that one is needed"


def test_stated_cost_and_tag_boosts() -> None:
    records = tools()
    records[1] = replace(records[1], tags=("approved",))
    found = features(["commit"], {"git__commit": 0.5, "git__log": 0.5}, records)
    ranker = RelevanceRanker()
    plain = ranker.rank(found, RankSettings())
    lax = ranker.rank(found, RankSettings(miss_cost=1_000.0))
    assert (lax.score >= plain.score).all()
    np.testing.assert_allclose(lax.probability, plain.probability)
    boosted = ranker.rank(found, RankSettings(tag_boosts={"approved": 50.0}))
    assert boosted.raw[1] - plain.raw[1] == pytest.approx(np.log(50), abs=1e-4)


def test_a_tool_without_siblings_and_one_with() -> None:
    found = features(["emails"], {"mail__send": 0.6, "mail__list": 0.6, "math__add": 0.55})
    fusion = fuse(found)
    signals = candidate_signals(found, fusion)
    order = [found.records[i].name for i in fusion.best]
    assert signals["sibling_mass"][order.index("mail__list")] > 0
    assert signals["sibling_mass"][order.index("math__add")] == 0


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda r: r.name)
def test_one_tool_and_nothing_in_common(ranker: Ranker) -> None:
    only = [ToolRecord("a__b", "a", "b", {}, "0", "Something")]
    scores = ranker.rank(features(["???"], {"a__b": 0.2}, only), RankSettings())
    assert scores.order.tolist() == [0]
    assert np.isfinite(scores.score).all()


@pytest.mark.parametrize(("ties", "depth"), [(2000, 100), (37, 20), (5000, 50)])
def test_of_equal_values_the_first_are_taken(ties: int, depth: int) -> None:
    values = np.zeros(ties + 10, np.float32)
    values[[ties, 3, 7]] = (3.0, 1.0, 2.0)
    rest = [i for i in range(ties) if i not in (3, 7)]
    assert best_of(values, depth).tolist() == [ties, 7, 3, *rest[: depth - 3]]


def test_the_best_by_words_is_judged_though_nothing_of_it_is_meant() -> None:
    others = [
        ToolRecord(f"y__t{i}", "y", f"t{i}", {}, "0", description=f"Something else {i}")
        for i in range(150)
    ]
    records = [*tools(), *others]
    like = {record.name: 0.5 for record in others} | {"mail__send": -0.9}
    found = features(["send an email"], like, records)
    fusion = fuse(found)
    assert "mail__send" in names(found, fusion.best)
    assert len(set(fusion.best.tolist())) == len(fusion.best) == 100
    assert (np.diff(fusion.total[fusion.best]) <= 0).all()


@pytest.mark.parametrize(
    ("tools_in_all", "gain", "onto", "first"),
    [
        (36, -1.0, "semantic", "mail__send"),
        (20_000, -1.0, "semantic", "weather__forecast"),
        (20_000, -1.0, "hybrid", "weather__forecast"),
        (20_000, 1.0, "semantic", "mail__send"),
    ],
)
def test_a_large_catalog_leans_on_the_plain_orders(
    tools_in_all: int, gain: float, onto: str, first: str
) -> None:
    found = features(["send an email"], {"weather__forecast": 0.9, "mail__send": 0.2}, tools())
    words_alone = replace(
        calibration_for("relevance", "e"),
        first=Linear({"words_z": 1.0}),
        second=Linear({"own": 1.0}),
        lean=Lean(Linear({}, gain), {onto: 1.0}),
    )
    settings = RankSettings(calibration={"relevance": {"e": words_alone.to_json()}})
    scores = RelevanceRanker().rank(replace(found, visible=tools_in_all), settings)
    assert names(found, scores.order)[0] == first


@pytest.mark.parametrize(("tools_in_all", "among_five"), [(46, False), (20_000, True)])
def test_what_is_nearest_in_meaning_is_never_ordered_away(
    tools_in_all: int, among_five: bool
) -> None:
    mail = [
        ToolRecord(f"p__t{i}", "p", f"t{i}", {}, "0", description="Send an email now")
        for i in range(10)
    ]
    found = features(["send an email"], {"weather__forecast": 0.9}, [*tools(), *mail])
    words_alone = replace(
        calibration_for("relevance", "e"),
        first=Linear({"words_z": 1.0}),
        second=Linear({"own": 1.0}),
        lean=Lean(Linear({}, 1.0), {"hybrid": 0.5, "semantic": 0.5}),
    )
    settings = RankSettings(calibration={"relevance": {"e": words_alone.to_json()}})
    scores = RelevanceRanker().rank(replace(found, visible=tools_in_all), settings)
    five = names(found, scores.order)[:5]
    assert ("weather__forecast" in five) == among_five
    assert sum(name.startswith(("p__", "mail__")) for name in five) == 5 - among_five
