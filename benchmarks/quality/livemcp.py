"""LiveMCPBench at tool level: what each way of ranking finds, and which have seen the tasks.

    python -m benchmarks.quality.livemcp DATA [--checkout FOLDER] [--base FOLDER] [--fold FOLDER] \
        [--left-out SET ...] [--lean FILE] [--vectors FOLDER] --out benchmarks/quality/livemcp.json

Owns: the rows and their JSON; `benchmarks.tables` writes the table. DATA holds one folder a
labelled set: `livemcpbench` and, for constants that are fitted without it, the others that
`training/README.md` names. `--checkout` is a clone of github.com/icip-cas/LiveMCPBench, whose
labelled tasks are all measured; without it those of DATA. `--base` is the untouched
all-MiniLM-L6-v2 in the embedded format (`python -m training.export --out base --identity base`);
without it only words and what ships are measured. `--fold` is the embedder that was trained without
these tasks, `folds/b` of `training/README.md` or one whose sets `--left-out` names. `--lean` is a
copy of `calibration.json` into which `training/relevance/lean.py --write` put weights from the
other sets. `--vectors` keeps what the fit embeds: minutes the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from armory.errors import ConfigError
from armory.evaluation.dataset import Dataset, load_dataset
from armory.evaluation.metrics import mean, ndcg_at, recall_at
from armory.evaluation.run import Setup, evaluate
from armory.retrieval.embedders.embedded import SHIPPED, EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.lexical.implied import implied
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.scoring.calibration import calibration_for, read_calibrations
from armory.retrieval.search import scope
from armory.retrieval.settings import RetrieverSettings
from benchmarks.quality.livemcp_tasks import TASKS_FILE, TOOLS_FILE, read_checkout
from benchmarks.quality.made import made, sha256
from training.data import FOLDS

ROOT = Path(__file__).resolve().parents[2]
SET = "livemcpbench"
#: Tasks of the whole benchmark that the published figures are over.
TASKS = 94
#: By toolrank 0.2.0 (PyPI), whose 525 tools' texts name the server as well.
PUBLISHED = (
    ("Qwen3-Embedding-8B in FP8, toolrank's heads v0.1", 53.5),
    ("toolrank's backbone v0.2 (Qwen3-Embedding-8B, tuned)", 52.1),
    ("Qwen3-Embedding-8B", 50.8),
    ("BM25 without stemming", 31.7),
)
_BASE = "fastembed:sentence-transformers/all-MiniLM-L6-v2"
_RULE = "the rule for files to be written"
_CAP = 500
_DRAWS = 2_000

Ranks = tuple[Sequence[int], int]


@dataclass(frozen=True)
class System:
    """One way of ranking.

    Attributes:
        name: as the table says it.
        ranker: of the package.
        model: folder of the embedder; None: words alone.
        seen: what of it was made with tasks of DATA in view.
        calibration: constants instead of the shipped ones, by ranker and embedder.
        implied: whether it looks for what a task implies, see `retrieval.lexical.implied`.
    """

    name: str
    ranker: str
    model: Path | None
    seen: str
    calibration: dict[str, Any] | None = None
    implied: bool = True


def systems(
    base: Path | None, fold: Path | None, fitted: Mapping[Path, dict[str, Any]], lean_seen: str
) -> list[System]:
    """All that can be measured with what is there; `fitted` has constants by embedder."""
    found = [System("BM25", "lexical", None, "nothing")]
    for model, name in ((base, "base embedder"), (fold, "embedder trained without these tasks")):
        if model is None:
            continue
        found.append(System(f"{name}, cosine", "semantic", model, "nothing"))
        found.append(System(f"{name}, `hybrid`", "hybrid", model, "nothing"))
        told = f"{name}, `relevance` fitted without these tasks"
        found.append(System(told, "relevance", model, f"{lean_seen}; {_RULE}", fitted[model]))
        said = f"{told}, nothing implied"
        found.append(System(said, "relevance", model, lean_seen, fitted[model], implied=False))
    shipped = "embedder and constants: trained on the tasks of DATA, not zero-shot there"
    found.append(System("as shipped, `relevance`", "relevance", SHIPPED, shipped))
    return found


def fitted_without(
    data: Path,
    base: Path,
    fold: Path | None,
    left_out: Collection[str],
    lean: Path | None,
    vectors: Path,
) -> dict[Path, dict[str, Any]]:
    """Constants of `relevance` from all other sets, by the embedder that they are for.

    For the base as the base sees those sets. For the fold's embedder the sets that were `left_out`
    with these tasks as it sees them and all others as the base does: what it was trained on looks
    nearer to it than a new catalog will.
    """
    from training.relevance.fit import RELEVANCE, fit_calibration, gather, without
    from training.relevance.lean import ONTO_TRAINED
    from training.relevance.need import Acts
    from training.relevance.sets import SETS, CachedModel
    from training.relevance.signals import read_all

    tables, needless, _ = gather(data, base, None, vectors, _CAP)
    known = calibration_for("relevance", _BASE)
    if lean is not None:
        known = read_calibrations(lean.read_text(encoding="utf-8"))["relevance"][_BASE]
    assert known.lean is not None
    weights = known.lean.to_json()
    fits = {base: (CachedModel(base, vectors), tables["relevance"], needless, weights)}
    if fold is not None:
        model = CachedModel(fold, vectors)
        more, spare = read_all(data, model, cap=_CAP, sets=[n for n in SETS if n in left_out])
        both = {**tables["relevance"], **more["relevance"]}
        fits[fold] = (model, both, {**needless, **spare}, weights | {"onto": ONTO_TRAINED})
    found: dict[Path, dict[str, Any]] = {}
    for folder, (embed, seen, spare, leaning) in fits.items():
        constants = fit_calibration(*without(seen, spare, SET), RELEVANCE, Acts(embed))
        embed.save()
        found[folder] = {"relevance": {embed.identity: constants.to_json() | {"lean": leaning}}}
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % of the mean, the tasks drawn again."""
    known = np.array(values)
    chance = np.random.default_rng(0)
    draws = known[chance.integers(0, len(known), (_DRAWS, len(known)))].mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def figures(ranks: Sequence[Ranks]) -> dict[str, Any]:
    """Of some tasks, in percent."""
    recall = [recall_at(places, wanted, 5) for places, wanted in ranks]
    low, high = interval(recall)
    found = {
        "recall@5": mean(recall),
        "recall@5 low": low,
        "recall@5 high": high,
        "recall@10": mean([recall_at(places, wanted, 10) for places, wanted in ranks]),
        "ndcg@10": mean([ndcg_at(places, wanted, 10) for places, wanted in ranks]),
    }
    return {"tasks": len(ranks)} | {name: round(100 * value, 1) for name, value in found.items()}


def _nothing(_: str) -> tuple[str, ...]:
    return ()


async def measure(dataset: Dataset, system: System, known: Collection[str]) -> dict[str, Any]:
    """One row; `known` are the ids of the tasks of DATA."""
    embedder = None if system.model is None else EmbeddedEmbedder(system.model)
    index = None if embedder is None else ExactIndex()
    identity = "none" if embedder is None else embedder.identity
    settings = RetrieverSettings(rank=RankSettings(calibration=system.calibration))
    patched: Any = scope
    patched.implied = implied if system.implied else _nothing
    async with Retriever(embedder, index, make_rankers(), settings) as retriever:
        result = await evaluate(dataset, retriever, Setup(identity, "exact", system.ranker))
    asked = [query.id for query in dataset.queries if query.relevant]
    ranked = list(zip(asked, result.ranks, strict=True))
    parts = {
        "all": [ranks for _, ranks in ranked],
        "of DATA": [ranks for task, ranks in ranked if task in known],
        "others": [ranks for task, ranks in ranked if task not in known],
    }
    row = {
        "system": system.name,
        "ranker": system.ranker,
        "embedder": identity,
        "seen": system.seen,
        **{name: figures(part) for name, part in parts.items() if part},
    }
    print(row, flush=True)
    return row


def on_record() -> list[dict[str, Any]]:
    """What the training judged with these tasks left out, and when."""
    judged = json.loads((ROOT / "training/relevance/judged.json").read_text(encoding="utf-8"))
    sizes = json.loads((ROOT / "training/relevance/sizes-base.json").read_text(encoding="utf-8"))
    figures = judged["figures"]
    return [
        {
            "system": "base embedder, `relevance`, every constant without these tasks",
            "seen": "nothing",
            "recall@5": _percent(sizes["sizes"]["0"]["relevance"]),
        }
        | _landed("training/relevance/sizes-base.json"),
        {
            "system": "embedder and constants trained without these tasks, `relevance`",
            "seen": "nothing but for [what is told there](relevance.md#leave-one-set-out)",
            "recall@5": _percent(figures["recall@5"]),
            "recall@10": _percent(figures["recall@10"]),
            "ndcg@10": _percent(figures["ndcg@10"]),
        }
        | _landed("training/relevance/judged.json"),
    ]


def _percent(figure: dict[str, Any]) -> float:
    return round(100 * figure["sets"][SET], 1)


def _landed(file: str) -> dict[str, str]:
    """The commit that wrote a file, and its day."""
    told = subprocess.run(
        ["git", "log", "-1", "--format=%h %cs", "--", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    commit, day = told.stdout.split() or ("commit not known", "day not known")
    return {"file": file, "commit": commit, "day": day}


def main(argv: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="LiveMCPBench at tool level.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--checkout", type=Path, help="of github.com/icip-cas/LiveMCPBench")
    parser.add_argument("--base", type=Path, help="the untouched model, embedded format")
    parser.add_argument("--fold", type=Path, help="the embedder trained without these tasks")
    parser.add_argument("--left-out", nargs="+", default=FOLDS["b"], help="of its training")
    parser.add_argument("--lean", type=Path, help="calibration file whose lean is of other sets")
    parser.add_argument("--vectors", type=Path, default=Path(".cache/relevance"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    folder = args.data / SET
    try:
        dataset = load_dataset(folder)
    except ConfigError as error:
        raise SystemExit(
            f"{error}\nexpected: {folder} with tools.jsonl and queries.jsonl, made of "
            "github.com/icip-cas/LiveMCPBench as training/README.md says"
        ) from error
    known = {query.id for query in dataset.queries}
    files, told = [folder / "tools.jsonl", folder / "queries.jsonl"], None
    if args.checkout is not None:
        dataset, told = read_checkout(args.checkout)
        files += [args.checkout / TOOLS_FILE, args.checkout / TASKS_FILE]
        print(json.dumps(told, indent=1), flush=True)
    fitted: dict[Path, dict[str, Any]] = {}
    if args.base is not None:
        fitted = fitted_without(
            args.data, args.base, args.fold, args.left_out, args.lean, args.vectors
        )
    lean_seen = "three weights (`lean`) of the constants" if args.lean is None else "nothing"
    ways = systems(args.base, args.fold if args.base else None, fitted, lean_seen)
    found = {
        "made": made(),
        "tools": len(dataset.tools),
        "servers": len({tool.server for tool in dataset.tools}),
        "tasks": len(dataset.queries),
        "of": TASKS,
        "annotations": told,
        "left out": sorted(args.left_out) if fitted and args.fold else None,
        "sha256": {path.name: sha256(path) for path in files},
        "rows": [asyncio.run(measure(dataset, system, known)) for system in ways],
        "on record": on_record(),
        "published": [{"system": name, "recall@5": value} for name, value in PUBLISHED],
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
