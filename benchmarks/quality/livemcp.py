"""LiveMCPBench at tool level: what each way of ranking finds, and which have seen the tasks.

    python -m benchmarks.quality.livemcp DATA [--base FOLDER] [--vectors FOLDER] \
        --out benchmarks/quality/livemcp.json

Owns: the rows and their JSON; `benchmarks.tables` writes the table. DATA holds one folder a
labelled set: `livemcpbench` and, for constants that are fitted without it, the others that
`training/README.md` names. `--base` is the untouched all-MiniLM-L6-v2 in the embedded format
(`python -m training.export --out base --identity base`); without it only words and what ships are
measured. `--vectors` keeps what the fit embeds: minutes the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from armory.errors import ConfigError
from armory.evaluation.dataset import Dataset, load_dataset
from armory.evaluation.metrics import recall_at
from armory.evaluation.run import Result, Setup, evaluate
from armory.retrieval.embedders.embedded import SHIPPED, EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.scoring.calibration import calibration_for
from armory.retrieval.settings import RetrieverSettings
from benchmarks.quality.made import made, sha256

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
_CAP = 500
_DRAWS = 2_000


@dataclass(frozen=True)
class System:
    """One way of ranking.

    Attributes:
        name: as the table says it.
        ranker: of the package.
        model: folder of the embedder; None: words alone.
        seen: what of it was made with these tasks in view.
        calibration: constants instead of the shipped ones, by ranker and embedder.
    """

    name: str
    ranker: str
    model: Path | None
    seen: str
    calibration: dict[str, Any] | None = None


def systems(base: Path | None, fitted: dict[str, Any] | None) -> list[System]:
    """All that can be measured with what is there."""
    found = [System("BM25", "lexical", None, "nothing")]
    if base is not None:
        found.append(System("base embedder, cosine", "semantic", base, "nothing"))
        found.append(System("base embedder, `hybrid`", "hybrid", base, "nothing"))
    if base is not None and fitted is not None:
        seen = "three weights (`lean`) of the constants"
        name = "base embedder, `relevance` fitted without these tasks"
        found.append(System(name, "relevance", base, seen, fitted))
    shipped = "embedder and constants: trained on these tasks, not zero-shot"
    found.append(System("as shipped, `relevance`", "relevance", SHIPPED, shipped))
    return found


def fitted_without(data: Path, base: Path, vectors: Path) -> dict[str, Any]:
    """Constants of `relevance` from all other sets as the base sees them; `lean` is the shipped."""
    from training.relevance.fit import RELEVANCE, fit_calibration, gather, without
    from training.relevance.need import Acts
    from training.relevance.sets import CachedModel

    tables, needless, identity = gather(data, base, None, vectors, _CAP)
    others, spare = without(tables["relevance"], needless, SET)
    fitted = fit_calibration(others, spare, RELEVANCE, Acts(CachedModel(base, vectors)))
    known = calibration_for("relevance", "fastembed:sentence-transformers/all-MiniLM-L6-v2")
    lean = None if known.lean is None else known.lean.to_json()
    return {"relevance": {identity: fitted.to_json() | {"lean": lean}}}


def interval(result: Result) -> tuple[float, float]:
    """95 % of recall@5, the tasks drawn again."""
    recall = np.array([recall_at(ranks, wanted, 5) for ranks, wanted in result.ranks])
    chance = np.random.default_rng(0)
    draws = recall[chance.integers(0, len(recall), (_DRAWS, len(recall)))].mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


async def measure(dataset: Dataset, system: System) -> dict[str, Any]:
    """One row."""
    embedder = None if system.model is None else EmbeddedEmbedder(system.model)
    index = None if embedder is None else ExactIndex()
    identity = "none" if embedder is None else embedder.identity
    settings = RetrieverSettings(rank=RankSettings(calibration=system.calibration))
    async with Retriever(embedder, index, make_rankers(), settings) as retriever:
        result = await evaluate(dataset, retriever, Setup(identity, "exact", system.ranker))
    low, high = interval(result)
    row = {
        "system": system.name,
        "ranker": system.ranker,
        "embedder": identity,
        "seen": system.seen,
        "recall@5": round(100 * result.recall[5], 1),
        "recall@5 low": round(100 * low, 1),
        "recall@5 high": round(100 * high, 1),
        "recall@10": round(100 * result.recall[10], 1),
        "ndcg@10": round(100 * result.ndcg10, 1),
    }
    print(row, flush=True)
    return row


def on_record() -> list[dict[str, Any]]:
    """What the training judged with these tasks left out, and when."""
    judged = json.loads((ROOT / "training/relevance/judged.json").read_text(encoding="utf-8"))
    sizes = json.loads((ROOT / "training/relevance/sizes.json").read_text(encoding="utf-8"))
    figures = judged["figures"]
    return [
        {
            "system": "base embedder, `relevance`, every constant without these tasks",
            "seen": "nothing",
            "recall@5": _percent(sizes["sizes"]["0"]["relevance"]),
        }
        | _landed("training/relevance/sizes.json"),
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
    parser.add_argument("--base", type=Path, help="the untouched model, embedded format")
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
    fitted = None if args.base is None else fitted_without(args.data, args.base, args.vectors)
    rows = [asyncio.run(measure(dataset, system)) for system in systems(args.base, fitted)]
    found = {
        "made": made(),
        "tools": len(dataset.tools),
        "servers": len({tool.server for tool in dataset.tools}),
        "tasks": len(dataset.queries),
        "of": TASKS,
        "sha256": {name: sha256(folder / name) for name in ("tools.jsonl", "queries.jsonl")},
        "rows": rows,
        "on record": on_record(),
        "published": [{"system": name, "recall@5": value} for name, value in PUBLISHED],
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
