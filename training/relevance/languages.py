"""Queries in other languages over English descriptions, by the shipped embedder and others.

    python training/relevance/languages.py DATA [--model NAME] [--as-written] [--cache FOLDER]

Two lots of queries: the 18 of mcpproxy-golden, put into other languages by hand
(`languages.jsonl`), over its 45 tools among the 527 of livemcpbench; and 64 of six public sets
(`translated.jsonl`), each over the tools of its set, translated as people would ask by a model that
had not seen the glossaries. `--as-written` puts nothing into English.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.domain.query import Query
from armory.evaluation.dataset import Dataset, LabelledQuery, among, load_dataset
from armory.retrieval.registry import RetrievalOptions, build_retriever
from armory.retrieval.retriever import Retriever

HERE = Path(__file__).parent
RANKERS = ("relevance", "hybrid", "lexical")
PLACES = 5


@dataclass
class Figures:
    """Sums over queries."""

    queries: int = 0
    recalled: float = 0.0
    listed: float = 0.0
    shown: int = 0
    empty: int = 0

    def __str__(self) -> str:
        first, listed = 100 * self.recalled / self.queries, 100 * self.listed / self.queries
        return (
            f"{self.queries} queries: recall@5 {first:5.1f} at 0.5 {listed:5.1f} "
            f"with {self.shown / self.queries:4.1f} nothing {100 * self.empty / self.queries:5.1f}"
        )


async def add(
    found: Figures, retriever: Retriever, query: LabelledQuery, text: str, ranker: str
) -> None:
    """Ask one query."""
    answer = await retriever.search(Query((text,), ranker=ranker), explain=True)
    first = {match.tool.name for match in answer.ranking[:PLACES]}
    shown = {match.tool.name for match in answer.matches}
    found.queries += 1
    found.recalled += len(query.relevant & first) / min(len(query.relevant), PLACES)
    found.listed += len(query.relevant & shown) / len(query.relevant)
    found.shown += len(shown)
    found.empty += not shown


def lots(data: Path) -> Iterator[tuple[str, Dataset, list[tuple[str, str, str]]]]:
    """Each lot's name, its tools, and (language, id, text) of its queries."""
    golden = among(load_dataset(data / "mcpproxy-golden"), data / "livemcpbench")
    rows = read("languages.jsonl")
    put = [(row["language"], row["id"], row["query"]) for row in rows]
    yield "mcpproxy-golden", golden, [("en", q.id, q.text) for q in golden.queries] + put
    by_set: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in read("translated.jsonl"):
        by_set[row["set"]].append(row)
    for name, rows in by_set.items():
        dataset = load_dataset(data / name)
        asked = {row["id"] for row in rows}
        english = [("en", q.id, q.text) for q in dataset.queries if q.id in asked]
        yield "public sets", dataset, english + [(r["language"], r["id"], r["query"]) for r in rows]


def read(name: str) -> list[dict[str, str]]:
    """The rows of a file."""
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


async def measure(data: Path, options: RetrievalOptions) -> None:
    """Print the figures by lot, language and ranker."""
    found: dict[tuple[str, str, str], Figures] = defaultdict(Figures)
    for lot, dataset, texts in lots(data):
        labelled = {query.id: query for query in dataset.queries}
        async with build_retriever(options) as retriever:
            await retriever.index(dataset.tools)
            for language, query, text in texts:
                for ranker in RANKERS:
                    figures = found[lot, language, ranker]
                    await add(figures, retriever, labelled[query], text, ranker)
    for (lot, language, ranker), figures in found.items():
        print(f"{lot:16} {language} {ranker:10} {figures}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Queries in other languages.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", help="instead of the shipped embedder")
    parser.add_argument("--as-written", action="store_true")
    parser.add_argument("--cache", help="folder that keeps the vectors of tools")
    args = parser.parse_args()
    options = RetrievalOptions(cache_dir=args.cache)
    if args.model is not None:
        options = replace(options, model=args.model)
    settings = replace(options.settings, into_english=not args.as_written)
    asyncio.run(measure(args.data, replace(options, settings=settings)))


if __name__ == "__main__":
    main()
