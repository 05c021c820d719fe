"""Fit the relevance score's constants and write `armory/retrieval/scoring/calibration.json`.

    python training/relevance/fit.py DATA --model FOLDER [--folds FOLDER] [--keep] [--out FILE]

DATA holds the labelled sets, FOLDER an exported embedder. With `--folds`, a folder of embedders
`a` to `c`, each trained without some sets, every set's signals come from the embedder that has not
seen it: constants fitted to what the embedder does on catalogs that are new to it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.retrieval.scoring.calibration import (
    GENERIC,
    SHAPE,
    VERSION,
    Calibration,
    calibration_for,
    read_calibrations,
)
from armory.retrieval.scoring.fitting import (
    Observations,
    fit_steps,
    log_odds_of,
    miss_cost_for,
)
from training.data import LABELLED
from training.relevance.among import size_of
from training.relevance.need import Acts, fit_need, kind_of, with_acts
from training.relevance.sets import FOLD_OF, NO_TOOL, SETS, CachedModel, group_of
from training.relevance.signals import PLAIN, Tables, read_all, read_written
from training.relevance.sized import SETS as SIZED
from training.relevance.sized import WRITTEN_FOLD, read_sizes, unseen, weight_of

FIRST = (
    "fusion", "fusion_gap", "dense_z", "dense_by_size", "words_by_size", "dense_by_length",
    "words_by_length", "dense_by_cosine", "words_by_cosine", "leg_best", "leg_gap",
    "leg_reciprocal", "leg_top3", "covered", "name_said", "server_said", "server_named",
    "sibling_gap", "sibling_mass", "cosine", "cosine_best", "cosine_gap",
)  # fmt: skip
SECOND = (
    *SHAPE, "clauses", "log_tools", "top_fusion", "top_covered", "gap10", "near_1", "near_half",
    "top_cosine", "covered", "name_said", "leg_gap", "leg_reciprocal",
)  # fmt: skip
FORMULA_FIRST = ("raw", "raw_z", "raw_gap")
FORMULA_SECOND = (*SHAPE, "clauses", "log_tools", "top_covered", "raw")
NEED = (
    "top_cosine", "top3_cosine", "top_covered", "agreement", "top_name_said", "top_words",
    "log_tools", "clauses", "form_request", "form_wh", "form_why", "form_supposed", "form_others",
    "form_mine", "form_concrete", "form_language", "form_length", "few", "few_cosine", "acts",
)  # fmt: skip
#: Tools that a query should list on average at the default threshold, before refusals.
RETURNED = 6.0
#: A wrong refusal is about eight times as bad as a missing one.
REFUSE_BELOW = 0.13
#: For embedders that nothing was fitted for: refuse only what is plain.
REFUSE_BELOW_GENERIC = 0.05
RIDGE = 50.0
#: What the written queries weigh in the two steps, as shares of their weight in refusal.
_STEPS = {"written": 0.4, "small": 0.1}


@dataclass(frozen=True)
class Recipe:
    """Which signals a ranker's steps see."""

    first: Sequence[str]
    second: Sequence[str]
    need: Sequence[str]
    refuse_below: float

    def without_cosine(self) -> Recipe:
        """The same for embedders whose cosines are not known."""
        bare = [
            tuple(
                n
                for n in names
                if "cosine" not in n and n not in ("agreement", "raw", "raw_gap", "acts")
            )
            for names in (self.first, self.second, self.need)
        ]
        return Recipe(*bare, refuse_below=REFUSE_BELOW_GENERIC)


RELEVANCE = Recipe(FIRST, SECOND, NEED, REFUSE_BELOW)
FORMULA = Recipe(FORMULA_FIRST, FORMULA_SECOND, NEED, REFUSE_BELOW)
#: Words mean the same whatever the embedder.
LEXICAL = Recipe(
    FORMULA_FIRST,
    FORMULA_SECOND,
    tuple(n for n in NEED if "cosine" not in n and n not in ("agreement", "acts")),
    REFUSE_BELOW_GENERIC,
)


def fit_calibration(
    tables: Mapping[str, Observations],
    needless: Mapping[str, Observations],
    recipe: Recipe,
    acts: Acts,
    *,
    seen: Mapping[str, Observations] | None = None,
    among: Mapping[str, Observations] | None = None,
    ridge: float = RIDGE,
) -> Calibration:
    """All constants of one ranker from all given sets; `acts` is of the embedder they are for.

    `among` are the sets among the pool's tools, for the order alone; `seen` are queries as the
    shipped embedder sees them on sets that it was trained on, where cosines are higher: order and
    refusal have to hold there as well as on sets that are new to it.
    """
    asked: Mapping[str, Observations] = {**tables, **as_seen(seen or {})}
    wanted = [
        replace(t, weight=t.weight * _STEPS.get(kind_of(n), 1.0))
        for n, t in asked.items()
        if kind_of(n) != NO_TOOL
    ]
    wanted += [replace(t, weight=weight_of(n, t)) for n, t in (among or {}).items()]
    first, second = fit_steps(wanted, recipe.first, recipe.second, ridge=ridge)
    spare, direction = needless, None
    if "acts" in recipe.need:
        asked, spare, direction = with_acts(asked, needless, acts)
    need = fit_need(asked, spare, recipe.need)
    if direction is not None:
        need = replace(need, bias=need.bias + need.weights["acts"] * float(direction[-1]))
        direction = direction[:-1].astype(np.float32)
    usual = [t for n, t in tables.items() if n in LABELLED]  # a small catalog lists few anyway
    odds = [log_odds_of(part, first, second) for part in usual]
    cost = miss_cost_for(usual, odds, RETURNED)
    return Calibration(first, second, need, recipe.refuse_below, cost, direction)


def as_seen(seen: Mapping[str, Observations]) -> dict[str, Observations]:
    """The same tables under names of their own."""
    return {f"{name} seen": part for name, part in seen.items()}


def without(
    tables: Mapping[str, Observations], needless: Mapping[str, Observations], group: str
) -> tuple[dict[str, Observations], dict[str, Observations]]:
    """Everything that does not touch a group of sets."""
    kept = {n: t for n, t in tables.items() if group_of(n) != group}
    clean = {
        n: t
        for n, t in needless.items()
        if group not in {group_of(part) for part in n.split(":")[1:]}
    }
    return kept, clean


def fit_all(
    tables: Tables,
    needless: Mapping[str, Observations],
    embed: CachedModel,
    identity: str,
    seen: Tables | None = None,
    among: Mapping[str, Observations] | None = None,
) -> dict[str, Any]:
    """The whole calibration file, for the embedder given; the last two as in `fit_calibration`."""
    acts = Acts(embed)
    rankers: dict[str, dict[str, Any]] = {}
    for ranker, found in tables.items():
        if ranker == PLAIN:
            continue
        if ranker == "lexical":
            rankers[ranker] = {GENERIC: fit_calibration(found, needless, LEXICAL, acts).to_json()}
            continue
        recipe, sized = (RELEVANCE, among) if ranker == "relevance" else (FORMULA, None)
        rankers[ranker] = {
            GENERIC: fit_calibration(
                found, needless, recipe.without_cosine(), acts, among=sized
            ).to_json(),
            identity: fit_calibration(
                found, needless, recipe, acts, seen=(seen or {}).get(ranker), among=sized
            ).to_json(),
        }
    return {"version": VERSION, "rankers": rankers}


def gather(
    data: Path, model: Path, folds: Path | None, cache: Path, cap: int, *, in_context: bool = True
) -> tuple[Tables, dict[str, Observations], str]:
    """Tables of the model, or of each set's own fold where folds are given."""
    embed = CachedModel(model, cache, in_context=in_context)
    if folds is None:
        tables, needless = read_all(data, embed, cap=cap)
        _join(tables, needless, read_written(data, embed))
        return tables, needless, embed.identity
    tables, needless = {}, {}
    for fold in sorted(set(FOLD_OF.values())):
        own = [s for s in SETS if FOLD_OF[s] == fold]
        there = (folds / fold / "model.onnx").exists()
        if not there:
            print(f"fold {fold}: no embedder in {folds}, the given one is taken", flush=True)
        source = CachedModel(folds / fold, cache) if there else embed
        _join(tables, needless, read_all(data, source, cap=cap, sets=own))
        if fold == WRITTEN_FOLD:
            _join(tables, needless, read_written(data, source))
        print(f"fold {fold}: {', '.join(own)}", flush=True)
    return tables, needless, embed.identity


def gather_sizes(
    data: Path, base: CachedModel, folds: Path | None, cache: Path, cap: int
) -> dict[str, Observations]:
    """Tables among the pool's tools, of each set's own fold; without folds of the base."""
    embedders = dict.fromkeys(SIZED, base) if folds is None else unseen(folds, cache)
    judged = read_sizes(data, embedders, base, calibration_for("relevance", ""), cap)
    return {name: part.seen for name, part in judged.items() if size_of(name)}


def _join(
    tables: Tables,
    needless: dict[str, Observations],
    more: tuple[Tables, dict[str, Observations]],
) -> None:
    for ranker, found in more[0].items():
        tables.setdefault(ranker, {}).update(found)
    needless.update(more[1])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Fit the relevance score's constants.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="exported embedder")
    parser.add_argument(
        "--seen", action="store_true", help="also held-out queries of the sets it was trained on"
    )
    parser.add_argument("--identity", help="of the embedder; default: as its config.json says")
    parser.add_argument(
        "--alone", action="store_true", help="clauses read by themselves, as by other embedders"
    )
    parser.add_argument("--keep", action="store_true", help="keep other embedders' entries")
    parser.add_argument("--folds", type=Path, help="folder with embedders a, b, c")
    parser.add_argument("--base", type=Path, help="the untouched embedder; default: --model")
    parser.add_argument("--cap", type=int, default=1000, help="queries a set at most")
    parser.add_argument("--sized", type=int, default=150, help="the same among the pool's tools")
    parser.add_argument("--cache", type=Path, default=Path(".cache/relevance"))
    parser.add_argument(
        "--out", type=Path, default=Path("armory/retrieval/scoring/calibration.json")
    )
    args = parser.parse_args()
    tables, needless, identity = gather(
        args.data, args.model, args.folds, args.cache, args.cap, in_context=not args.alone
    )
    embed = CachedModel(args.model, args.cache, in_context=not args.alone)
    seen = None
    if args.seen:
        seen = read_all(args.data, embed, cap=args.cap, validation=True)[0]
    base = embed if args.base is None else CachedModel(args.base, args.cache)
    among = gather_sizes(args.data, base, args.folds, args.cache, args.sized)
    fitted = fit_all(tables, needless, embed, args.identity or identity, seen, among)
    embed.save()
    if args.keep and args.out.exists():
        for ranker, entries in read_calibrations(args.out.read_text(encoding="utf-8")).items():
            fitted["rankers"][ranker] = {**entries, **fitted["rankers"].get(ranker, {})}
    args.out.write_text(json.dumps(fitted, indent=1) + "\n", encoding="utf-8")
    for ranker, entries in fitted["rankers"].items():
        for embedder, entry in entries.items():
            print(f"{ranker:10s} {embedder:32s} miss_cost {entry['miss_cost']}")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
