"""Words as sparse vectors with IDF on a Qdrant server, beside the words in the gateway.

    python -m benchmarks.scale.sparse TOOLS_JSONL --qdrant URL [--tools 15000] [--queries 300] \
        [--out FILE]

Owns: the share of queries whose ten best tools by words are other ones, and what a query costs.
Two catalogs, a half of the tools each, are in one collection, as two gateways would have it. A
sparse vector holds what a gateway's BM25F has without its IDF, once with the mean lengths of the
tool's own catalog (which no shared point could know), once with those of all tools; the server
multiplies with its IDF (`modifier: idf`), among the tools of one catalog by name.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from armory.domain.tool import ToolRecord
from armory.retrieval.indexing.document import fields_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.lexical.postings import Postings
from armory.retrieval.lexical.text import terms
from benchmarks.scale.made import made
from benchmarks.scale.run import catalog, pct

_BEST = 10
_PAGE = 500
_TIED = 1e-3
"""Tools whose scores differ by less may change places."""


def words_of(tools: Sequence[ToolRecord]) -> Postings:
    """The words of a catalog, as a gateway has them."""
    index = LexicalIndex()
    for tool in tools:
        index.add(tool.name, fields_of(tool))
    return index.freeze([tool.name for tool in tools])


def held_bytes(postings: Postings) -> int:
    """What the arrays of a gateway's words take."""
    forward = postings.forward
    parts: list[Any] = [*postings.inverted, *vars(postings).values()]
    parts += [forward.sizes, forward.terms, forward.counts, forward.whole, forward.lengths]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def weighed(postings: Postings) -> list[dict[str, float]]:
    """What each term of each tool weighs without its IDF."""
    inverted = postings.inverted
    width = len(inverted.df)
    postings._weigh(np.arange(width))  # pyright: ignore[reportPrivateUsage]
    names = list(postings._vocabulary)  # pyright: ignore[reportPrivateUsage]
    found: list[dict[str, float]] = [{} for _ in range(len(postings))]
    weights = postings._weights  # pyright: ignore[reportPrivateUsage]
    for row, term, weight in zip(
        inverted.rows.tolist(), inverted.terms.tolist(), weights.tolist(), strict=True
    ):
        found[row][names[term]] = weight
    return found


class Server:
    """Both catalogs in one collection, which is made anew."""

    def __init__(self, url: str, name: str) -> None:
        self._client = QdrantClient(url=url, timeout=120, check_compatibility=False)
        self._name = name
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        self._client.create_collection(
            name, vectors_config={}, sparse_vectors_config={"words": words}
        )
        self._client.create_payload_index(name, "catalog", models.PayloadSchemaType.KEYWORD)
        self._numbers: dict[str, int] = {}

    def put(self, first: int, told: str, tools: Sequence[dict[str, float]]) -> None:
        """The tools of a catalog as points from that id on."""
        for start in range(0, len(tools), _PAGE):
            points = [
                models.PointStruct(
                    id=first + start + i,
                    vector={"words": self._vector(tool)},
                    payload={"catalog": told},
                )
                for i, tool in enumerate(tools[start : start + _PAGE])
            ]
            self._client.upsert(self._name, points, wait=True)

    def best(self, query: str, told: str) -> list[int]:
        """Ids of the best tools of a catalog."""
        only = models.FieldCondition(key="catalog", match=models.MatchValue(value=told))
        found = self._client.query_points(
            self._name,
            query=self._vector(dict.fromkeys(terms(query), 1.0)),
            using="words",
            limit=_BEST,
            query_filter=models.Filter(must=[only]),
            with_payload=False,
        )
        return [int(point.id) for point in found.points]

    def _vector(self, tool: dict[str, float]) -> models.SparseVector:
        numbers = [self._numbers.setdefault(word, len(self._numbers)) for word in tool]
        return models.SparseVector(indices=numbers, values=list(tool.values()))


def asked(tools: Sequence[ToolRecord], count: int) -> list[str]:
    """The beginnings of descriptions, from every part of the catalog."""
    step = max(1, len(tools) // count)
    return [" ".join(tool.description.split()[:9]) or tool.name for tool in tools[::step]][:count]


def compare(mine: Postings, server: Server, told: str, first: int, texts: list[str]) -> Any:
    """The ten best by words in the gateway, and on the server."""
    differ, here, there = 0, list[float](), list[float]()
    for text in texts:
        began = time.perf_counter()
        own = mine.search(text, forgiving=False).bm25()
        here.append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        found = [number - first for number in server.best(text, told)]
        there.append((time.perf_counter() - began) * 1e3)
        least = np.sort(own)[-_BEST] - _TIED
        wanted = int(min(_BEST, np.count_nonzero(own)))
        differ += len(found) != wanted or bool((own[found] < least).any())
    return {
        "queries": len(texts),
        "lists_that_differ": differ,
        "in_the_gateway_ms": {"p50": pct(here, 50), "p95": pct(here, 95)},
        "on_the_server_ms": {"p50": pct(there, 50), "p95": pct(there, 95)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Words on a Qdrant server.")
    parser.add_argument("tools_file", type=Path)
    parser.add_argument("--qdrant", required=True, help="URL of a server")
    parser.add_argument("--tools", type=int, default=15_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    tools = catalog(args.tools_file, args.tools)
    half = len(tools) // 2
    mine, every = words_of(tools[:half]), words_of(tools)
    report: dict[str, Any] = {
        "made": made(args.qdrant),
        "tools": len(tools),
        "words_in_the_gateway_bytes_a_tool": round(held_bytes(every) / len(tools)),
        "scenes": {},
    }
    texts = asked(tools[:half], args.queries)
    both = weighed(every)
    for scene, given in (
        ("weights of its own catalog", weighed(mine)),
        ("weights of all tools", both[:half]),
    ):
        server = Server(args.qdrant, f"sparse-{os.getpid()}-{scene.replace(' ', '-')}")
        server.put(0, "mine", given)
        alone = compare(mine, server, "mine", 0, texts)
        server.put(half, "other", both[half:])
        report["scenes"][scene] = {
            "this catalog alone": alone,
            "another catalog's tools beside it": compare(mine, server, "mine", 0, texts),
        }
        print(scene, report["scenes"][scene], flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
