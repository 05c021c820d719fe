"""ToolSense's realistic retrieval benchmark (RRB): 14 candidates a query, three tiers.

    python -m benchmarks.quality.rrb DATA [--base FOLDER] --out benchmarks/quality/rrb.json

Owns: reading its layout, the rows and their JSON; `benchmarks.tables` writes the table. DATA is a
checkout of github.com/SAP/toolsense (Apache-2.0) or the folder or file of the benchmark in it. Each
query is asked of a catalog that holds its own candidates and nothing else; the tiers differ in how
many of them are wanted: one, two or three, more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, cast

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from armory.domain.query import Query
from armory.domain.tool import ToolRecord, fingerprint
from armory.evaluation.metrics import ndcg_at, recall_at
from armory.retrieval.embedders.embedded import SHIPPED, EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from benchmarks.quality.made import made, sha256

FILE = Path("data/toolsense-realistic-retrieval/data.jsonl")
TIERS = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Sample:
    """One query, its candidates and the names of those that are wanted."""

    query: str
    tier: str
    tools: tuple[ToolRecord, ...]
    wanted: frozenset[str]


def file_of(data: Path) -> Path:
    """The benchmark's file in a checkout, its own folder, or itself.

    Raises:
        SystemExit: it is not there; says what to fetch.
    """
    for path in (data, data / FILE, data / FILE.parent.name / FILE.name, data / FILE.name):
        if path.is_file():
            return path
    raise SystemExit(
        f"{data}: no {FILE} there. RRB is part of github.com/SAP/toolsense: "
        "`git clone https://github.com/SAP/toolsense` and name that folder"
    )


def read(path: Path) -> list[Sample]:
    """All samples.

    Raises:
        SystemExit: a line is not what ToolSense writes; names file and line.
    """
    found: list[Sample] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(_sample(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise SystemExit(
                f"{path}:{number}: {error!r}; expected query, complexity ({', '.join(TIERS)}), "
                "tool (one or a list) and analyzed_tools, each tool with tool_name and "
                "tool_description, what is wanted among them"
            ) from error
    if not found:
        raise SystemExit(f"{path}: holds no sample")
    return found


def _sample(row: Mapping[str, Any]) -> Sample:
    given = row["tool"]
    tools = tuple(_tool(tool) for tool in row["analyzed_tools"])
    rows = cast("list[Mapping[str, Any]]", given if isinstance(given, list) else [given])
    wanted = frozenset(str(tool["tool_name"]) for tool in rows)
    names = {tool.name for tool in tools}
    if row["complexity"] not in TIERS or not wanted or not wanted <= names:
        raise ValueError(f"complexity {row['complexity']!r}, wanted {sorted(wanted - names)}")
    return Sample(str(row["query"]), str(row["complexity"]), tools, wanted)


def _tool(row: Mapping[str, Any]) -> ToolRecord:
    """`Service&&Method`, the service as its server."""
    name = str(row["tool_name"])
    service, _, method = name.partition("&&")
    parts = (row.get("api_description"), row["tool_description"])
    original = str(row.get("api_title") or method or name)
    description = "\n".join(str(part) for part in parts if part)
    definition = {
        "name": original,
        "description": description,
        "inputSchema": {"type": "object"},
    }
    return ToolRecord(
        name=name,
        server=service,
        original_name=original,
        definition=definition,
        fingerprint=fingerprint(definition),
        server_title=str(row.get("tool_title") or ""),
        description=description,
    )


def figures(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means in percent; `returned` is a number of tools."""
    return {
        key: round(fmean(row[key] for row in rows) * (1 if key == "returned" else 100), 1)
        for key in rows[0]
    }


async def measure(
    samples: Sequence[Sample], model: Path | None, rankers: Sequence[str]
) -> dict[str, list[dict[str, float]]]:
    """Figures of every sample by ranker; a sample's catalog is indexed once for all of them."""
    embedder = None if model is None else EmbeddedEmbedder(model)
    index = None if model is None else ExactIndex()
    found: dict[str, list[dict[str, float]]] = {ranker: [] for ranker in rankers}
    indexing = Indexing(cache=DocumentCache(None))
    async with Retriever(embedder, index, make_rankers(), indexing=indexing) as retriever:
        for sample in samples:
            await retriever.index(sample.tools)
            for ranker in rankers:
                query = Query((sample.query,), ranker=ranker)
                ranking = await retriever.rank(query)
                if ranking.degraded is not None:
                    raise SystemExit(f"{sample.query!r} was not measured: {ranking.degraded}")
                names = [ranking.record(i).name for i in ranking.order.tolist()]
                shown = ranking.cut(retriever.limits_of(query)).shown
                listed = [ranking.record(i).name for i in shown]
                found[ranker].append(_figures(names, listed, sample.wanted))
    return found


def _figures(
    names: Sequence[str], listed: Sequence[str], wanted: frozenset[str]
) -> dict[str, float]:
    ranks = [place for place, name in enumerate(names, start=1) if name in wanted]
    return {
        "first": float(names[0] in wanted),
        "recall@5": recall_at(ranks, len(wanted), 5),
        "ndcg@10": ndcg_at(ranks, len(wanted), 10),
        "listed": len(wanted.intersection(listed)) / len(wanted),
        "returned": float(len(listed)),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="ToolSense's RRB, by tier.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", type=Path, help="the untouched model, embedded format")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    path = file_of(args.data)
    samples = read(path)
    runs: list[tuple[str, Path | None, tuple[str, ...]]] = [("words", None, ("lexical",))]
    if args.base is not None:
        runs.append(("base", args.base, ("semantic", "hybrid")))
    runs.append(("shipped", SHIPPED, ("relevance",)))
    rows: list[dict[str, Any]] = []
    for name, model, rankers in runs:
        for ranker, each in asyncio.run(measure(samples, model, rankers)).items():
            for tier in (*TIERS, "all"):
                part = [
                    row
                    for row, sample in zip(each, samples, strict=True)
                    if tier in ("all", sample.tier)
                ]
                if part:
                    row = {"model": name, "ranker": ranker, "tier": tier, "queries": len(part)}
                    rows.append(row | figures(part))
                    print(rows[-1], flush=True)
    found = {
        "made": made(),
        "candidates": sorted({len(sample.tools) for sample in samples}),
        "sha256": sha256(path),
        "rows": rows,
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
