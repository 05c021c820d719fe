"""The quality benchmark's rule: the default ranker is never worse than a plain one."""

from __future__ import annotations

from typing import Any

from benchmarks.quality.run import worse
from benchmarks.quality.summary import quality


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
