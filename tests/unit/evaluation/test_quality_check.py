"""The quality benchmark's rule: the default ranker is never worse than a plain one."""

from __future__ import annotations

from typing import Any

from benchmarks.quality.run import worse
from benchmarks.quality.summary import quality, sizes


def row(name: str, system: str, recall: float, **more: Any) -> dict[str, Any]:
    listed = {"returned_mean": 3.0}
    return {
        "set": name,
        "system": system,
        "recall@5": recall,
        "tools": 9,
        "threshold": listed,
    } | more


def test_a_set_where_a_plain_ranker_finds_more_is_named() -> None:
    rows = [row("a", "relevance", 0.700), row("a", "hybrid", 0.704), row("a", "BM25", 0.2)]
    assert worse(rows) == []
    rows += [row("b", "relevance", 0.600), row("b", "hybrid", 0.3), row("b", "BM25", 0.61)]
    assert worse(rows) == ["b: relevance 0.600, BM25 0.610"]


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
    return {"sizes": {"0": row, "15000": row}, "of": of}


def test_recall_over_catalog_size_is_told_for_sets_and_for_real_servers() -> None:
    shown = sizes(report(0.7, 150))
    assert "| Recall@5 | alone | 15,000 beside |" in shown
    assert "| public sets, relevance | 70.0 | 70.0 |" in shown
    assert "| public sets, BM25 | 40.0 | 40.0 |" in shown
    assert "| real servers, relevance | 75.0 | 75.0 |" in shown
    assert "| a | 70 | 40 | 40 | 40 |" in shown
    assert "| b | 60 | 30 | 30 | 30 |" in shown
    assert "at most 150 queries" in shown
