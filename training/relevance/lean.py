"""Fit and judge what the learned order leans on in large catalogs, over sizes.

    python training/relevance/lean.py DATA --base FOLDER [--folds FOLDER] [--entry IDENTITY] \
        [--cap N] [--json FILE] [--write CALIBRATION]

Every labelled set and both halves of the written queries, alone and among 500, 2,000, 5,000 and
15,000 of the pool's tools, as the embedder of `--folds` sees them that was trained without the set;
without folds the untouched `--base`, which no set was used to train. Nothing has seen a judged set:
both steps and when to lean are fitted on the other sets at every size. `--write` puts what all sets
say of leaning into an entry of a calibration file, that of `--entry`, or into all, so the entry
comes last.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.evidence import ordered
from armory.retrieval.rankers.leaning import blended
from armory.retrieval.scoring.calibration import (
    Lean,
    Linear,
    calibration_for,
    cost_weighted,
    sigmoid,
)
from armory.retrieval.scoring.fitting import fit_steps, log_odds_of
from training.relevance.among import SIZES, plain_name, size_of
from training.relevance.fit import RELEVANCE, RIDGE
from training.relevance.judge import macro, reliability
from training.relevance.sets import LABELLED, CachedModel, group_of
from training.relevance.sized import (
    PLAIN,
    SETS,
    Judged,
    read_sizes,
    recalls,
    unseen,
    weight_of,
)

Doubles = NDArray[np.float64]
LEAN = ("clauses", "apart", "first_said")
#: What to lean on, with an embedder that knows nothing of catalogs and with a trained one, whose
#: cosines say more.
ONTO = {"hybrid": 0.5, "semantic": 0.5}
ONTO_TRAINED = {"hybrid": 0.34, "semantic": 0.66}
_LEAN_RIDGE = 30.0
_CAP = 20
VERSIONS = {"python": platform.python_version(), "numpy": np.__version__}
#: Points below the best plain ranker that are still none.
MARGIN = 0.005


def order_of(judged: Judged, odds: FloatArray, lean: Lean) -> FloatArray:
    """(Q, k) log-odds, leaned as the ranker does it."""
    rows: list[FloatArray] = []
    for i, (row, evidence) in enumerate(zip(odds, judged.evidence, strict=True)):
        query = {name: float(judged.seen.query[name][i]) for name in LEAN}
        there = len(evidence.plain["semantic"])
        order = ordered(row[:there], evidence, lean, query, judged.tools)
        rows.append(np.concatenate([order, np.minimum(row[there:], order.min())]))
    return np.stack(rows)


def _plain_order(judged: Judged, onto: Mapping[str, float]) -> FloatArray:
    """(Q, k) what is leaned on."""
    none = np.zeros(judged.seen.wanted.shape, np.float32)
    plain = judged.seen.signals
    rows = enumerate(none)
    return np.stack([blended(row, {n: plain[n][i] for n in onto}, onto, 0.0) for i, row in rows])


def fit_lean(
    judged: Mapping[str, Judged],
    odds: Mapping[str, FloatArray],
    onto: Mapping[str, float],
    without: str = "",
) -> Lean:
    """Ridge regression of what the learned order gains on the plain ones, over all sizes.

    Args:
        judged: the tables.
        odds: (Q, k) of each, as learned.
        onto: the plain formulas' shares.
        without: a group of sets that is left out.
    """
    x: list[Doubles] = []
    y: list[Doubles] = []
    weight: list[Doubles] = []
    for name, part in judged.items():
        if not size_of(name) or group_of(name) == without:
            continue
        seen = part.seen
        x.append(np.column_stack([seen.query[n] for n in LEAN]).astype(np.float64))
        y.append(recalls(seen, odds[name]) - recalls(seen, _plain_order(part, onto)))
        weight.append(np.full(len(seen), weight_of(name, seen) / len(seen)))
    rows, gain, mass = np.concatenate(x), np.concatenate(y), np.concatenate(weight)
    mass /= mass.mean()
    centre, spread = rows.mean(0), rows.std(0) + 1e-9
    design = np.column_stack([(rows - centre) / spread, np.ones(len(rows))])
    ridge = np.diag([_LEAN_RIDGE] * len(LEAN) + [1e-6])
    beta = np.linalg.solve((design * mass[:, None]).T @ design + ridge, design.T @ (mass * gain))
    weights = beta[:-1] / spread
    bias = float(beta[-1] - weights @ centre)
    return Lean(Linear({n: float(w) for n, w in zip(LEAN, weights, strict=True)}, bias), onto)


def bare_odds(judged: Mapping[str, Judged]) -> dict[str, FloatArray]:
    """(Q, k) log-odds of each table by steps that the other groups were fitted on, at all sizes."""
    odds: dict[str, FloatArray] = {}
    for group in dict.fromkeys(group_of(name) for name in judged):
        others = [
            replace(p.seen, weight=weight_of(n, p.seen))
            for n, p in judged.items()
            if group_of(n) != group
        ]
        steps = fit_steps(others, RELEVANCE.first, RELEVANCE.second, ridge=RIDGE)
        for name, part in judged.items():
            if group_of(name) == group:
                odds[name] = log_odds_of(part.seen, *steps)
    return odds


def leave_out(
    judged: Mapping[str, Judged], odds: Mapping[str, FloatArray], onto: Mapping[str, float]
) -> dict[str, FloatArray]:
    """Log-odds of each table, leaned as the other groups say."""
    final: dict[str, FloatArray] = {}
    for group in dict.fromkeys(group_of(name) for name in judged):
        lean = fit_lean(judged, odds, onto, group)
        for name, part in judged.items():
            if group_of(name) == group:
                final[name] = order_of(part, odds[name], lean)
    return final


def listed(
    part: Judged, odds: FloatArray, miss_cost: float, threshold: float = 0.5
) -> dict[str, Doubles]:
    """Of every query what a threshold lists: recall, tools, nothing at all."""
    scores = cost_weighted(sigmoid(odds), miss_cost)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :_CAP]
    shown = (np.take_along_axis(scores, order, 1) >= threshold) & ~part.refused[:, None]
    hits = (shown & np.take_along_axis(part.seen.wanted, order, 1)).sum(1)
    count = shown.sum(1).astype(np.float64)
    return {"recall": hits / part.seen.relevant, "tools": count, "nothing": 1.0 * (count == 0)}


def report_of(
    judged: Mapping[str, Judged],
    bare: Mapping[str, FloatArray],
    final: Mapping[str, FloatArray],
    miss_cost: float,
) -> dict[str, Any]:
    """Every figure by size: macro over the labelled sets, each set, and where a rule is broken."""
    sizes: dict[str, Any] = {}
    worse: list[dict[str, Any]] = []
    for size in (0, *SIZES):
        names = {plain_name(n): n for n in judged if size_of(n) == size}
        ours = {s: recalls(judged[n].seen, final[n]) for s, n in names.items()}
        plain = {r.name: {s: judged[n].plain[r.name] for s, n in names.items()} for r in PLAIN}
        own = [s for s in LABELLED if s in names]
        best = max(plain, key=lambda r: float(np.mean([plain[r][s].mean() for s in own])))
        row: dict[str, Any] = {
            "relevance": macro({s: ours[s] for s in own}),
            "relevance, not leaned": macro(
                {s: recalls(judged[names[s]].seen, bare[names[s]]) for s in own}
            ),
            **{r: macro({s: found[s] for s in own}) for r, found in plain.items()},
            f"relevance over {best}": macro({s: ours[s] - plain[best][s] for s in own}),
            "written": {
                name: {s: float(found[s].mean()) for s in names if s not in own}
                for name, found in {"relevance": ours, **plain}.items()
            },
        }
        at = {s: listed(judged[names[s]], final[names[s]], miss_cost) for s in own}
        for key in ("recall", "tools", "nothing"):
            row[f"{key} at 0.5"] = macro({s: v[key] for s, v in at.items()})
        row["calibration error"] = {
            s: sum(
                abs(p - y) * c / judged[names[s]].seen.wanted[:, :_CAP].size
                for p, y, c in reliability(sigmoid(final[names[s]]), judged[names[s]].seen.wanted)
            )
            for s in own
        }
        sizes[str(size)] = row
        for s, n in names.items():
            gap = float(ours[s].mean() - max(plain[r][s].mean() for r in plain))
            if gap < -MARGIN:
                worse.append({"set": s, "size": size, "queries": len(judged[n].seen), "gap": gap})
    return {"sizes": sizes, "worse than the best plain ranker": worse}


def show(report: Mapping[str, Any]) -> None:
    """Print the figures."""
    for size, row in report["sizes"].items():
        print(f"among {size}")
        for name, value in row.items():
            if isinstance(value, Mapping) and "macro" in value:
                sets = " ".join(f"{100 * v:6.1f}" for v in value["sets"].values())
                span = f"[{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
                print(f"  {name:28s} {100 * value['macro']:6.1f} {span:16s} {sets}")
        error = row["calibration error"]
        print(f"  calibration error {np.mean(list(error.values())):.3f}; written {row['written']}")
    for row in report["worse than the best plain ranker"]:
        print("worse:", row)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Fit and judge relevance over sizes.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", type=Path, required=True, help="the untouched embedder")
    parser.add_argument("--folds", type=Path, help="folder with embedders a, b, c")
    parser.add_argument("--entry", help="identity that is written; default: all")
    parser.add_argument("--refusal", help="identity whose refusals count; default: as --entry")
    parser.add_argument("--cap", type=int, default=300)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=SETS)
    parser.add_argument("--cache", type=Path, default=Path(".cache/relevance"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help="calibration file to put it into")
    args = parser.parse_args()
    base = CachedModel(args.base, args.cache)
    known = calibration_for("relevance", args.refusal or args.entry or "")
    onto, embedders = ONTO, dict.fromkeys(args.sets, base)
    if args.folds is not None:
        onto, embedders = ONTO_TRAINED, unseen(args.folds, args.cache, args.sets)
    judged = read_sizes(args.data, embedders, base, known, args.cap)
    odds = bare_odds(judged)
    report = report_of(judged, odds, leave_out(judged, odds, onto), known.miss_cost)
    show(report)
    lean = fit_lean(judged, odds, onto)
    print("lean", lean)
    if args.json:
        of = "the fold that has not seen the set" if args.folds else base.identity
        report["of"] = {"embedder": of, "cap": args.cap, **VERSIONS}
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.write:
        _write(args.write, args.entry, lean)


def _write(path: Path, identity: str | None, lean: Lean) -> None:
    """Into the entry of one embedder; None: of all."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, entry in content["rankers"]["relevance"].items():
        if identity in (None, name):
            entry["lean"] = lean.to_json()
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
