"""Queries in other languages over English descriptions, by the shipped embedder and others.

    python training/relevance/languages.py DATA [--model NAME]

The 18 queries of mcpproxy-golden, put into German, Hungarian, Spanish, French and Chinese by hand
(`languages.jsonl`), over its 45 tools among the 527 of livemcpbench.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.evaluation.dataset import Dataset, among, load_dataset
from armory.evaluation.run import Setup, evaluate
from armory.retrieval.registry import RetrievalOptions, build_retriever

QUERIES = Path(__file__).with_name("languages.jsonl")
RANKERS = ("relevance", "hybrid", "lexical")


async def measure(datasets: dict[str, Dataset], options: RetrievalOptions) -> None:
    """Print recall@5, recall at 0.5 and the share left with nothing by language and ranker."""
    async with build_retriever(options) as retriever:
        for language, dataset in datasets.items():
            for ranker in RANKERS:
                result = await evaluate(dataset, retriever, Setup("", "exact", ranker))
                at = result.threshold
                print(
                    f"{language} {ranker:10} recall@5 {100 * result.recall[5]:5.1f} "
                    f"at 0.5 {100 * at.recall:5.1f} nothing {100 * at.empty_share:5.1f}",
                    flush=True,
                )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Queries in other languages.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", help="instead of the shipped embedder")
    args = parser.parse_args()
    english = among(load_dataset(args.data / "mcpproxy-golden"), args.data / "livemcpbench")
    put: dict[str, dict[str, str]] = {}
    for line in QUERIES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        put.setdefault(row["language"], {})[row["id"]] = row["query"]
    datasets = {"en": english}
    for language, texts in put.items():
        queries = tuple(replace(query, text=texts[query.id]) for query in english.queries)
        datasets[language] = replace(english, queries=queries)
    options = RetrievalOptions() if args.model is None else RetrievalOptions(model=args.model)
    asyncio.run(measure(datasets, options))


if __name__ == "__main__":
    main()
