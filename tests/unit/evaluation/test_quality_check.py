"""The quality benchmark's rule: the default ranker is never worse than a plain one."""

from __future__ import annotations

from typing import Any

from benchmarks.quality.run import worse
from benchmarks.quality.summary import quality, quality_below, sizes


def row(name: str, system: str, recall: float, **more: Any) -> dict[str, Any]:
    listed = {"returned_mean": 3.0}
    return {
        "set": name,
        "system": system,
        "recall@5": recall,
        "tools": 9,
        "queries": 20,
        "threshold": listed,
    } | more


def test_a_set_where_a_plain_ranker_finds_more_is_named() -> None:
    rows = [row("a", "relevance", 0.700), row("a", "hybrid", 0.704), row("a", "BM25", 0.2)]
    assert worse(rows) == []
    rows += [row("b", "relevance", 0.600), row("b", "hybrid", 0.3), row("b", "BM25", 0.61)]
    assert worse(rows) == ["b: relevance 0.600, BM25 0.610"]


def test_the_texts_name_the_sets_on_which_a_plain_ranker_finds_more() -> None:
    none = [row("a", "relevance", 0.700), row("a", "hybrid", 0.704)]
    assert quality_below(none) == (
        "On no set `relevance` is over half a point below the best plain ranker of the run."
    )
    some = [*none, row("b", "semantic", 0.9593), row("b", "relevance", 0.9492)]
    some += [row("b", "hybrid", 0.955), row("c", "relevance", 0.3)]
    mixed = {"of": "a", "tools": 15_009}
    some += [row("a among p", "BM25", 0.5, **mixed), row("a among p", "relevance", 0.4, **mixed)]
    said = (
        "Sets on which `relevance` is over half a point below the best plain ranker of the same "
        "run: b (94.9, `semantic` 95.9; 20 queries), "
        "a among 15,009 (40.0, `BM25` 50.0; 20 queries)."
    )
    assert quality_below(some) == said
    assert said in quality(some)


def test_the_table_has_a_column_for_large_catalogs_where_they_were_measured() -> None:
    alone = [row("a", "hybrid", 0.6), row("a", "relevance", 0.7), row("b", "relevance", 0.5)]
    assert "large" not in quality(alone)
    mixed = {"of": "a", "tools": 15_009}
    among = [row("a among p", "hybrid", 0.4, **mixed), row("a among p", "relevance", 0.5, **mixed)]
    shown = quality([*alone, *among])
    assert "| a | 9 | 60 | 70 | 3.0 | 50, 40 (hybrid) among 15,009 |" in shown
    assert "among p" not in shown.replace("among 15,009", "")
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1


def report(relevance: float, cap: int) -> dict[str, Any]:
    """Two sizes; every other order finds 40 %."""
    orders = ("relevance", "hybrid", "semantic", "lexical")
    found = {order: relevance if order == "relevance" else 0.4 for order in orders}
    row = {o: {"macro": v, "sets": {"a": v, "b": v - 0.1}} for o, v in found.items()}
    row["written"] = {o: {"x": v, "y": v + 0.1} for o, v in found.items()}
    of = {"cap": cap, "python": "3.11", "numpy": "2.4"}
    return {"sizes": {"0": row, "15000": row}, "of": of, "worse than the best plain ranker": []}


def test_recall_over_catalog_size_is_told_for_sets_and_for_real_servers() -> None:
    shown = sizes(report(0.7, 150))
    assert "| Recall@5 | alone | 15,000 beside |" in shown
    assert "| public sets, relevance | 70.0 | 70.0 |" in shown
    assert "| public sets, BM25 | 40.0 | 40.0 |" in shown
    assert "| real servers, relevance | 75.0 | 75.0 |" in shown
    assert "| a | 70 | 40 | 40 | 40 |" in shown
    assert "| b | 60 | 30 | 30 | 30 |" in shown
    assert "at most 150 queries" in shown


def test_sizes_at_which_a_plain_ranker_finds_more_are_named() -> None:
    found = report(0.7, 150)
    assert "Nowhere `relevance` is over half a point below the best plain ranker." in sizes(found)
    found["worse than the best plain ranker"] = [
        {"set": "a", "size": 0, "queries": 44, "gap": -0.0111},
        {"set": "written-x", "size": 15000, "queries": 118, "gap": -0.0127},
    ]
    assert (
        "`relevance` is over half a point below the best plain ranker: a alone (-1.1; 44 queries), "
        "half of the real servers' queries with 15,000 beside (-1.3; 118 queries)."
    ) in sizes(found)
