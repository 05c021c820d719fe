"""The hand-written queries as evidence: one large catalog and many small ones.

Only queries for servers that no embedder was trained on count (`training.data.is_held_server`).
Each half of those servers gives a set of its own over a sample of the pool (`written-x`), and small
catalogs of a few servers each (`small-x-07`); the halves leave together, so that the one can be
judged by constants that have not seen the other.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.relevance.sets import CachedModel, Catalog, Question, index, record_of, rows_of

POOL = "toucan-pool"
QUERIES = Path(__file__).parents[1] / "written.jsonl"
HALVES = ("x", "y")
#: Tools of the large catalog, the wanted ones included.
LARGE = 2000
#: Tools of a small catalog.
LEAST, MOST = 4, 40
#: Queries of other servers, and requests that need no tool, put to every small catalog.
ABSENT = 10
_SEED = 5


@dataclass(frozen=True)
class Small:
    """A catalog of a few servers, what is asked of it and what is asked in vain."""

    name: str
    tools: list[dict[str, Any]]
    asked: list[tuple[str, frozenset[str]]]
    absent: list[str]


def _share(text: str) -> int:
    return int(hashlib.sha256(text.lower().encode()).hexdigest()[:8], 16) % 100


def server_of(row: dict[str, Any]) -> str:
    """The server that a row of the pool belongs to, as the training names it."""
    from training.data import split_name

    return split_name(str(row.get("server_title") or row.get("server") or ""))


def held_queries(
    tools: Sequence[dict[str, Any]],
) -> dict[str, list[tuple[str, frozenset[str], frozenset[str]]]]:
    """By half: (query, ids, servers) of the queries that concern held-out servers alone."""
    from training.data import is_held_server

    home = {row["id"]: server_of(row) for row in tools}
    found: dict[str, list[tuple[str, frozenset[str], frozenset[str]]]] = {h: [] for h in HALVES}
    for line in QUERIES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        servers = frozenset(home[r] for r in row["relevant"])
        halves = {HALVES[_share("half " + s) % 2] for s in servers}
        if len(halves) == 1 and all(is_held_server(s) for s in servers):
            found[halves.pop()].append((row["query"], frozenset(row["relevant"]), servers))
    return found


def smalls(tools: Sequence[dict[str, Any]], half: str) -> Iterator[Small]:
    """The small catalogs of a half; every held-out server stands in one of them."""
    chance = random.Random(f"{_SEED}{half}")
    by_server: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in tools:
        by_server[server_of(row)].append(row)
    queries = held_queries(tools)[half]
    asked = sorted({s for _, _, servers in queries for s in servers})
    together: dict[str, set[str]] = {s: {s} for s in asked}
    for _, _, servers in queries:  # servers that one query needs stay together
        joined = set().union(*(together[s] for s in servers))
        for server in joined:
            together[server] = joined
    groups = sorted({tuple(sorted(g)) for g in together.values()})
    chance.shuffle(groups)
    others = sorted(s for s in by_server if s not in asked and len(by_server[s]) <= 15)
    number = 0
    while groups:
        chosen: set[str] = set()
        for _ in range(chance.randint(1, 4)):
            if groups:
                chosen |= set(groups.pop())
        chosen |= set(chance.sample(others, chance.randint(0, 2)))
        kept: list[dict[str, Any]] = []
        for server in sorted(chosen):
            kept += chance.sample(by_server[server], min(len(by_server[server]), 30))
        ids = {row["id"] for row in kept}
        present = [(q, wanted) for q, wanted, _ in queries if wanted <= ids]
        foreign = [q for q, _, servers in queries if not servers & chosen]
        if present and LEAST <= len(kept) <= MOST:
            absent = chance.sample(foreign, min(ABSENT, len(foreign)))
            yield Small(f"small-{half}-{number:02d}", kept, present, absent)
            number += 1


def large(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools of the large catalog: all that held-out queries want, and a sample."""
    wanted = {t for part in held_queries(tools).values() for _, ids, _ in part for t in ids}
    rest = [row for row in tools if row["id"] not in wanted]
    sample = random.Random(_SEED).sample(rest, LARGE - len(wanted))
    return [row for row in tools if row["id"] in wanted] + sample


def questions_of(catalog: Catalog, asked: Sequence[tuple[str, frozenset[str]]]) -> list[Question]:
    """Queries with their tools as rows of the catalog."""
    place = {r.name: i for i, r in enumerate(catalog.records)}
    return [
        Question(f"{catalog.name}:{i}", text, frozenset(place[t] for t in ids))
        for i, (text, ids) in enumerate(asked)
    ]


def index_rows(name: str, rows: Sequence[dict[str, Any]], embed: CachedModel) -> Catalog:
    """Rows of the pool, indexed as a catalog."""
    return index(name, [record_of(row) for row in rows], embed)


def pool_rows(root: Path) -> list[dict[str, Any]]:
    """The pool's tools."""
    return rows_of(root / POOL / "tools.jsonl")
