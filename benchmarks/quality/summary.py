"""What README and docs show of the quality benchmarks.

Owns: the tables of `benchmarks/quality/*.json`; `benchmarks.tables` writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Recall@5 below the best plain ranker that is still none.
MARGIN = 0.005

_LARGE = " in a large catalog: relevance, best other |"


def _among(tools: int, recall: dict[str, float]) -> str:
    others = {name: value for name, value in recall.items() if name != "relevance"}
    best = max(others, key=lambda name: others[name])
    return f" {recall['relevance']:.0f}, {others[best]:.0f} ({best}) among {tools:,} |"


@dataclass(frozen=True)
class Below:
    """A set on which `relevance` finds less than a plain ranker; recall@5 of both."""

    name: str
    ours: float
    best: float
    system: str
    queries: int


def below(rows: Sequence[dict[str, Any]]) -> list[Below]:
    """Where `relevance` finds less than the best plain ranker, by more than the margin."""
    by_set: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        name = f"{row['of']} among {row['tools']:,}" if "of" in row else row["set"]
        by_set.setdefault(name, {})[row["system"]] = row
    there: list[Below] = []
    for name, found in by_set.items():
        ours = found.pop("relevance", None)
        if ours is None or not found:
            continue
        best = max(found.values(), key=lambda row: row["recall@5"])
        if ours["recall@5"] < best["recall@5"] - MARGIN:
            figures = (ours["recall@5"], best["recall@5"])
            there.append(Below(name, *figures, best["system"], ours["queries"]))
    return there


def quality_below(rows: Sequence[dict[str, Any]]) -> str:
    """The sets on which a plain ranker finds more than the default, in one sentence."""
    told = [
        f"{it.name} ({100 * it.ours:.1f}, `{it.system}` {100 * it.best:.1f}; {it.queries} queries)"
        for it in below(rows)
    ]
    if not told:
        return "On no set `relevance` is over half a point below the best plain ranker of the run."
    return (
        "Sets on which `relevance` is over half a point below the best plain ranker of the same "
        f"run: {', '.join(told)}."
    )


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
    return head + "\n" + "\n".join(lines) + f"\n\n{quality_below(rows)}" + tail


#: What the columns of the sizes' reports are called in the tables.
_ORDERS = {"relevance": "relevance", "hybrid": "hybrid", "semantic": "semantic", "lexical": "BM25"}


def sizes(report: dict[str, Any]) -> str:
    """Recall@5 over catalog size, as embedders see sets and servers that they were not trained on.

    Args:
        report: of `training.relevance.lean --folds`.
    """
    steps = list(report["sizes"])
    heads = ["alone", *(f"{int(step):,} beside" for step in steps[1:])]
    lines = [f"| Recall@5 | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for key, name in _ORDERS.items():
        values = [100 * report["sizes"][step][key]["macro"] for step in steps]
        lines.append(f"| public sets, {name} | {' | '.join(f'{v:.1f}' for v in values)} |")
    for key, name in _ORDERS.items():
        written = [row["written"][key].values() for row in report["sizes"].values()]
        values = [100 * sum(some) / len(some) for some in written]
        lines.append(f"| real servers, {name} | {' | '.join(f'{v:.1f}' for v in values)} |")
    last = {key: report["sizes"][steps[-1]][key]["sets"] for key in _ORDERS}
    lines += ["", f"| {int(steps[-1]):,} beside | {' | '.join(_ORDERS.values())} |"]
    lines.append("|---|" + "---:|" * len(_ORDERS))
    for name in last["relevance"]:
        lines.append(f"| {name} | {' | '.join(f'{100 * last[k][name]:.0f}' for k in _ORDERS)} |")
    made = report["of"]
    words = (
        f"Percent, macro over the sets, at most {made['cap']} queries a set, with so many tools of "
        f"a pool of real MCP servers beside a set's own. Each set is judged by an embedder and "
        f"constants that were made without it. Real servers: queries written by hand for servers "
        f"of the pool that nothing was trained on. python {made['python']}, numpy {made['numpy']}."
    )
    return "\n".join(lines) + f"\n\n{_sizes_below(report)}\n\n{words}"


def _sizes_below(report: dict[str, Any]) -> str:
    """The sets and sizes at which a plain ranker finds more than the default."""
    told: list[str] = []
    for row in report["worse than the best plain ranker"]:
        written = row["set"].startswith("written-")
        name = "half of the real servers' queries" if written else row["set"]
        where = f"with {row['size']:,} beside" if row["size"] else "alone"
        told.append(f"{name} {where} ({100 * row['gap']:.1f}; {row['queries']} queries)")
    if not told:
        return "Nowhere `relevance` is over half a point below the best plain ranker."
    return f"`relevance` is over half a point below the best plain ranker: {', '.join(told)}."


def livemcp(found: dict[str, Any]) -> str:
    """LiveMCPBench: what was measured, what is on record, what others published."""
    parts = {
        "all": f"all {found['tasks']} tasks: recall@5 (95 %) | recall@10 | nDCG@10",
        "of DATA": "those of `DATA`: recall@5",
        "others": "the others: recall@5",
    }
    there = [part for part in parts if any(part in row for row in found["rows"])]
    there = [part for part in there if len(there) > 2 or part != "of DATA"]
    cells = len(there) + 2
    lines = [
        f"| LiveMCPBench, tool level | {' | '.join(parts[part] for part in there)} "
        "| has seen these tasks |",
        f"|---|{'---:|' * cells}---|",
    ]
    for row in found["rows"]:
        told = [_recall(row[part]) for part in there]
        told[:1] = [f"{told[0]} | {row['all']['recall@10']:.1f} | {row['all']['ndcg@10']:.1f}"]
        lines.append(f"| {row['system']} | {' | '.join(told)} | {row['seen']} |")
    for row in found["on record"]:
        told = [""] * cells
        told[there.index("of DATA") + 2 if "of DATA" in there else 0] = f"{row['recall@5']:.1f}"
        source = f"on record: `{row['file']}`, {row['day']}, {row['commit']}"
        lines.append(f"| {row['system']} | {' | '.join(told)} | {row['seen']} ({source}) |")
    lines += [
        f"| toolrank 0.2.0 publishes, all {found['of']} tasks: {row['system']} "
        f"| {row['recall@5']:.1f} |{' |' * cells}"
        for row in found["published"]
    ]
    left = found["of"] - found["tasks"]
    part = (
        f"the {found['tasks']} labelled tasks of {found['of']} that were at hand, so beside the "
        f"published figures, which are over all {found['of']}, only roughly"
        if left > 0
        else f"all {found['tasks']} tasks"
    )
    versions = ", ".join(f"{name} {value}" for name, value in found["made"].items())
    words = (
        f"Percent over {part}; {found['tools']} tools of {found['servers']} servers. The range: "
        f"tasks drawn again, 2,000 times. `{_command(found)}`; {versions}."
    )
    return "\n".join(lines) + f"\n\n{words}{_annotated(found.get('annotations'))}"


def _recall(part: dict[str, Any]) -> str:
    span = f"{part['recall@5 low']:.0f} to {part['recall@5 high']:.0f}"
    return f"{part['recall@5']:.1f} ({span})"


def _annotated(told: dict[str, Any] | None) -> str:
    """What became of the names in the annotations."""
    if told is None:
        return ""
    several = told["names on several servers"]
    return (
        f" Of {told['annotated']} annotated tasks {told['without a tool of the catalog']} names no "
        f"tool of the catalog and is left out. {len(told['unknown names'])} names in the "
        f"annotations are of no tool ({', '.join(told['unknown names'])}); {len(several)} are of "
        f"tools on several servers, {sum(several.values())} times, and then all of them are "
        f"wanted. {told['tasks that want more than five']} tasks want more than five tools: "
        f"recall@5 cannot exceed {told['best recall@5']:.1f}."
    )


def _command(found: dict[str, Any]) -> str:
    """What makes the figures again."""
    left_out = found.get("left out") or ()
    return " ".join(
        [
            "python -m benchmarks.quality.livemcp DATA",
            *(["--checkout LiveMCPBench"] if found.get("annotations") else []),
            "--base base",
            *(["--fold fold --left-out", *left_out] if left_out else []),
            "--out benchmarks/quality/livemcp.json",
        ]
    )


_TOKENS = "python -m benchmarks.quality.tokens DATA --out benchmarks/quality/tokens.json"
_RRB = "python -m benchmarks.quality.rrb DATA --base base --out benchmarks/quality/rrb.json"


def tokens(found: dict[str, Any]) -> str:
    """Tokens of whole tasks by the way to the tools."""
    lines = [
        "| a whole task | of a request: managing tools | last request | all requests | requests "
        "| wanted tools in context |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['way']} | {row['management']:,} | {row['context']:,} | {row['sent']:,} "
        f"| {row['requests']:.1f} | {row['found']:.0f} % |"
        for row in found["rows"]
    ]
    versions = ", ".join(f"{name} {value}" for name, value in found["made"].items())
    words = (
        f"Mean tokens over the {found['tasks']} tasks of {found['set']} ({found['tools']} tools of "
        f"{found['servers']} servers). `{_TOKENS}`; {versions}."
    )
    return "\n".join(lines) + f"\n\n{words}"


_RANKED = {
    ("words", "lexical"): "BM25",
    ("base", "semantic"): "base embedder, cosine",
    ("base", "hybrid"): "base embedder, `hybrid`",
    ("shipped", "relevance"): "as shipped, `relevance`",
}


def rrb(found: dict[str, Any]) -> str:
    """ToolSense's RRB by tier."""
    rows = {(row["model"], row["ranker"], row["tier"]): row for row in found["rows"]}
    tiers = list(dict.fromkeys(row["tier"] for row in found["rows"]))
    counts = {row["tier"]: row["queries"] for row in found["rows"]}
    head = " | ".join(f"{tier} ({counts[tier]})" for tier in tiers)
    lines = [f"| RRB | {head} | listed at 0.5 |", "|---" + "|---:" * (len(tiers) + 1) + "|"]
    for (model, ranker), name in _RANKED.items():
        if (model, ranker, "all") not in rows:
            continue
        cells: list[str] = []
        for tier in tiers:
            row = rows[model, ranker, tier]
            cells.append(f"{row['first']:.0f} / {row['recall@5']:.0f} / {row['ndcg@10']:.0f}")
        whole = rows[model, ranker, "all"]
        listed = f"{whole['listed']:.0f} % in {whole['returned']:.1f} tools"
        lines.append(f"| {name} | {' | '.join(cells)} | {listed} |")
    versions = ", ".join(f"{name} {value}" for name, value in found["made"].items())
    candidates = ", ".join(map(str, found["candidates"]))
    words = (
        f"Percent: a wanted tool comes first / recall@5 / nDCG@10; {candidates} candidates a "
        f"query. The listing: share of the wanted tools and number of tools. `{_RRB}`; {versions}."
    )
    return "\n".join(lines) + f"\n\n{words}"
