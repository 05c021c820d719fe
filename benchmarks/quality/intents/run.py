"""What splitting a query of several intents is worth, with the agent's tools and no model.

    python -m benchmarks.quality.intents.run SETS_FOLDER [--limit N] [--out FILE]

A fixed policy stands in for the model: search for the whole query and for each of its clauses, with
`vector_search` and `keyword_search`, and merge: a tool's points are those of the whole query plus
those of its best clause (reciprocal ranks). Against it stand plain searches with the whole query
over the same chunks: each of the two, and both fused by the same ranks. All give K tools; a query
is complete when every tool that it wants is among them. The queries are those that want more than
one tool and have more than one clause.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from armory.agent.catalog import CatalogSource
from armory.agent.chunks import Ask, Hit, Tracker
from armory.agent.labels import SEARCHES, Search
from armory.evaluation.dataset import Dataset, LabelledQuery, load_dataset
from armory.retrieval.embedders.embedded import SHIPPED, EmbeddedEmbedder
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.lexical.intents import clauses
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever

HERE = Path(__file__).parent
SETS = ("toole-multi", "livemcpbench", "toolbench-stable", "sealtools")
SIZES = (5, 10)
_RANKS = 10


def tools_of(hits: Sequence[Hit]) -> list[str]:
    """Names of the tools behind hits, in order, once each."""
    return list(dict.fromkeys(h.match.tool.name for h in hits if h.match is not None))


async def plain(source: CatalogSource, text: str, search: Search, top_k: int) -> list[str]:
    """One search with the whole query."""
    tracker = Tracker()
    shown, _ = tracker.admit(await source.search(search, Ask(text, top_k)), top_k)
    return tools_of(shown)


async def points(source: CatalogSource, text: str, top_k: int) -> dict[str, float]:
    """Both searches for one text, by reciprocal ranks."""
    found: dict[str, float] = {}
    for search in SEARCHES:
        hits = await source.search(search, Ask(text, 3 * top_k))
        for rank, name in enumerate(tools_of(hits)):
            found[name] = found.get(name, 0.0) + 1 / (_RANKS + rank)
    return found


def best(found: dict[str, float], top_k: int) -> list[str]:
    """Names with the most points, in order."""
    return sorted(found, key=lambda name: -found[name])[:top_k]


async def split(source: CatalogSource, text: str, whole: dict[str, float], top_k: int) -> list[str]:
    """The whole query and every clause, merged."""
    wishes = [text[start:end] for start, end in clauses(text)]
    parts = [await points(source, clause, top_k) for clause in wishes]
    merged = dict(whole)
    for name in {name for part in parts for name in part}:
        merged[name] = merged.get(name, 0.0) + max(part.get(name, 0.0) for part in parts)
    return best(merged, top_k)


def several(dataset: Dataset) -> list[LabelledQuery]:
    """The queries that want more than one tool and that can be split."""
    return [q for q in dataset.queries if len(q.relevant) > 1 and clauses(q.text)]


async def measure(folder: Path, limit: int | None) -> dict[str, Any]:
    """The figures of one set."""
    dataset = load_dataset(folder)
    queries = several(dataset)[:limit]
    embedder = EmbeddedEmbedder(SHIPPED)
    retriever = Retriever(embedder, ExactIndex(), make_rankers())
    told: dict[str, Any] = {"tools": len(dataset.tools), "queries": len(queries)}
    async with retriever:
        await retriever.index(dataset.tools)
        source = CatalogSource(retriever)
        ways: dict[str, dict[int, list[set[str]]]] = {}
        for query in queries:
            text = query.text[:8_000]
            for size in SIZES:
                found = {search: await plain(source, text, search, size) for search in SEARCHES}
                whole = await points(source, text, size)
                rows = {f"plain {name}": names for name, names in found.items()}
                rows["plain, both fused"] = best(whole, size)
                rows["split, search each, merge"] = await split(source, text, whole, size)
                for way, names in rows.items():
                    ways.setdefault(way, {}).setdefault(size, []).append(set(names))
    for way, sizes in ways.items():
        told[way] = {}
        for size, found_sets in sizes.items():
            pairs = list(zip(queries, found_sets, strict=True))
            complete = sum(q.relevant <= names for q, names in pairs)
            recall = sum(len(q.relevant & names) / len(q.relevant) for q, names in pairs)
            told[way][f"complete@{size}"] = round(complete / len(pairs), 4)
            told[way][f"recall@{size}"] = round(recall / len(pairs), 4)
    return told


async def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for name in given.sets.split(","):
        results[name] = await measure(given.folder / name, given.limit)
        print(name, json.dumps(results[name]), flush=True)
    given.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
