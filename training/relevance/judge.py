"""Judge the relevance score leave-one-set-out: embedder and constants made without the judged set.

    python training/relevance/judge.py DATA --base FOLDER [--folds FOLDER] [--json FILE]

The judged set's signals come from the embedder of its fold (or the base, without `--folds`). The
constants come from the other sets as their own folds' embedders see them; with `--constants base`
as the untouched base sees them, so that nothing at all has seen the judged set. `--seen` adds the
other sets' held-out queries as the shipped embedder sees them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.retrieval.rankers.signals import MANY
from armory.retrieval.scoring.calibration import Calibration, sigmoid
from armory.retrieval.scoring.fitting import Observations, log_odds_of, scores_of
from training.data import LABELLED
from training.relevance.fit import RELEVANCE, fit_calibration, gather, gather_sizes, without
from training.relevance.need import Acts
from training.relevance.sets import FOLD_OF, NO_TOOL, CachedModel, group_of
from training.relevance.signals import PLAIN, read_all
from training.relevance.sized import WRITTEN_FOLD

Doubles = NDArray[np.float64]
CAP = 20
_DISCOUNT = 1 / np.log2(np.arange(2, 12))
_DRAWS = 1000


def ranking(part: Observations, order_by: NDArray[np.float32]) -> dict[str, Doubles]:
    """recall@5, recall@10, nDCG@10 of every query."""
    order = np.argsort(-order_by, axis=1, kind="stable")[:, :10]
    hits = np.take_along_axis(part.wanted, order, 1).astype(np.float64)
    ideal = np.array([_DISCOUNT[: min(10, r)].sum() for r in part.relevant])
    return {
        "recall@5": hits[:, :5].sum(1) / part.relevant,
        "recall@10": hits.sum(1) / part.relevant,
        "ndcg@10": (hits * _DISCOUNT[: hits.shape[1]]).sum(1) / ideal,
    }


def listing(
    part: Observations, scores: NDArray[np.float32], refused: NDArray[np.bool_], threshold: float
) -> dict[str, Doubles]:
    """recall, f1, returned, nothing of every query at a threshold."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :CAP]
    shown = np.take_along_axis(scores, order, 1) >= threshold
    shown &= ~refused[:, None]
    hits = (shown & np.take_along_axis(part.wanted, order, 1)).sum(1)
    count = shown.sum(1)
    recall = hits / np.maximum(part.relevant, 1)
    precision = hits / np.maximum(count, 1)
    f1 = 2 * recall * precision / np.maximum(recall + precision, 1e-9)
    return {
        "recall": recall,
        "precision": precision,
        "f1": f1,
        "returned": count.astype(np.float64),
        "nothing": (count == 0).astype(np.float64),
    }


def reliability(
    probability: NDArray[np.float32], wanted: NDArray[np.bool_], bins: int = 15
) -> list[tuple[float, float, int]]:
    """(mean P, share wanted, rows) of equal-mass bins over the top 20 of each query."""
    order = np.argsort(-probability, axis=1, kind="stable")[:, :CAP]
    p = np.take_along_axis(probability, order, 1).ravel()
    y = np.take_along_axis(wanted, order, 1).ravel()
    parts = np.array_split(np.argsort(p, kind="stable"), bins)
    return [(float(p[b].mean()), float(y[b].mean()), len(b)) for b in parts if len(b)]


def interval(values: Mapping[str, Doubles], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of a macro mean, queries drawn within each set."""
    chance = np.random.default_rng(seed)
    draws = [
        np.mean([v[chance.integers(0, len(v), len(v))].mean() for v in values.values()])
        for _ in range(_DRAWS)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def macro(values: Mapping[str, Doubles]) -> dict[str, Any]:
    """Mean over sets of means over queries, with its interval."""
    low, high = interval(values)
    return {
        "macro": float(np.mean([v.mean() for v in values.values()])),
        "low": low,
        "high": high,
        "sets": {name: float(v.mean()) for name, v in values.items()},
    }


def leave_out(
    judged: Mapping[str, Observations],
    fitted_on: Mapping[str, Observations],
    needless: Mapping[str, Observations],
    acts_of: Callable[[str], Acts],
    seen: Mapping[str, Observations] | None = None,
    idle: Mapping[str, Observations] | None = None,
    among: Mapping[str, Observations] | None = None,
) -> tuple[dict[str, Any], dict[str, NDArray[np.bool_]]]:
    """Everything by constants that were made without the group of sets it belongs to.

    Args:
        judged: labelled sets, by name.
        fitted_on: sets that the constants come from.
        needless: queries without a tool that they come from.
        acts_of: directions of the embedder that has not seen a group.
        seen: see `fit_calibration`.
        idle: queries without a tool that are judged, by `kind:catalog:set`.
        among: see `fit_calibration`.

    Returns:
        Per set its queries, log-odds, scores, refusals; of `idle` the refusals.
    """
    found: dict[str, Any] = {}
    refused: dict[str, NDArray[np.bool_]] = {}
    for group in dict.fromkeys(group_of(name) for name in judged):
        tables, spare = without(fitted_on, needless, group)
        known = {n: p for n, p in (seen or {}).items() if group_of(n) != group}
        sized = {n: p for n, p in (among or {}).items() if group_of(n) != group}
        acts = acts_of(group)
        constants = fit_calibration(tables, spare, RELEVANCE, acts, seen=known, among=sized)
        for name, part in judged.items():
            if group_of(name) != group:
                continue
            odds = log_odds_of(part, constants.first, constants.second)
            scores = scores_of(odds, constants.miss_cost)
            found[name] = (part, odds, scores, is_refused(constants, part, acts))
        for name, part in (idle or {}).items():
            if group_of(name.split(":")[1]) == group:
                refused[name] = is_refused(constants, part, acts)
    return found, refused


def is_refused(constants: Calibration, part: Observations, acts: Acts) -> NDArray[np.bool_]:
    """Which of the queries are taken to need no tool, each over as many tools as it was asked of.

    More than `MANY` count as so many, which is beyond where the number matters.
    """
    vectors = acts.vectors(part.texts)[:, :-1].astype(np.float32)
    rows = [
        {**{n: float(v[i]) for n, v in part.query.items()}, **constants.acts_signal([vectors[i]])}
        for i in range(len(part))
    ]
    need = sigmoid(np.array([constants.need.of(row) for row in rows], np.float32))
    tools = np.rint(MANY / np.exp(part.query["few"])).astype(np.int64)
    return np.array(
        [constants.refuses(n, t) for n, t in zip(need.tolist(), tools.tolist(), strict=True)]
    )


def pooled(found: Mapping[str, Any], start: str) -> dict[str, float]:
    """Figures over all queries of the sets whose names begin so."""
    rows: dict[str, list[Doubles]] = {}
    for name, (part, odds, scores, refused) in found.items():
        if name.startswith(start):
            listed = listing(part, scores, refused, 0.5)
            for key, values in {**ranking(part, odds), **listed}.items():
                rows.setdefault(key, []).append(values)
    return {key: float(np.concatenate(values).mean()) for key, values in rows.items()}


def written_of(
    found: Mapping[str, Any], refused: Mapping[str, NDArray[np.bool_]]
) -> dict[str, Any]:
    """The written queries, and what is asked in vain of small catalogs and of the sets."""
    idle = {
        "of other servers, over small catalogs": ("vain:small-",),
        "no-tool requests, fitted on, over small catalogs": ("hand:small-",),
        "no-tool requests, kept apart, over small catalogs": ("apart:small-",),
        "no-tool requests, kept apart, over the sets": tuple(f"apart:{n}:" for n in LABELLED),
    }
    return {
        "large": pooled(found, "written-"),
        "small": pooled(found, "small-"),
        "refused": {
            label: float(np.concatenate([v for n, v in refused.items() if n.startswith(s)]).mean())
            for label, s in idle.items()
        },
    }


def report_of(
    found: Mapping[str, Any],
    refused: Mapping[str, NDArray[np.bool_]],
    plain: Mapping[str, Observations],
    base: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Every figure."""
    ours = {n: ranking(found[n][0], found[n][1]) for n in LABELLED}
    reference = {n: ranking(plain[n], plain[n].signals["fusion"]) for n in LABELLED}
    report: dict[str, Any] = {"figures": {}, "gains": {}}
    for metric in ("recall@5", "recall@10", "ndcg@10"):
        report["figures"][metric] = macro({n: v[metric] for n, v in ours.items()})
        report["figures"][f"{metric} plain"] = macro({n: v[metric] for n, v in reference.items()})
        gain = {n: ours[n][metric] - reference[n][metric] for n in LABELLED}
        report["gains"][f"{metric} over plain fusion of the base"] = macro(gain)
        if base is not None:
            same = {n: ranking(base[n][0], base[n][1]) for n in LABELLED}
            gain = {n: ours[n][metric] - same[n][metric] for n in LABELLED}
            report["gains"][f"{metric} over the same ranker with the base"] = macro(gain)
    grid = [round(0.02 * i, 2) for i in range(1, 50)]
    curve = []
    for threshold in grid:
        at = {n: listing(*(found[n][i] for i in (0, 2, 3)), threshold) for n in LABELLED}
        row: dict[str, float] = {"threshold": threshold}
        for key in ("recall", "precision", "f1", "returned", "nothing"):
            row[key] = float(np.mean([v[key].mean() for v in at.values()]))
        idle = listing(*(found[NO_TOOL][i] for i in (0, 2, 3)), threshold)
        row["refused"] = float(idle["nothing"].mean())
        curve.append(row)
        if threshold == 0.5:
            for key in ("recall", "precision", "f1", "returned", "nothing"):
                report["figures"][f"{key} at 0.5"] = macro({n: v[key] for n, v in at.items()})
            report["figures"]["refused at 0.5"] = macro({NO_TOOL: idle["nothing"]})
    report["curve"] = curve
    report["best f1"] = max(curve, key=lambda row: row["f1"])
    report["reliability"] = {
        n: reliability(sigmoid(found[n][1]), found[n][0].wanted) for n in LABELLED
    }
    report["ece"] = {
        n: sum(abs(p - y) * c for p, y, c in bins) / sum(c for _, _, c in bins)
        for n, bins in report["reliability"].items()
    }
    report["written"] = written_of(found, refused)
    return report


def show(report: Mapping[str, Any]) -> None:
    """Print the figures."""
    for kind in ("figures", "gains"):
        for name, value in report[kind].items():
            sets = " ".join(f"{100 * v:5.1f}" for v in value["sets"].values())
            span = f"[{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
            print(f"{name:52s} {100 * value['macro']:6.1f} {span:16s} {sets}")
    print("best F1", {k: round(v, 3) for k, v in report["best f1"].items()})
    for kind in ("large", "small"):
        print("written,", kind, {k: round(v, 3) for k, v in report["written"][kind].items()})
    print("refused", {k: round(v, 3) for k, v in report["written"]["refused"].items()})
    print("ECE", {k: round(v, 3) for k, v in report["ece"].items()})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Judge the relevance score leave-one-set-out.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", type=Path, required=True, help="the untouched embedder")
    parser.add_argument("--folds", type=Path, help="embedders a, b, c")
    parser.add_argument("--seen", type=Path, help="the shipped embedder, as in fit.py --seen")
    parser.add_argument("--constants", choices=("base", "folds"), default="folds")
    parser.add_argument("--cap", type=int, default=1000)
    parser.add_argument("--sized", type=int, default=150, help="queries among the pool's tools")
    parser.add_argument("--cache", type=Path, default=Path(".cache/relevance"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tables, needless, _ = gather(args.data, args.base, None, args.cache, args.cap, in_context=False)
    untouched = CachedModel(args.base, args.cache)
    base = Acts(untouched)
    same, turned = leave_out(
        tables["relevance"],
        tables["relevance"],
        needless,
        lambda _: base,
        idle=needless,
        among=gather_sizes(args.data, untouched, None, args.cache, args.sized),
    )
    if args.folds is None:
        report = report_of(same, turned, tables[PLAIN], None)
    else:
        tuned, spare, _ = gather(args.data, args.base, args.folds, args.cache, args.cap)
        source = (tables["relevance"], needless)
        if args.constants == "folds":
            source = (tuned["relevance"], spare)
        seen = None
        if args.seen is not None:
            embed = CachedModel(args.seen, args.cache)
            seen = read_all(args.data, embed, cap=args.cap, validation=True)[0]["relevance"]
        folds = {
            fold: Acts(CachedModel(args.folds / fold, args.cache))
            for fold in sorted({*FOLD_OF.values(), WRITTEN_FOLD})
        }
        found, turned = leave_out(
            tuned["relevance"],
            *source,
            lambda group: folds[FOLD_OF.get(group, WRITTEN_FOLD)],
            seen,
            idle=spare,
            among=gather_sizes(args.data, untouched, args.folds, args.cache, args.sized),
        )
        report = report_of(found, turned, tables[PLAIN], same)
    show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
