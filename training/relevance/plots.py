"""Plots of `docs/retrieval.md` from the JSON of `judge.py`.

python training/relevance/plots.py judge.json docs/img
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

STYLE = {"figure.dpi": 110, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
         "svg.hashsalt": "armory"}  # fmt: skip


def reliability(report: dict[str, object], target: Path) -> None:
    """P against what happened, one line a set."""
    bins: dict[str, list[tuple[float, float, int]]] = report["reliability"]  # type: ignore[assignment]
    ece: dict[str, float] = report["ece"]  # type: ignore[assignment]
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


def thresholds(report: dict[str, object], target: Path) -> None:
    """What a threshold buys."""
    curve: list[dict[str, float]] = report["curve"]  # type: ignore[assignment]
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


def main() -> None:
    """Command line."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        reliability(report, folder / "reliability.svg")
        thresholds(report, folder / "thresholds.svg")


if __name__ == "__main__":
    main()
