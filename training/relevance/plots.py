"""Table and plots of `docs/relevance.md` from the JSON of `judge.py`.

python training/relevance/plots.py judge.json docs/images [PAGE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

STYLE = {"figure.dpi": 110, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
         "svg.hashsalt": "armory"}  # fmt: skip
Report = dict[str, Any]
"""The JSON of `judge.py`."""


def reliability(report: Report, target: Path) -> None:
    """P against what happened, one line a set."""
    bins: dict[str, list[tuple[float, float, int]]] = report["reliability"]
    ece: dict[str, float] = report["ece"]
    figure, axis = plt.subplots(figsize=(5.2, 4.6))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=1, linestyle="--")
    for name, points in bins.items():
        axis.plot(
            [p for p, _, _ in points], [y for _, y, _ in points], marker="o", markersize=3,
            linewidth=1, label=f"{name} ({ece[name]:.3f})",
        )  # fmt: skip
    axis.set_xlabel("P(wanted) that was said")
    axis.set_ylabel("share that was wanted")
    axis.set_title("Reliability, each set left out (calibration error)")
    axis.legend(frameon=False, fontsize=7)
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None})


def thresholds(report: Report, target: Path) -> None:
    """What a threshold buys."""
    curve: list[dict[str, float]] = report["curve"]
    x = [row["threshold"] for row in curve]
    figure, axis = plt.subplots(figsize=(6.0, 4.0))
    for key, label in (
        ("recall", "recall"),
        ("f1", "F1"),
        ("nothing", "wanting queries left with nothing"),
        ("refused", "no-tool queries answered with nothing"),
    ):
        axis.plot(x, [row[key] for row in curve], label=label, linewidth=1.4)
    axis.set_xlabel("similarity_threshold")
    axis.set_ylim(0, 1)
    axis.axvline(0.5, color="0.8", linewidth=1)
    other = axis.twinx()
    other.plot(x, [row["returned"] for row in curve], color="0.3", linestyle=":", label="tools")
    other.set_ylabel("tools listed (dotted)")
    other.set_ylim(0, 20)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(0.0, 0.38))
    axis.set_title("What a threshold buys: macro over the sets, each left out")
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None})


BEGIN, END = "<!-- relevance:begin (generated) -->", "<!-- relevance:end -->"
_ROWS = (
    ("figures", "recall@5", "recall@5"),
    ("figures", "recall@5 plain", "recall@5, plain fusion with the untouched base"),
    ("gains", "recall@5 over plain fusion of the base", "gain in recall@5 over that"),
    ("gains", "recall@5 over the same ranker with the base", "of it by the embedder alone"),
    ("figures", "recall@10", "recall@10"),
    ("figures", "ndcg@10", "nDCG@10"),
    ("gains", "ndcg@10 over plain fusion of the base", "gain in nDCG@10 over plain fusion"),
    ("figures", "recall at 0.5", "recall of the listing at 0.5"),
    ("figures", "precision at 0.5", "precision at 0.5"),
    ("figures", "f1 at 0.5", "F1 at 0.5"),
    ("figures", "returned at 0.5", "tools listed at 0.5"),
    ("figures", "nothing at 0.5", "wanting queries left with nothing"),
    ("figures", "refused at 0.5", "no-tool queries answered with nothing"),
)


def _cell(value: float, key: str) -> str:
    return f"{value:.1f}" if key.startswith("returned") else f"{100 * value:.1f}"


def table(report: Report) -> str:
    """The figures as Markdown, percent but for the number of tools."""
    names = list(report["figures"]["recall@5"]["sets"])
    lines = [
        "| | macro | 95 % | " + " | ".join(names) + " |",
        "|---|---|---|" + "---|" * len(names),
    ]
    for kind, key, label in _ROWS:
        row = report[kind].get(key)
        if row is None:
            continue
        sets: dict[str, float] = row["sets"]
        span = f"{_cell(row['low'], key)} to {_cell(row['high'], key)}"
        cells = [_cell(sets[n], key) if n in sets else "" for n in names]
        macro = _cell(row["macro"], key)
        lines.append(f"| {label} | **{macro}** | {span} | " + " | ".join(cells) + " |")
    ece: dict[str, float] = report["ece"]
    mean = sum(ece.values()) / len(ece)
    cells = [f"{ece[n]:.3f}" for n in names]
    lines.append(f"| calibration error | **{mean:.3f}** | | " + " | ".join(cells) + " |")
    best: dict[str, float] = report["best f1"]
    lines += [
        "",
        f"Best macro F1 at one threshold for all sets: **{best['f1']:.3f}**, at "
        f"{best['threshold']:.2f}, with {best['returned']:.1f} tools listed, recall "
        f"{best['recall']:.2f}, precision {best['precision']:.2f}.",
        "",
        "| threshold | recall | precision | F1 | tools listed | left with nothing | refused |",
        "|---|---|---|---|---|---|---|",
    ]
    curve: list[dict[str, float]] = report["curve"]
    for row in curve:
        if round(row["threshold"] * 100) % 10 == 0:
            cells = [f"{100 * row[k]:.1f}" for k in ("recall", "precision", "f1")]
            cells += [f"{row['returned']:.1f}"]
            cells += [f"{100 * row[k]:.1f}" for k in ("nothing", "refused")]
            lines.append(f"| {row['threshold']:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def insert(page: Path, begin: str, end: str, text: str) -> None:
    """Put `text` between two marks of `page`, in place of what stands there."""
    head, rest = page.read_text(encoding="utf-8").split(begin)
    _, tail = rest.split(end)
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")


def main() -> None:
    """Command line."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        reliability(report, folder / "reliability.svg")
        thresholds(report, folder / "thresholds.svg")
    if len(sys.argv) > 3:
        insert(Path(sys.argv[3]), BEGIN, END, table(report))


if __name__ == "__main__":
    main()
