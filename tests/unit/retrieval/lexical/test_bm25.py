"""BM25 over fields: order, fields, forgiveness, increments, the absolute keyword score."""

from __future__ import annotations

import gc
import math
import tracemalloc

import numpy as np
import pytest

from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.postings import FIELDS, Postings
from armory.retrieval.lexical.text import terms

TOOLS = {
    "git__commit": Fields("git_commit", "git", description="Record changes to the repository"),
    "git__log": Fields("git_log", "git", description="Show the commit history of a repository"),
    "time__now": Fields("get_current_time", "time", description="Current time in a time zone"),
    "k8s__deploy": Fields("deploy", "kubernetes", description="Deploy an application to a cluster"),
    "wx__cn": Fields("tianqi", "wx", description="查询城市的天气预报"),
    "bing__cn": Fields("bing_search", "bing", description="使用必应搜索网页"),
    "hu__wx": Fields("idojaras", "hu", description="Lekérdezi egy város időjárását"),
}


def index_of(tools: dict[str, Fields]) -> LexicalIndex:
    index = LexicalIndex()
    for key, fields in tools.items():
        index.add(key, fields)
    return index


@pytest.fixture
def postings() -> Postings:
    return index_of(TOOLS).freeze()


def best(postings: Postings, query: str) -> str:
    return postings.keys[int(np.argmax(postings.search(query).bm25()))]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("commit my changes", "git__commit"),
        ("what time is it", "time__now"),
        ("gitLog", "git__log"),
        ("deeploy to kubernets", "k8s__deploy"),
        ("明天的天气", "wx__cn"),
        ("搜索网页", "bing__cn"),
        ("milyen időjárás lesz", "hu__wx"),
    ],
)
def test_words_of_a_query_find_the_tool(postings: Postings, query: str, wanted: str) -> None:
    assert best(postings, query) == wanted


def test_misspelling_needs_forgiveness(postings: Postings) -> None:
    assert postings.search("kuberntes", forgiving=False).bm25().max() == 0
    assert postings.search("kuberntes").bm25().max() > 0


def test_a_name_hit_weighs_more_than_a_description_hit() -> None:
    found = index_of({"a": Fields("alpha", description="beta"), "b": Fields("beta")}).freeze()
    assert best(found, "beta") == "b"


def test_stuffing_saturates() -> None:
    honest = Fields("convert_currency", description="Convert currency between two countries")
    stuffed = Fields("misc", description="currency convert " * 300)
    filler = {f"f{i}": Fields(f"tool{i}", description="other things") for i in range(10)}
    found = index_of({"honest": honest, "stuffed": stuffed, **filler}).freeze()
    assert best(found, "convert currency") == "honest"


def test_keyword_is_absolute(postings: Postings) -> None:
    scores = postings.keyword("commit history of a repository")
    assert scores.shape == (len(TOOLS),)
    assert scores.min() >= 0
    assert 0 < scores.max() <= 1
    diluted = postings.keyword("commit history of a repository unknownword anotherone")
    assert diluted.max() < scores.max()
    assert postings.keyword("of the").max() == 0


def test_keyword_is_bm25_over_name_and_description_by_hand() -> None:
    index = LexicalIndex()
    index.add("post", Fields("post", params="letter letter", tags="letter", server="letter"))
    index.add("send", Fields("send letter", description="Letter for Bob"))
    index.add("read", Fields("read", description="Bob reads books, newspapers, maps"))
    found = index.freeze()
    # of three tools two have the word in any field; lengths 1, 4 and 6 of name and description
    rare, common = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    assert len(terms("send letter Letter for Bob")) == 4
    assert len(terms("read Bob reads books, newspapers, maps")) == 6

    def saturated(count: int, length: int) -> float:
        return count * 2.2 / (count + 1.2 * (1 - 0.75 + 0.75 * length / (11 / 3)))

    once = found.keyword("letter bob send")
    most = 2.2 * (common + common + rare)
    assert once.tolist() == pytest.approx([
        0.0,
        (common * saturated(2, 4) + common * saturated(1, 4) + rare * saturated(1, 4)) / most,
        common * saturated(1, 6) / most,
    ])  # fmt: skip


@pytest.mark.parametrize("query", ["commit history", "deeploy an application", "history kuberntes"])
def test_keyword_of_what_was_found_already_is_the_same(postings: Postings, query: str) -> None:
    """A misspelt word counts for nothing in it, though the search found what was meant."""
    found = postings.search(query)
    assert postings.keyword(query, found).tolist() == postings.keyword(query).tolist()
    assert (found.alike is None) == (query == "commit history")


def test_a_word_that_looks_like_another_counts_for_less(postings: Postings) -> None:
    """Neither what is covered nor what is said of a name is told as if it were the word itself."""
    rows = np.arange(len(TOOLS))
    exact = postings.fields(postings.search("deploy"), rows)
    variant = postings.fields(postings.search("redeploy"), rows)
    hit = exact.covered > 0
    assert (variant.covered[hit] > 0).all()
    assert (variant.covered[hit] < exact.covered[hit]).all()
    said = exact.said[hit][:, 0] > 0
    assert (variant.said[hit][said, 0] < exact.said[hit][said, 0]).all()


def test_fields_say_where_the_hit_was(postings: Postings) -> None:
    hits = postings.search("git commit history")
    rows = np.array([1, 0, 2])
    found = postings.fields(hits, rows)
    name, description = FIELDS.index("name"), FIELDS.index("description")
    assert found.covered[0] == pytest.approx(1.0)
    assert found.covered[2] == 0
    assert found.said[1, name] == pytest.approx(1.0)  # "git commit" is the whole name
    assert found.shares[0, description] > found.shares[1, description]


def test_shares_stay_shares_where_one_word_looks_like_several() -> None:
    index = index_of({"a": Fields("checkout_checkouts_checkoutes checkoutly"), "b": Fields("log")})
    postings = index.freeze()
    for query in ("chekouts", "checkoutx checkouty checkoutz"):
        found = postings.fields(postings.search(query), np.arange(2))
        for shares in (found.covered, found.shares, found.said):
            assert shares.min() >= 0
            assert shares.max() <= 1 + 1e-6


def test_adding_and_removing_equals_building_anew() -> None:
    index = index_of(TOOLS)
    index.freeze()
    index.remove("git__log")
    index.remove("never there")
    index.add("time__now", Fields("clock", description="tell the hour"))
    rest = {k: v for k, v in TOOLS.items() if k != "git__log"}
    rest["time__now"] = Fields("clock", description="tell the hour")
    anew = index_of(rest).freeze(rest)
    for query in ("commit", "the current hour", "天气", "kuberntes"):
        np.testing.assert_allclose(
            index.freeze(rest).search(query).bm25(), anew.search(query).bm25(), rtol=1e-5
        )


def test_frozen_postings_do_not_change(postings: Postings) -> None:
    index = index_of(TOOLS)
    before = index.freeze()
    assert index.freeze() is before
    index.add("new", Fields("brand_new_thing"))
    assert before.search("brand_new_thing", forgiving=False).bm25().max() == 0
    assert before.search("brandt").bm25().max() == 0
    assert len(index.freeze()) == len(TOOLS) + 1


def test_an_empty_index_and_an_empty_query() -> None:
    empty = LexicalIndex().freeze()
    assert empty.search("anything").bm25().shape == (0,)
    assert empty.keyword("anything").shape == (0,)
    assert index_of(TOOLS).freeze().search("...").bm25().max() == 0


def test_freezing_something_unknown_is_an_error() -> None:
    with pytest.raises(KeyError):
        LexicalIndex().freeze(["missing"])


def test_tools_that_are_read_hold_little_until_they_are_frozen() -> None:
    index, many = LexicalIndex(), 4_000
    fields = Fields("send_mail", "post", description="sends a mail to somebody")
    for number in range(many):  # what a name takes, and what is read but once
        index.add(str(number), fields)
    index.freeze()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(many):
            index.add(str(number), fields)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 400 * many, f"{held / many:.0f} bytes a tool"
    assert len(index.freeze()) == many


def test_what_is_added_again_and_what_goes_before_it_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("armory.retrieval.lexical.bm25._LOOSE", 2)
    index = index_of({f"t{n}": Fields("old") for n in range(7)})
    index.add("t1", Fields("fresh"))
    index.remove("t2")
    index.add("t2", Fields("fresh"))
    index.remove("t5")
    postings = index.freeze()
    assert postings.keys == ("t0", "t1", "t3", "t4", "t6", "t2")
    assert list(postings.search("fresh").bm25() > 0) == [False, True, False, False, False, True]
    assert list(postings.search("old").bm25() > 0) == [True, False, True, True, True, False]
