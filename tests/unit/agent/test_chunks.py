"""Chunks, labels and the memory of a run (rules D4 to D6), without a model."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.agent.chunks import Chunk, Hit, Tracker, cut
from armory.agent.findings import tools_of
from armory.agent.labels import Search, counts, label, strength, useful
from armory.domain.results import Match
from armory.domain.tool import ToolRecord


@pytest.mark.parametrize(
    ("score", "wanted"),
    [
        (40.0, "strong"), (15.0, "strong"), (14.99, "good"), (8.0, "good"), (7.99, "partial"),
        (3.0, "partial"), (2.99, "weak"), (1.0, "weak"), (0.4, "weak"), (0.0, "none"),
    ],
)  # fmt: skip
def test_bm25_labels(score: float, wanted: str) -> None:
    assert label("keyword_search", score) == wanted


@pytest.mark.parametrize(
    ("score", "wanted"),
    [
        (1.0, "strong"), (0.5, "strong"), (0.499, "good"), (0.35, "good"), (0.349, "marginal"),
        (0.2, "marginal"), (0.199, "noise"), (0.0, "noise"), (-0.3, "noise"),
    ],
)  # fmt: skip
def test_vector_labels(score: float, wanted: str) -> None:
    assert label("vector_search", score) == wanted


def test_counts_are_in_order_of_quality() -> None:
    assert counts(["noise", "strong", "noise", "good"]) == "1 strong, 1 good, 2 noise"
    assert counts([]) == ""


@given(st.floats(0, 200), st.floats(0, 200))
def test_strength_keeps_the_order_of_bm25(left: float, right: float) -> None:
    low, high = sorted((left, right))
    assert 0 <= strength("keyword_search", low) <= strength("keyword_search", high) <= 1


@pytest.mark.parametrize(("bm25", "cosine"), [(3.0, 0.2), (8.0, 0.35), (15.0, 0.5)])
def test_labels_of_both_searches_begin_at_the_same_strength(bm25: float, cosine: float) -> None:
    assert strength("keyword_search", bm25) == pytest.approx(cosine)
    assert strength("vector_search", cosine) == cosine


def test_useful_labels() -> None:
    assert [name for name in ("strong", "partial", "weak", "noise", "none") if useful(name)] == [
        "strong",
        "partial",
    ]


def test_chunks_are_512_words_with_50_of_overlap() -> None:
    words = [f"w{i}" for i in range(1_000)]
    pieces = [piece.split() for piece in cut(" ".join(words))]
    assert [len(piece) for piece in pieces] == [512, 512, 76]
    assert pieces[0][-50:] == pieces[1][:50]
    assert pieces[1][-50:] == pieces[2][:50]


@given(
    st.lists(st.text("ab\u4e00", min_size=1, max_size=3), max_size=60),
    st.integers(2, 9),
    st.integers(0, 1),
)
def test_cutting_loses_nothing(words: list[str], size: int, overlap: int) -> None:
    pieces = [piece.split() for piece in cut("  \n".join(words), size, overlap)]
    again = [word for i, piece in enumerate(pieces) for word in (piece[overlap:] if i else piece)]
    assert again == words
    assert all(0 < len(piece) <= size for piece in pieces)


def test_an_overlap_as_long_as_the_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        cut("a b", 5, 5)


def hit(chunk_id: str, text: str, score: float, search: Search = "vector_search") -> Hit:
    tool = ToolRecord(chunk_id.partition("#")[0], "s", chunk_id, {}, "f")
    return Hit(Chunk(chunk_id, text), search, score, Match(tool, 0.5, 0.5, score))


def test_a_digest_is_the_md5_of_the_text() -> None:
    wanted = hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    assert Chunk("a#0", " hello\n").digest == wanted


def test_the_same_text_under_two_ids_is_one_chunk_with_the_higher_score() -> None:
    tracker = Tracker()
    shown, new = tracker.admit([hit("a#0", "same", 0.3), hit("b#0", "same", 0.6)], 5)
    assert ([h.chunk.id for h in shown], new) == (["b#0"], 1)
    shown, new = tracker.admit([hit("a#0", "same", 0.4)], 5)
    assert (len(shown), new) == (1, 0)
    assert [h.score for h in tracker.hits] == [0.6]


def test_scores_of_both_searches_compare_by_strength() -> None:
    tracker = Tracker()
    tracker.admit([hit("a#0", "same", 0.45)], 5)
    tracker.admit([hit("a#0", "same", 9.0, "keyword_search")], 5)  # 0.37 on the cosine's scale
    assert tracker.hits[0].search == "vector_search"


def test_rejected_texts_never_come_in_and_leave_their_place_to_others() -> None:
    bad = Chunk("a#0", "bad").digest
    tracker = Tracker({bad})
    found = [hit("a#0", "bad", 0.9), hit("b#0", "fine", 0.5), hit("c#0", "also", 0.4)]
    shown, new = tracker.admit(found, 2)
    assert [h.chunk.id for h in shown] == ["b#0", "c#0"]
    assert new == 2


def test_a_tool_is_named_only_as_a_whole_word() -> None:
    hits = [hit("git__push#0", "a", 0.3), hit("git__push_all#0", "b", 0.9)]
    found = tools_of(hits, "Use git__push.", 5)
    assert [(f.tool.name, f.named) for f in found] == [
        ("git__push", True),
        ("git__push_all", False),
    ]
    assert "named in the agent's answer" in found[0].reason


def test_noise_is_no_finding_unless_the_answer_names_it() -> None:
    hits = [hit("a__x#0", "a", 0.1), hit("b__y#0", "b", 0.05)]
    assert [f.tool.name for f in tools_of(hits, "b__y#0", 5)] == ["b__y"]


def test_findings_are_capped() -> None:
    hits = [hit(f"s__t{i}#0", str(i), 0.9 - i / 100) for i in range(9)]
    assert [f.tool.name for f in tools_of(hits, "", 3)] == ["s__t0", "s__t1", "s__t2"]
