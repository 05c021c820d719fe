"""What the README shows of the quality benchmark.

Owns: the summary of `benchmarks/quality/results.json`; `benchmarks.tables` writes it.
"""

from __future__ import annotations

from typing import Any

_LARGE = " in a large catalog: relevance, best other |"


def _among(tools: int, recall: dict[str, float]) -> str:
    others = {name: value for name, value in recall.items() if name != "relevance"}
    best = max(others, key=lambda name: others[name])
    return f" {recall['relevance']:.0f}, {others[best]:.0f} ({best}) among {tools:,} |"


def quality(rows: list[dict[str, Any]]) -> str:
    """Recall@5 of every set and system, and what a listing returns at the default threshold."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    by_set: dict[str, dict[str, dict[str, Any]]] = {}
    large: dict[str, tuple[int, dict[str, float]]] = {}
    for row in rows:
        if "of" in row:  # the same set among another catalog's tools
            found = large.setdefault(row["of"], (row["tools"], {}))[1]
            found[row["system"]] = 100 * row["recall@5"]
            continue
        by_set.setdefault(row["set"], {})[row["system"]] = row
    lines = [
        f"| Set | Tools | {' | '.join(systems)} | listed at 0.5 |" + _LARGE * bool(large),
        f"|---|---:|{'---:|' * len(systems)}---:|" + "---|" * bool(large),
    ]
    refusals: list[str] = []
    for name, found in by_set.items():
        if not any(row["recall@5"] for row in found.values()):  # queries that need no tool
            share = found["relevance"]["abstention_accuracy"]
            refusals.append(f"{100 * share:.0f} % of the queries of {name} that need none")
            continue
        figures = [f"{100 * found[s]['recall@5']:.0f}" if s in found else "" for s in systems]
        shown = found.get("relevance")
        listed = f"{shown['threshold']['returned_mean']:.1f}" if shown else ""
        tools = next(iter(found.values()))["tools"]
        line = f"| {name} | {tools:,} | {' | '.join(figures)} | {listed} |"
        lines.append(line + (_among(*large[name]) if name in large else " |" * bool(large)))
    head = (
        "Recall@5 in percent on public sets of tools and queries, and the number of tools that a "
        "query gets at the\ndefault threshold. `relevance` is the default; its constants were "
        "fitted on these sets.\n"
    )
    tail = f"\n\n`relevance` answers {' and '.join(refusals)} with nothing." if refusals else ""
    return head + "\n" + "\n".join(lines) + tail
