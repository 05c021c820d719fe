"""Tables and plot of `docs/relevance.md` over catalog sizes, from the JSON of `lean.py`.

python training/relevance/sizes.py sizes.json sizes-base.json docs/images/sizes.svg PAGE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- sizes:begin (generated) -->", "<!-- sizes:end -->"
BASE = "<!-- sizes-base:begin (generated) -->", "<!-- sizes-base:end -->"
_CURVES = (
    ("relevance", "relevance"),
    ("hybrid", "hybrid"),
    ("semantic", "semantic"),
    ("lexical", "lexical (BM25)"),
)
_ROWS = (
    *_CURVES,
    ("relevance, not leaned", "relevance, by itself at every size"),
)
Report = dict[str, Any]


def _spot(row: dict[str, Any], key: str) -> str:
    found = row[key]
    return f"{100 * found['macro']:.1f} ({100 * found['low']:.1f} to {100 * found['high']:.1f})"


def _over(row: dict[str, Any]) -> str:
    return next(key for key in row if key.startswith("relevance over "))


def table(report: Report) -> str:
    """The figures as Markdown, percent but for tools and calibration error."""
    sizes: dict[str, dict[str, Any]] = report["sizes"]
    heads = ["alone" if size == "0" else f"among {int(size):,}" for size in sizes]
    lines = ["| recall@5, macro | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for key, label in _ROWS:
        cells = [_spot(row, key) for row in sizes.values()]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    cells = [_spot(row, _over(row)) for row in sizes.values()]
    lines.append("| points above `hybrid`, query by query | " + " | ".join(cells) + " |")
    for key, label in (("recall at 0.5", "recall of the listing at 0.5"),):
        lines.append(f"| {label} | " + " | ".join(_spot(r, key) for r in sizes.values()) + " |")
    cells = [f"{row['tools at 0.5']['macro']:.1f}" for row in sizes.values()]
    lines.append("| tools listed at 0.5 | " + " | ".join(cells) + " |")
    cells = [_spot(row, "nothing at 0.5") for row in sizes.values()]
    lines.append("| left with nothing | " + " | ".join(cells) + " |")
    errors = [list(row["calibration error"].values()) for row in sizes.values()]
    cells = [f"{sum(part) / len(part):.3f}" for part in errors]
    lines.append("| calibration error | " + " | ".join(cells) + " |")
    last = list(sizes.values())[-1]
    sets = list(last["relevance"]["sets"])
    lines += ["", f"| recall@5, {heads[-1]} | " + " | ".join(sets) + " | written x | written y |"]
    lines.append("|---|" + "---|" * (len(sets) + 2))
    for key, label in _ROWS:
        cells = [f"{100 * last[key]['sets'][name]:.1f}" for name in sets]
        written = last["written"].get(key, {})
        cells += [f"{100 * written[h]:.1f}" if h in written else "" for h in _HALVES]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _worse(report)])


_HALVES = ("written-x", "written-y")


def _worse(report: Report) -> str:
    worse: list[dict[str, Any]] = report["worse than the best plain ranker"]
    if not worse:
        return "None is worse than the best plain ranker by over half a point."
    said = [
        f"{row['set']} {'among ' + format(row['size'], ',') if row['size'] else 'alone'}"
        f" ({100 * row['gap']:.1f}; {row['queries']} queries)"
        for row in worse
    ]
    return "Worse than the best plain ranker by over half a point: " + ", ".join(said) + "."


def base_table(report: Report) -> str:
    """Recall@5 of the labelled sets and of the written queries, percent."""
    sizes: dict[str, dict[str, Any]] = report["sizes"]
    heads = ["alone" if size == "0" else f"{int(size):,}" for size in sizes]
    lines = ["| recall@5 | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for key, label in _ROWS:
        cells = [_spot(row, key) for row in sizes.values()]
        lines.append(f"| public sets, {label} | " + " | ".join(cells) + " |")
    for key, label in _CURVES:
        halves = [[row["written"][key][half] for half in _HALVES] for row in sizes.values()]
        cells = [f"{100 * sum(part) / len(part):.1f}" for part in halves]
        lines.append(f"| written queries, {label} | " + " | ".join(cells) + " |")
    for key, label in (("recall at 0.5", "recall of the listing at 0.5"),):
        lines.append(f"| {label} | " + " | ".join(_spot(r, key) for r in sizes.values()) + " |")
    cells = [f"{row['tools at 0.5']['macro']:.1f}" for row in sizes.values()]
    lines.append("| tools listed at 0.5 | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _worse(report)])


def plot(report: Report, target: Path) -> None:
    """Recall@5 over how many tools of the pool stand beside a set's own."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from training.relevance.plots import STYLE

    sizes: dict[str, dict[str, Any]] = report["sizes"]
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(6.0, 4.0))
        places = range(len(sizes))
        for key, label in _CURVES:
            rows = [row[key] for row in sizes.values()]
            axis.plot(places, [r["macro"] for r in rows], marker="o", markersize=3, label=label)
            low, high = [r["low"] for r in rows], [r["high"] for r in rows]
            axis.fill_between(places, low, high, alpha=0.12)
        axis.set_xticks(list(places), ["alone", *(f"{int(s):,}" for s in list(sizes)[1:])])
        axis.set_xlabel("other tools beside the set's own")
        axis.set_ylabel("recall@5, macro over eight sets")
        axis.legend(frameon=False, fontsize=8)
        figure.savefig(target, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    """Command line."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    base = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    plot(report, Path(sys.argv[3]))
    from training.relevance.plots import insert

    insert(Path(sys.argv[4]), BEGIN, END, table(report))
    insert(Path(sys.argv[4]), *BASE, base_table(base))


if __name__ == "__main__":
    main()
