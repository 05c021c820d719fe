"""What queries feel while 10,000 tools are indexed in the same process.

    python -m benchmarks.scale.busy DATA [--tools 10000] [--known 500] [--out FILE]

Owns: two scenes (the first start, when words answer; tools that join known ones, when the last
snapshot does), their queries (labelled ones of DATA, each asked once) and the readings: latency of
a filtered search, how late a timer of the event loop comes, and how many of the wanted tools the
lists hold before and after. Everything is embedded for real; nothing is cached on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import structlog

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.evaluation.dataset import load_tools
from armory.retrieval.registry import RetrievalOptions, build_retriever
from armory.retrieval.retriever import Retriever
from armory.testing.waiting import until

HERE = Path(__file__).parent
LABELLED = ("toolbench-stable", "sealtools", "mcpproxy-golden")
TICK_S = 0.002
EVERY_S = 0.1


@dataclass(slots=True)
class Felt:
    """What was felt in one stretch of time."""

    search_ms: list[float] = field(default_factory=list[float])
    late_ms: list[float] = field(default_factory=list[float])
    degraded: int = 0
    found: list[float] = field(default_factory=list[float])
    shown: list[int] = field(default_factory=list[int])
    began: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    def report(self) -> dict[str, Any]:
        """Percentiles in milliseconds."""
        return {
            "seconds": round(time.perf_counter() - self.began, 1),
            "cpu_seconds": round(time.process_time() - self.cpu, 1),
            "queries": len(self.search_ms),
            "search_ms": _spread(self.search_ms),
            "loop_late_ms": _spread(self.late_ms),
            "degraded": self.degraded,
            "wanted_listed": round(float(np.mean(self.found)), 3) if self.found else None,
            "tools_listed": round(float(np.mean(self.shown)), 1) if self.shown else None,
        }


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    found = np.percentile(values, [50, 99, 100]).round(1).tolist()
    return dict(zip(("p50", "p99", "max"), found, strict=True))


def load(data: Path, count: int) -> tuple[list[ToolRecord], list[tuple[str, set[str]]]]:
    """Tools (labelled sets first, the pool after) and queries with the tools they want."""
    tools: dict[str, ToolRecord] = {}
    queries: list[tuple[str, set[str]]] = []
    for name in LABELLED:
        for tool in load_tools(data / name / "tools.jsonl"):
            tools.setdefault(tool.name, tool)
        for line in (data / name / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["relevant"]:
                queries.append((row["query"], set(row["relevant"])))
    for tool in load_tools(data / "toucan-pool" / "tools.jsonl"):
        tools.setdefault(tool.name, tool)
    order = np.random.default_rng(7).permutation(len(queries)).tolist()
    return list(tools.values())[:count], [queries[i] for i in order]


class Scene:
    """A retriever, asked all the time."""

    def __init__(self, retriever: Retriever, queries: Sequence[tuple[str, set[str]]]) -> None:
        self._retriever = retriever
        self._queries = iter(queries)
        self.felt = Felt()

    async def tick(self) -> None:
        """Note how late a timer comes."""
        while True:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            self.felt.late_ms.append((time.perf_counter() - due) * 1e3)

    async def ask(self, visible: VisibleSet) -> None:
        """One query every tenth of a second."""
        for text, wanted in self._queries:
            felt, started = self.felt, time.perf_counter()
            found = await self._retriever.search(Query((text[:8_000],)), visible)
            felt.search_ms.append((time.perf_counter() - started) * 1e3)
            felt.degraded += found.degraded is not None
            names = {match.tool.name for match in found.matches}
            felt.found.append(len(names & wanted) / len(wanted))
            felt.shown.append(len(names))
            await asyncio.sleep(max(0.0, EVERY_S - (time.perf_counter() - started)))

    def turn(self) -> dict[str, Any]:
        """What was felt until now; a new stretch begins."""
        felt, self.felt = self.felt, Felt()
        return felt.report()


async def play(
    tools: Sequence[ToolRecord], known: int, queries: Sequence[tuple[str, set[str]]], after_s: float
) -> dict[str, Any]:
    """Index `known` tools, then all, asking throughout."""
    retriever = build_retriever(RetrievalOptions())
    async with retriever:
        await retriever.search(Query(("warm up",)))
        if known:
            await retriever.index(tools[-known:])
            await retriever.search(Query(("warm up",)))
        scene = Scene(retriever, queries)
        visible = VisibleSet(frozenset(tool.name for tool in tools))
        busy = [asyncio.create_task(scene.tick()), asyncio.create_task(scene.ask(visible))]
        indexing = asyncio.create_task(retriever.index(tools))
        await until(lambda: bool(retriever.tools), 600)  # the words are there
        words = scene.turn()
        report = await indexing
        during = scene.turn()
        await asyncio.sleep(after_s)
        after = scene.turn()
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
    found = {} if known else {"before_words": words}
    return {"embedded": report.embedded, **found, "while_indexing": during, "after": after}


def main() -> None:
    parser = argparse.ArgumentParser(description="Queries while tools are indexed.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--known", type=int, default=500)
    parser.add_argument("--after", type=float, default=10.0, help="seconds measured afterwards")
    parser.add_argument("--scenes", default="first,joining")
    parser.add_argument("--out", type=Path, default=HERE / "busy.json")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    tools, queries = load(args.data, args.tools)
    found: dict[str, Any] = {"tools": len(tools), "load": round(os.getloadavg()[0], 1)}
    for scene in args.scenes.split(","):
        known = args.known if scene == "joining" else 0
        found[scene] = asyncio.run(play(tools, known, queries, args.after))
        print(scene, json.dumps(found[scene], indent=1), flush=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
