"""One query of at most 64 tokens against 15,000 tools on one core, and where its time goes.

    python -m benchmarks.scale.query DATA [--tools 15000] [--queries 400] [--cache FILE]

Owns: the queries (labelled ones of DATA, each asked once, so that no cache answers), the stages and
the readings. End to end: embedding, both legs, ranking, the cut. Wall time counts only on a quiet
machine; processor time is what a query costs. The process is bound to one core, where the system
can do that.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import structlog
from tokenizers import Tokenizer

from armory.cli.gateway.event_loop import loop_factory
from armory.domain.query import Query
from armory.retrieval.embedders.embedded import SHIPPED
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.registry import make_index, make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.search import candidates as stages
from armory.retrieval.settings import RetrieverSettings
from benchmarks.scale.run import Noisy, base_vectors, catalog, resident_mb

HERE = Path(__file__).parent
VERSIONS = {
    "python": platform.python_version(),
    **{name: version(name) for name in ("numpy", "onnxruntime")},
}
SETS = ("toole", "livemcpbench", "mcpproxy-golden", "toolbench-stable", "sealtools", "bfcl")
TOKENS = 64


def queries(data: Path, count: int) -> list[str]:
    """Distinct queries of at most 64 tokens, the sets taking turns."""
    tokenizer: Any = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    sets = [
        [json.loads(line)["query"] for line in (data / name / "queries.jsonl").open()]
        for name in SETS
    ]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*sets))
    texts = dict.fromkeys(text for text in turns if text)
    short = (text for text in texts if len(tokenizer.encode(text).ids) <= TOKENS)
    return list(itertools.islice(short, count))


def timed(found: list[float], work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, its processor time noted (of the thread that does it)."""

    def run(*args: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*args)
        finally:
            found.append((time.thread_time() - began) * 1e3)

    return run


def spread(values: list[float]) -> dict[str, float]:
    """p50, p95 and mean."""
    found = [*np.percentile(values, [50, 95]).tolist(), float(np.mean(values))]
    return {name: round(v, 2) for name, v in zip(("p50", "p95", "mean"), found, strict=True)}


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Ask every query once."""
    known = await base_vectors(args.data / "toucan-pool" / "tools.jsonl", 1_000, args.cache)
    tools = catalog(args.data / "toucan-pool" / "tools.jsonl", args.tools)
    embedder = Noisy(known)
    times: dict[str, list[float]] = {name: [] for name in ("embed", "words", "gather", "rank")}
    rankers = make_rankers()
    chosen: Any = rankers[args.ranker]
    chosen.rank = timed(times["rank"], chosen.rank)
    patched: Any = stages
    patched.words_of = timed(times["words"], stages.words_of)
    patched.CandidateSearch.features = timed(times["gather"], stages.CandidateSearch.features)
    model: Any = embedder
    model._run_parts = timed(times["embed"], model._run_parts)
    texts = queries(args.data, args.queries + 20)
    index = make_index(args.index, embedder)
    settings = RetrieverSettings(query_cache=0)
    async with Retriever(embedder, index, rankers, settings) as retriever:
        await retriever.index(tools)
        for text in texts[:20]:
            await retriever.search(Query((text,), ranker=args.ranker))
        for found in times.values():
            found.clear()
        wall: list[float] = []
        cpu: list[float] = []
        for text in texts[20:]:
            started, used = time.perf_counter(), time.process_time()
            await retriever.search(Query((text,), ranker=args.ranker))
            wall.append((time.perf_counter() - started) * 1e3)
            cpu.append((time.process_time() - used) * 1e3)
        memory = round(resident_mb())
    return {
        "tools": len(tools),
        "index": args.index,
        "ranker": args.ranker,
        "queries": len(wall),
        "wall_ms": spread(wall),
        "cpu_ms": spread(cpu),
        "stages_cpu_ms": {name: spread(found) for name, found in times.items() if found},
        "memory_mb": memory,
        "versions": VERSIONS,
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="One query on one core.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--tools", type=int, default=15_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--index", default="exact")
    parser.add_argument("--ranker", default="relevance")
    parser.add_argument("--cache", type=DocumentCache, default=DocumentCache(None))
    parser.add_argument("--out", type=Path, default=HERE / "query.json")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:  # the gateway's own
        found = runner.run(measure(args))
    print(json.dumps(found, indent=1))
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
