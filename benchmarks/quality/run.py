"""Recall and friends of every labelled set, for every way of ranking; one JSON, one table.

    python -m benchmarks.quality.run SETS_FOLDER [--sets toole,bfcl] [--limit N] \
        [--minilm FOLDER] [--among POOL_FOLDER[:N]] [--out benchmarks/quality/results.json] \
        [--docs docs/retrieval.md]

SETS_FOLDER holds one folder a set (`tools.jsonl`, `queries.jsonl`). `--minilm` names a folder with
the untouched all-MiniLM-L6-v2 in the embedded format (`python -m training.export`); without it the
row "MiniLM cosine" uses the shipped model, and the table says which.

With `--among` every set is measured among (N of) the tools of POOL as well. The run fails where
`relevance` finds less than the best plain ranker by more than half a point of recall@5.

The MetaTool protocol is measured beside: one-tool queries with the top 6, two-tool queries with
the top 7, leniently (one of the two suffices, as the published figures count) and strictly (both).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from armory.cli.quality.eval import folder_and_count
from armory.evaluation.dataset import Dataset, among, load_dataset
from armory.evaluation.report import to_json
from armory.evaluation.run import Result, Setup, evaluate
from armory.retrieval.embedders.embedded import SHIPPED, EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from benchmarks.quality import summary

HERE = Path(__file__).parent
BEGIN, END = "<!-- quality:begin (generated) -->", "<!-- quality:end -->"
PUBLISHED = {"single@6": 0.81, "multi@7 lenient": 0.8833}


@dataclass(frozen=True)
class System:
    """One way of ranking: a ranker over a model, or over words alone."""

    name: str
    ranker: str
    model: Path | None


def systems(minilm: Path) -> list[System]:
    return [
        System("BM25", "lexical", None),
        System("MiniLM cosine", "semantic", minilm),
        System("hybrid", "hybrid", SHIPPED),
        System("semantic", "semantic", SHIPPED),
        System("relevance", "relevance", SHIPPED),
    ]


def metatool(name: str, result: Result) -> dict[str, float]:
    """The MetaTool protocol of this set; empty for others."""
    ranks = result.ranks
    if name == "toole":
        return {"single@6": share([any(r <= 6 for r in found) for found, _ in ranks])}
    if name == "toole-multi":
        return {
            "multi@7 lenient": share([any(r <= 7 for r in found) for found, _ in ranks]),
            "multi@7 strict": share([sum(r <= 7 for r in found) == n for found, n in ranks]),
        }
    return {}


def share(hits: Sequence[bool]) -> float:
    return round(sum(hits) / len(hits), 4) if hits else 0.0


async def measure(dataset: Dataset, chosen: Sequence[System], cache: DocumentCache) -> list[Any]:
    """Every system over one set; the rankers of one model share its query vectors."""
    rows: list[Any] = []
    for model in dict.fromkeys(system.model for system in chosen):
        embedder = None if model is None else EmbeddedEmbedder(model)
        index = None if model is None else ExactIndex()
        indexing = Indexing(cache=cache)
        async with Retriever(embedder, index, make_rankers(), indexing=indexing) as retriever:
            for system in (s for s in chosen if s.model == model):
                started = time.monotonic()
                identity = "none" if embedder is None else embedder.identity
                setup = Setup(identity, "exact", system.ranker)
                result = await evaluate(dataset, retriever, setup)
                report = to_json(result)
                report.pop("latency_ms")  # time is for benchmarks/scale, on an idle machine
                extra = metatool(dataset.name, result)
                rows.append({"set": dataset.name, "system": system.name, **report, **extra})
                print(
                    f"{dataset.name:18} {system.name:14} R@5 {report['recall@5']:.3f} "
                    f"nDCG {report['ndcg@10']:.3f} at 0.5: {report['threshold']['recall']:.3f} "
                    f"with {report['threshold']['returned_mean']:.1f} {extra} "
                    f"({time.monotonic() - started:.0f} s)",
                    flush=True,
                )
    return rows


def worse(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Where `relevance` finds less than the best plain ranker, by more than the margin."""
    return [
        f"{it.name}: relevance {it.ours:.3f}, {it.system} {it.best:.3f}"
        for it in summary.below(rows)
    ]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The Markdown table: recall@5 / nDCG@10 a system, and what a listing at 0.5 gives."""
    names = list(dict.fromkeys(row["system"] for row in rows))
    found = {(row["set"], row["system"]): row for row in rows}
    lines = [
        "| Set | queries | "
        + " | ".join(names)
        + " | relevance at 0.5: recall / tools / nothing |",
        "|---" * (len(names) + 3) + "|",
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        cells = []
        for system in names:
            row = found[name, system]
            if row["mrr"] or row["abstention_accuracy"] is None:
                cells.append(f"{100 * row['recall@5']:.0f} / {100 * row['ndcg@10']:.0f}")
            else:
                cells.append("")
        last = found.get((name, "relevance"), {})
        at = last.get("threshold", {})
        if last.get("abstention_accuracy") is not None and not last["mrr"]:
            listing = f"rightly nothing: {100 * last['abstention_accuracy']:.0f} %"
        else:
            listing = (
                f"{100 * at['recall']:.0f} / {at['returned_mean']:.1f} / "
                f"{100 * at['empty_share']:.0f} %"
            )
        count = found[name, names[0]]["queries"]
        lines.append(f"| {name} | {count:,} | " + " | ".join(cells) + f" | {listing} |")
    return "\n".join(lines)


def metatool_table(rows: Sequence[dict[str, Any]]) -> str:
    keys = ("single@6", "multi@7 lenient", "multi@7 strict")
    lines = ["| MetaTool protocol | " + " | ".join(keys) + " |", "|---" * 4 + "|"]
    shown = ["-" if k not in PUBLISHED else f"{100 * PUBLISHED[k]:.1f}" for k in keys]
    lines.append("| published (ToolSEE) | " + " | ".join(shown) + " |")
    for system in dict.fromkeys(row["system"] for row in rows):
        values = {k: row[k] for row in rows if row["system"] == system for k in keys if k in row}
        cells = [f"{100 * values[k]:.1f}" if k in values else "-" for k in keys]
        lines.append(f"| {system} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_docs(path: Path, rows: Sequence[dict[str, Any]], note: str) -> None:
    """Put the tables between the markers of a Markdown file."""
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{path} lacks the markers {BEGIN} and {END}")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    body = f"\n{table(rows)}\n\n{metatool_table(rows)}\n\n{note}\n"
    path.write_text(head + BEGIN + body + END + tail, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Quality over labelled sets.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", help="names, comma between; default: all with queries")
    parser.add_argument("--limit", type=int, help="queries a set, spread evenly")
    parser.add_argument("--minilm", type=Path, help="the untouched model, embedded format")
    parser.add_argument("--among", metavar="POOL[:N]", help="each set also among these tools")
    parser.add_argument("--cache", type=Path, help="file of document vectors")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    parser.add_argument("--docs", type=Path, help="Markdown file with the markers")
    parser.add_argument("--draw", action="store_true", help="only the docs, from --out")
    args = parser.parse_args()
    names = sorted(p.parent.name for p in args.folder.glob("*/queries.jsonl"))
    if args.sets:
        names = args.sets.split(",")
    minilm = args.minilm or SHIPPED
    cache = DocumentCache(args.cache)
    rows: list[Any] = []
    if args.draw:
        rows, names = json.loads(args.out.read_text(encoding="utf-8")), []
    for name in names:
        dataset = load_dataset(args.folder / name, limit=args.limit)
        rows += asyncio.run(measure(dataset, systems(minilm), cache))
        if args.among and any(query.relevant for query in dataset.queries):
            mixed = among(dataset, *folder_and_count(args.among))
            beside = len(mixed.tools) - len(dataset.tools)
            found = asyncio.run(measure(mixed, systems(minilm), cache))
            rows += [row | {"of": name, "beside": beside} for row in found]
        args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    cosine = json.loads((minilm / "config.json").read_text(encoding="utf-8"))["identity"]
    shipped = json.loads((SHIPPED / "config.json").read_text(encoding="utf-8"))["identity"]
    limit = f"at most {args.limit} queries a set; " if args.limit else ""
    note = (
        f"Percent: recall@5 / nDCG@10 over the full ranking; {limit}cosine by `{cosine}`, hybrid "
        f"and relevance on `{shipped}`. The listing: what a query gets at the default threshold "
        "(recall, tools returned, share of queries left with nothing). The constants of "
        "`relevance` were fitted on these same sets, so its column shows the shipped state, not "
        "what to expect of an unseen catalog; that is measured with the judged set left out."
    )
    if args.docs:
        write_docs(args.docs, rows, note)
    if broken := worse(rows):
        raise SystemExit("relevance finds less than a plain ranker:\n" + "\n".join(broken))


if __name__ == "__main__":
    main()
