"""How often the right server comes first, with and without what its tools say together.

    python training/relevance/servers.py DATA --model FOLDER [--json FILE]

Catalogs of whole servers of the pool, some thirty, a hundred and three hundred: those that the
written queries of servers want which no embedder was trained on, and others drawn by chance.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.rankers.relevance import RelevanceRanker
from training.relevance.sets import CachedModel, features_of
from training.relevance.written import (
    HALVES,
    held_queries,
    index_rows,
    pool_rows,
    questions_of,
    server_of,
)

#: Servers in a catalog, how many of them are asked for, which part of such catalogs is made, and
#: how often they are drawn.
SIZES = ((30, 15, 1, 3), (100, 15, 2, 2), (300, 25, 3, 2))
_DEPTH = 5

Asked = list[tuple[str, frozenset[str]]]


def without_copies(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The tools of each server; of packages that are called alike those that queries want."""
    asked = {i for queries in held_queries(rows).values() for _, ids, _ in queries for i in ids}
    packages: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        packages[server_of(row)][row["server"]].append(row)
    found: dict[str, list[dict[str, Any]]] = {}
    for title, theirs in packages.items():
        every = list(theirs.values())
        kept = [tools for tools in every if asked & {row["id"] for row in tools}] or every[:1]
        found[title] = [row for tools in kept for row in tools]
    return found


def catalogs(
    rows: Sequence[dict[str, Any]], servers: int, asked: int, every: int, draw: int
) -> Iterator[tuple[list[dict[str, Any]], Asked]]:
    """Tools and the queries that want some of them; each query is put to one catalog at most."""
    by_server = without_copies(rows)
    for half, queries in held_queries(rows).items():
        chance = random.Random(f"{draw}-{servers}{half}")
        held = sorted({server for _, _, theirs in queries for server in theirs})
        others = sorted(by_server.keys() - held)
        chance.shuffle(held)
        for start in range(0, len(held), asked * every):
            first = set(held[start : start + asked])
            chosen = first.union(*(theirs for _, _, theirs in queries if theirs & first))
            wanted = [(text, ids) for text, ids, theirs in queries if theirs & first]
            chosen.update(chance.sample(others, max(servers - len(chosen), 0)))
            yield [row for server in sorted(chosen) for row in by_server[server]], wanted


def figures(
    order: NDArray[np.int64], servers: Sequence[str], wanted: frozenset[int]
) -> list[float]:
    """Whether the right server is first, whether the right tool is, and recall@5."""
    first = int(order[0])
    return [
        float(servers[first] in {servers[tool] for tool in wanted}),
        float(first in wanted),
        len(wanted.intersection(order[:_DEPTH].tolist())) / len(wanted),
    ]


def measure(rows: Sequence[dict[str, Any]], embed: CachedModel) -> list[dict[str, Any]]:
    """One entry a size."""
    ranker, found = RelevanceRanker(), list[dict[str, Any]]()
    for servers, asked, every, draws in SIZES:
        pairs: list[tuple[list[float], list[float]]] = []
        tools: list[int] = []
        drawn = (catalogs(rows, servers, asked, every, draw) for draw in range(draws))
        for theirs, queries in chain.from_iterable(drawn):
            catalog = index_rows("some", theirs, embed)
            tools.append(len(theirs))
            of = [server_of(row) for row in theirs]
            questions = questions_of(catalog, queries)
            texts = [question.text for question in questions]
            for features, question in zip(
                features_of(catalog, texts, embed), questions, strict=True
            ):
                without, with_servers = (
                    ranker.rank(some, RankSettings()).order
                    for some in (replace(features, servers=None), features)
                )
                wanted = question.relevant
                pairs.append((figures(without, of, wanted), figures(with_servers, of, wanted)))
        before, after = (100 * np.array(part) for part in zip(*pairs, strict=True))
        spread = (after - before).std(0) / np.sqrt(len(pairs))
        found.append(
            {
                "servers": servers,
                "tools": round(float(np.mean(tools))),
                "queries": len(pairs),
                "without": _rounded(before.mean(0)),
                "with": _rounded(after.mean(0)),
                "standard error of the difference": _rounded(spread),
            }
        )
        print(found[-1], flush=True)
    return found


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(float(value), 2) for value in values]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="The right server first, with and without.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/relevance"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    embed = CachedModel(args.model, args.cache)
    found = measure(pool_rows(args.data), embed)
    embed.save()
    if args.json:
        names = ["right server first", "right tool first", "recall@5"]
        report = {"figures": names, "halves": list(HALVES), "sizes": found}
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
