"""Fit and judge what the learned order leans on in large catalogs, over sizes.

    python training/relevance/lean.py DATA --base FOLDER [--model FOLDER --entry IDENTITY] \
        [--cap N] [--json FILE] [--write CALIBRATION]

Every labelled set and both halves of the written queries, alone and among 500, 2,000, 5,000 and
15,000 of the pool's tools. With the untouched `--base` as the embedder nothing has seen a judged
set: both steps are fitted on the other sets alone, when to lean on the other sets at every size.
With `--model` the steps of a shipped entry are judged as they are, and when to lean is fitted on
the other sets as both embedders see them. `--write` puts what all sets say into the entries of a
calibration file: that of `--entry`, or all, so the entry comes last.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.retrieval.features import CandidateFeatures
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.evidence import Evidence, ordered
from armory.retrieval.rankers.formulas import HybridRanker, LexicalRanker, SemanticRanker
from armory.retrieval.rankers.fusion import best_of, fuse
from armory.retrieval.rankers.leaning import leaned
from armory.retrieval.rankers.relevance import evidence_of
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.scoring.calibration import (
    Calibration,
    Lean,
    Linear,
    calibration_for,
    cost_weighted,
    sigmoid,
)
from armory.retrieval.scoring.fitting import Observations, fit_steps, log_odds_of
from training.relevance.among import SIZES, catalogs, mixed, plain_name, size_of
from training.relevance.fit import RELEVANCE, RIDGE
from training.relevance.judge import macro, reliability
from training.relevance.sets import (
    LABELLED,
    CachedModel,
    Catalog,
    Question,
    features_of,
    group_of,
)
from training.relevance.signals import Collector
from training.relevance.written import HALVES

Doubles = NDArray[np.float64]
LEAN = ("clauses", "apart", "first_said")
#: What to lean on, with an embedder that knows nothing of catalogs and with a trained one, whose
#: cosines say more.
ONTO = {"hybrid": 0.5, "semantic": 0.5}
ONTO_TRAINED = {"hybrid": 0.34, "semantic": 0.66}
PLAIN = (SemanticRanker(), HybridRanker(), LexicalRanker())
SETS = (*LABELLED, *(f"written-{half}" for half in HALVES))
_LEAN_RIDGE = 30.0
#: What the written queries weigh beside a labelled set.
_WRITTEN = 0.4
_CAP = 20
_DEPTH = 5
VERSIONS = {"python": platform.python_version(), "numpy": np.__version__}
#: Points below the best plain ranker that are still none.
MARGIN = 0.005


@dataclass(frozen=True)
class Judged:
    """One set among so many tools.

    Attributes:
        tools: how many there are.
        seen: its queries, with the plain formulas beside the signals of `relevance`.
        evidence: of each query's best candidates, at most as many as `seen` has.
        plain: (Q,) recall@5 of the plain rankers.
        need: (Q,) whether the shipped constants refuse the query.
    """

    tools: int
    seen: Observations
    evidence: Sequence[Evidence]
    plain: Mapping[str, Doubles]
    refused: NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """All tables as one embedder sees them, and the learned order's log-odds, (Q, k) each."""

    judged: Mapping[str, Judged]
    odds: Mapping[str, FloatArray]


def recall(order: NDArray[np.int64], wanted: frozenset[int]) -> float:
    """Share of what is wanted among the first five."""
    return len(wanted.intersection(order[:_DEPTH].tolist())) / len(wanted)


def observe(
    catalog: Catalog, questions: Sequence[Question], embed: CachedModel, entry: Calibration
) -> Judged:
    """Signals and plain orders of every query."""
    collector = Collector()
    plain: dict[str, list[float]] = {ranker.name: [] for ranker in PLAIN}
    refused: list[bool] = []
    evidence: list[Evidence] = []
    texts = [question.text for question in questions]
    for features, question in zip(features_of(catalog, texts, embed), questions, strict=True):
        signals, query, best, found = _read(features)
        evidence.append(found)
        collector.add(signals, query, best, question.relevant)
        for ranker in PLAIN:
            order = best_of(ranker.formula(features), _DEPTH)
            plain[ranker.name].append(recall(order, question.relevant))
        vectors = [part.vector for part in features.whole if part.vector is not None]
        need = entry.need.of({**query, **entry.asked(vectors)})
        refused.append(float(sigmoid(np.array([need], np.float32))[0]) < entry.refuse_below)
    seen = replace(collector.observations(), texts=texts)
    by_plain = {name: np.array(values) for name, values in plain.items()}
    return Judged(len(catalog.records), seen, evidence, by_plain, np.array(refused))


def _read(
    features: CandidateFeatures,
) -> tuple[dict[str, FloatArray], dict[str, float], NDArray[np.int64], Evidence]:
    fusion = fuse(features)
    table = candidate_signals(features, fusion)
    query = query_signals(features, table)
    evidence = evidence_of(features, fusion)
    signals = {**table, **evidence.plain}
    missing = 100 - len(fusion.best)
    if missing > 0:  # a set of few tools: the rest is no tool, and far below
        signals = {
            name: np.concatenate([values, np.repeat(values.min() - 5, missing)])
            for name, values in signals.items()
        }
    best = np.concatenate([fusion.best, np.full(max(missing, 0), -1)])
    return signals, query, best, evidence


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
    return np.stack([leaned(row, {n: plain[n][i] for n in onto}, onto, 0.0) for i, row in rows])


def recalls(seen: Observations, order_by: FloatArray) -> Doubles:
    """(Q,) recall@5."""
    order = np.argsort(-order_by, axis=1, kind="stable")[:, :_DEPTH]
    return np.take_along_axis(seen.wanted, order, 1).sum(1) / seen.relevant


def weight_of(name: str, seen: Observations) -> float:
    """What a table's queries weigh together."""
    return seen.weight * (_WRITTEN if name.startswith("written-") else 1.0)


def fit_lean(views: Sequence[View], onto: Mapping[str, float], without: str = "") -> Lean:
    """Ridge regression of what the learned order gains on the plain ones, over all sizes.

    Args:
        views: the tables as each embedder sees them.
        onto: the plain formulas' shares.
        without: a group of sets that is left out.
    """
    x: list[Doubles] = []
    y: list[Doubles] = []
    weight: list[Doubles] = []
    for view in views:
        for name, part in view.judged.items():
            if not size_of(name) or group_of(plain_name(name)) == without:
                continue
            seen = part.seen
            x.append(np.column_stack([seen.query[n] for n in LEAN]).astype(np.float64))
            y.append(recalls(seen, view.odds[name]) - recalls(seen, _plain_order(part, onto)))
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


def bare_odds(judged: Mapping[str, Judged], entry: Calibration | None) -> dict[str, FloatArray]:
    """Log-odds of each table by the entry's steps; without one by steps of the other groups."""
    odds: dict[str, FloatArray] = {}
    for group in dict.fromkeys(group_of(plain_name(name)) for name in judged):
        steps = None if entry is None else (entry.first, entry.second)
        if steps is None:
            others = [
                replace(p.seen, weight=weight_of(n, p.seen))
                for n, p in judged.items()
                if not size_of(n) and group_of(n) != group
            ]
            steps = fit_steps(others, RELEVANCE.first, RELEVANCE.second, ridge=RIDGE)
        for name, part in judged.items():
            if group_of(plain_name(name)) == group:
                odds[name] = log_odds_of(part.seen, *steps)
    return odds


def leave_out(views: Sequence[View], onto: Mapping[str, float]) -> dict[str, FloatArray]:
    """Log-odds of each table of the last view, leaned as the other groups in all views say."""
    final: dict[str, FloatArray] = {}
    judged, odds = views[-1].judged, views[-1].odds
    for group in dict.fromkeys(group_of(plain_name(name)) for name in judged):
        lean = fit_lean(views, onto, group)
        for name, part in judged.items():
            if group_of(plain_name(name)) == group:
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
    parser.add_argument("--model", type=Path, help="a trained embedder to judge; with --entry")
    parser.add_argument("--entry", help="identity of the trained embedder")
    parser.add_argument("--refusal", help="identity whose refusals count; default: as --entry")
    parser.add_argument("--cap", type=int, default=300)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=SETS)
    parser.add_argument("--cache", type=Path, default=Path(".cache/relevance"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help="calibration file to put it into")
    args = parser.parse_args()
    base = CachedModel(args.base, args.cache)
    known = calibration_for("relevance", args.refusal or args.entry or "")
    views = [_view(args, base, base, known, None)]
    onto = ONTO
    if args.model is not None:
        onto, entry = ONTO_TRAINED, calibration_for("relevance", args.entry)
        views.append(_view(args, CachedModel(args.model, args.cache), base, known, entry))
    report = report_of(views[-1].judged, views[-1].odds, leave_out(views, onto), known.miss_cost)
    show(report)
    lean = fit_lean(views, onto)
    print("lean", lean)
    if args.json:
        report["of"] = {"embedder": args.entry or base.identity, "cap": args.cap, **VERSIONS}
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.write:
        _write(args.write, args.entry, lean)


def _view(
    args: argparse.Namespace,
    embed: CachedModel,
    base: CachedModel,
    refusal: Calibration,
    entry: Calibration | None,
) -> View:
    judged: dict[str, Judged] = {}
    for name in args.sets:
        source = mixed(args.data, name, base, args.cap)
        for catalog in catalogs(source, embed):
            judged[catalog.name] = observe(catalog, source.questions, embed, refusal)
        embed.save()
        base.save()
        print(f"read {name}: {len(source.questions)} queries", flush=True)
    return View(judged, bare_odds(judged, entry))


def _write(path: Path, identity: str | None, lean: Lean) -> None:
    """Into the entry of one embedder; None: of all."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, entry in content["rankers"]["relevance"].items():
        if identity in (None, name):
            entry["lean"] = lean.to_json()
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
