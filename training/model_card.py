"""The figures of the model card: leave-sets-out with bootstrap intervals, and validation splits.

Usage: python -m training.model_card DATA --base FOLDER --folds DIR [--final FOLDER]
--cache DIR --out JSON

`--base` and `--final` are exported folders; `DIR/<fold>` is the exported model of a fold. What is
measured is the int8 file as it ships, over all labelled queries of the sets that the fold's model
never saw.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.data import FOLDS, LABELLED, is_validation, load
from training.evaluate import METRICS, judge, onnx_embedder, pick

LEGS = ("dense", "fusion")
Found = dict[str, dict[str, NDArray[np.float64]]]


def interval(differences: list[NDArray[np.float64]], rounds: int = 4000) -> list[float]:
    """95 % bootstrap interval, in points, of the mean over sets of the mean over queries."""
    rng = np.random.default_rng(1)
    means = np.zeros(rounds)
    for d in differences:
        means += np.array([d[rng.integers(0, len(d), len(d))].mean() for _ in range(rounds)])
    low, high = np.percentile(means / len(differences), [2.5, 97.5])
    return [round(100 * float(low), 2), round(100 * float(high), 2)]


def compare(base: dict[str, Found], tuned: dict[str, Found]) -> dict[str, Any]:
    """Base, tuned and difference for every set and over all of them, in percent."""
    out: dict[str, Any] = {}
    for leg in LEGS:
        for metric in METRICS:
            pairs = {s: (base[s][leg][metric], tuned[s][leg][metric]) for s in tuned}
            rows: dict[str, Any] = {}
            for name, (before, after) in pairs.items():
                rows[name] = {
                    "queries": len(before),
                    "base": round(100 * float(before.mean()), 2),
                    "tuned": round(100 * float(after.mean()), 2),
                    "gain": round(100 * float((after - before).mean()), 2),
                    "interval": interval([after - before]),
                }
            rows["macro"] = {
                key: round(float(np.mean([r[key] for r in rows.values()])), 2)
                for key in ("base", "tuned", "gain")
            }
            rows["macro"]["interval"] = interval(
                [after - before for before, after in pairs.values()]
            )
            out.setdefault(leg, {})[metric] = rows
    return out


def collect(
    data: Path, folder: Path, sets: tuple[str, ...], part: str, views: list[str], cache: Path
) -> dict[str, Found]:
    """Metrics for every query of the sets; kept in `cache`, since a catalog takes minutes."""
    digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()[:12]
    found: dict[str, Found] = {}
    cache.mkdir(parents=True, exist_ok=True)
    for name in sets:
        kept = cache / f"{digest}-{name}-{part}-{'+'.join(views)}.npz"
        if not kept.exists():
            catalog = load(data, name)
            queries = pick(catalog, part, 100_000)
            measured = judge(onnx_embedder(folder), catalog, queries, views)
            flat = {f"{leg}/{m}": v for leg, ms in measured.items() for m, v in ms.items()}
            np.savez(kept, **flat)  # type: ignore[arg-type]
            print(folder.name, name, part, flush=True)
        stored = np.load(kept)
        found[name] = {leg: {m: stored[f"{leg}/{m}"] for m in METRICS} for leg in LEGS}
    return found


def validation_of(data: Path, found: dict[str, Found]) -> dict[str, Found]:
    """The rows of the validation queries out of metrics for all queries."""
    out: dict[str, Found] = {}
    for name, legs in found.items():
        rows = [is_validation(q.id) for q in pick(load(data, name), "all", 100_000)]
        mask = np.array(rows)
        out[name] = {leg: {m: v[mask] for m, v in ms.items()} for leg, ms in legs.items()}
    return out


def tables(report: Mapping[str, Any]) -> str:
    """The tables of the model card, in Markdown."""
    shown = (("dense", "recall@5"), ("fusion", "recall@5"), ("fusion", "ndcg@10"))
    lines = ["| set (queries) | dense R@5 | gain | fusion R@5 | gain | fusion nDCG@10 | gain |"]
    lines += ["|---|---|---|---|---|---|---|"]
    found = report["leave_sets_out"]
    for name in found["dense"]["recall@5"]:
        rows = [found[leg][metric][name] for leg, metric in shown]
        cells = [f"{_pair(row)} | {_gain(row)}" for row in rows]
        lines.append(f"| {_titled(name, rows[0])} | {' | '.join(cells)} |")
    if "validation" in report:
        found = report["validation"]
        shown = (*shown[:2], ("fusion", "recall@10"), shown[2])
        lines += ["", "| set (queries) | dense R@5 | fusion R@5 | fusion R@10 | fusion nDCG@10 |"]
        lines += ["|---|---|---|---|---|"]
        for name in found["dense"]["recall@5"]:
            if name != "macro":
                rows = [found[leg][metric][name] for leg, metric in shown]
                lines.append(f"| {_titled(name, rows[0])} | {' | '.join(map(_pair, rows))} |")
    return "\n".join(lines)


def _pair(row: Mapping[str, Any]) -> str:
    return f"{row['base']:.1f} → {row['tuned']:.1f}"


def _gain(row: Mapping[str, Any]) -> str:
    low, high = row["interval"]
    return f"{row['gain']:+.1f} [{low:.1f}, {high:.1f}]"


def _titled(name: str, row: Mapping[str, Any]) -> str:
    return f"{name} ({row['queries']})" if "queries" in row else f"**{name}**"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--folds", type=Path, required=True)
    parser.add_argument("--final", type=Path)
    parser.add_argument("--views", nargs="+", default=["server", "params"])
    parser.add_argument("--cache", type=Path, required=True, help="folder for measured queries")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    before = collect(args.data, args.base, LABELLED, "all", args.views, args.cache)
    after: dict[str, Found] = {}
    for fold, members in FOLDS.items():
        sets = tuple(s for s in members if s in LABELLED)
        after |= collect(args.data, args.folds / fold, sets, "all", args.views, args.cache)
    report: dict[str, Any] = {
        "what": "int8 model as shipped; percent; best of the views; fusion = 0.7 z(dense) + 0.3 "
        "z(BM25) of training/evaluate.py; gain = tuned - base, 95 % paired bootstrap",
        "views": args.views,
        "versions": {
            p: importlib.metadata.version(p) for p in ("onnxruntime", "tokenizers", "numpy")
        },
        "folds": {k: list(v) for k, v in FOLDS.items()},
        "leave_sets_out": compare(before, {s: after[s] for s in LABELLED}),
    }
    if args.final:
        old = validation_of(args.data, before)
        new = collect(args.data, args.final, LABELLED, "validation", args.views, args.cache)
        report["shipped"] = {
            "identity": json.loads((args.final / "config.json").read_text())["identity"],
            "sha256": hashlib.sha256((args.final / "model.onnx").read_bytes()).hexdigest(),
        }
        report["validation"] = compare(old, new)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(tables(report))


if __name__ == "__main__":
    main()
