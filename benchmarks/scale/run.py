"""Index build, memory and filtered-query latency from 1,000 to 100,000 tools.

    python -m benchmarks.scale.run TOOLS_JSONL [--sizes 1000,10000,100000] [--cache FILE] \
        [--indexes exact,faiss,qdrant] [--out benchmarks/scale/results.json] [--plot FILE.svg]

Tools are those of TOOLS_JSONL, repeated with other names and servers until there are enough. Their
vectors are embedded once (`--base` tools of the file) and repeated with a little noise, so that
100,000 tools cost no hour of embedding; queries are embedded for real, one each, uncached. Every
(index, size) runs in a process of its own. The query is filtered to every second tool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.evaluation.dataset import load_tools
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.ports import FloatArray, VectorIndex
from armory.retrieval.registry import make_index, make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from benchmarks.scale.show import plot, write_docs

HERE = Path(__file__).parent
LOCAL_QDRANT_LIMIT = 20_000


class Noisy(EmbeddedEmbedder):
    """Queries for real; documents: a known vector, moved a little by the text's own noise."""

    def __init__(self, known: FloatArray) -> None:
        super().__init__()
        self._known = known

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        seeds = [int(text_hash(text)[:8], 16) for text in texts]
        noise = np.stack([np.random.default_rng(s).normal(size=self.dimension) for s in seeds])
        found = self._known[np.array(seeds) % len(self._known)] + 0.015 * noise
        return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def catalog(path: Path, size: int) -> list[ToolRecord]:
    base = load_tools(path)
    found: list[ToolRecord] = []
    for i in range(size):
        tool = base[i % len(base)]
        turn = i // len(base)
        if turn:
            tool = replace(
                tool,
                name=f"{tool.name}~{turn}",
                server=f"{tool.server}-{turn}",
                original_name=f"{tool.original_name}_{turn}",
                description=f"{tool.description} Variant {turn}.",
            )
        found.append(tool)
    return found


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def base_vectors(path: Path, count: int, cache: DocumentCache) -> FloatArray:
    embedder = EmbeddedEmbedder()
    texts = [f"{t.server} {t.original_name}: {t.description}"[:600] for t in load_tools(path)]
    hashes = {text_hash(t): t for t in texts[:count]}
    known = cache.get(embedder.identity, hashes, embedder.dimension)
    todo = [h for h in hashes if h not in known]
    if todo:
        vectors = await embedder.embed_documents([hashes[h] for h in todo])
        cache.put(embedder.identity, dict(zip(todo, vectors, strict=True)))
        known |= dict(zip(todo, vectors, strict=True))
    await embedder.aclose()
    return np.stack([known[h] for h in hashes])


async def settled(index: VectorIndex | None) -> None:
    """Wait for what an index does in the background."""
    wait = getattr(index, "settled", None)
    if wait is not None:
        await wait()


async def measure(args: argparse.Namespace, index: str, size: int) -> dict[str, Any]:
    known = await base_vectors(args.tools, args.base, DocumentCache(args.cache))
    tools = catalog(args.tools, size)
    embedder = Noisy(known)
    queries = [
        " ".join(t.description.split()[:14]) or t.original_name for t in tools[:: size // 120]
    ]
    before = resident_mb()
    found_index = make_index(index, embedder)
    settings = RetrieverSettings(query_cache=0)
    async with Retriever(embedder, found_index, make_rankers(), settings) as retriever:
        started, cpu = time.perf_counter(), time.process_time()
        await retriever.index(tools)
        await settled(found_index)
        built, built_cpu = time.perf_counter() - started, time.process_time() - cpu
        started, cpu = time.perf_counter(), time.process_time()
        await retriever.index(tools[1:])
        changed, changed_cpu = time.perf_counter() - started, time.process_time() - cpu
        visible = VisibleSet(frozenset(tool.name for tool in tools[::2]))
        for query in queries[:10]:
            await retriever.search(Query((query,)), visible)
        walls, cpus, degraded = [], [], 0
        for query in queries[10:]:
            started, cpu = time.perf_counter(), time.process_time()
            found = await retriever.search(Query((query,)), visible)
            degraded += found.degraded is not None
            walls.append((time.perf_counter() - started) * 1e3)
            cpus.append((time.process_time() - cpu) * 1e3)
        return {
            "index": index,
            "tools": size,
            "build_s": round(built, 2),
            "build_cpu_s": round(built_cpu, 2),
            "one_tool_removed_s": round(changed, 3),
            "one_tool_removed_cpu_s": round(changed_cpu, 3),
            "resident_mb": round(resident_mb() - before),
            "query_ms": {"p50": pct(walls, 50), "p95": pct(walls, 95)},
            "query_cpu_ms": {"p50": pct(cpus, 50), "p95": pct(cpus, 95)},
            "degraded": degraded,
            "load": round(os.getloadavg()[0], 1),
        }


def pct(values: Sequence[float], q: float) -> float:
    return round(float(np.percentile(values, q)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description="Scale of indexes.")
    parser.add_argument("--docs", type=Path, help="Markdown file with the markers")
    parser.add_argument("--draw", action="store_true", help="only plot and docs, from --out")
    parser.add_argument("tools", type=Path)
    parser.add_argument("--sizes", default="1000,3000,10000,30000,100000")
    parser.add_argument("--indexes", default="exact,faiss,qdrant")
    parser.add_argument("--base", type=int, default=1_000, help="tools embedded for real")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        index, size = args.one.split(":")
        print(json.dumps(asyncio.run(measure(args, index, int(size)))))
        return
    rows: list[dict[str, Any]] = []
    if args.draw:
        rows = json.loads(args.out.read_text(encoding="utf-8"))
        args.sizes = ""
    for size in map(int, filter(None, args.sizes.split(","))):
        for index in args.indexes.split(","):
            if index == "qdrant" and size > LOCAL_QDRANT_LIMIT:
                continue
            command = [sys.executable, "-m", "benchmarks.scale.run", str(args.tools)]
            command += ["--one", f"{index}:{size}", "--base", str(args.base)]
            command += ["--cache", str(args.cache)] if args.cache else []
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr[-2_000:])
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
            args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.plot:
        plot(rows, args.plot)
    if args.docs:
        write_docs(args.docs, rows, args.plot)


if __name__ == "__main__":
    main()
