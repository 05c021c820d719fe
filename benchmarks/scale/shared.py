"""Several gateways on one Qdrant collection, and one of them beside the exact index.

    python -m benchmarks.scale.shared TOOLS_JSONL --qdrant URL [--queries 1000] [--tools 3000] \
        [--sizes 15000] [--rounds 3] [--real 20000] [--ranked 0] [--out FILE]

Owns: three scenes. `fleet`: five catalogs (all tools; the same again; a half of them; other tools;
all but one server's, which then comes back) share a collection, and every answer is compared with
that of the same catalog alone on `exact`. `beside`: at each size, `exact` and `qdrant` in processes
of their own, in turns: a start with the vectors in the cache and nothing in the collection, and
`--rounds` restarts, each with a changed tool, a listing filtered to every second tool, and resident
memory. The vectors are put into the one cache of both before: embedded for real up to `--real`
tools; above, known ones moved a little, as in `run.py`. `rankers` (`--ranked N` in place of
`beside`): at each size, N queries by every ranker on both, with such vectors; without `--qdrant` a
stand-in answers in the server's place, and with `--data` as many labelled queries come along.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.names import RANKERS
from armory.retrieval.options import PartOptions, QdrantSettings
from armory.retrieval.ports import VectorIndex
from armory.retrieval.registry import make_index, make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from benchmarks.scale.made import made
from benchmarks.scale.query import queries as labelled
from benchmarks.scale.run import Noisy, base_vectors, catalog, pct, resident_mb, settled
from benchmarks.scale.stand_in import StandIn

_TIED = 1e-3
"""Tools whose scores differ by less may change places."""
_KNOWN = 1_000
"""Tools embedded for real whose vectors stand for all above `--real`."""
_CHANGES = 5
_PATIENCE = 60
"""Times that a query is asked, a second apart, until it is not answered by words."""


def gateway(index: str, args: argparse.Namespace, embedder: EmbeddedEmbedder) -> Retriever:
    """A retriever as a gateway has it."""
    return on(make_index(index, embedder, parts_of(args)), args, embedder)


def parts_of(args: argparse.Namespace) -> PartOptions:
    """Where the server is."""
    return PartOptions(qdrant=QdrantSettings(url=args.qdrant, collection=args.collection))


def on(
    index: VectorIndex | None, args: argparse.Namespace, embedder: EmbeddedEmbedder
) -> Retriever:
    """The same on an index."""
    indexing = Indexing(cache=DocumentCache(args.cache))
    settings = RetrieverSettings(query_cache=0)
    return Retriever(embedder, index, make_rankers(), settings, indexing=indexing)


def queries(tools: Sequence[ToolRecord], count: int) -> list[str]:
    """The beginnings of descriptions, from every part of the catalog."""
    step = max(1, len(tools) // count)
    asked = [" ".join(tool.description.split()[:9]) or tool.name for tool in tools[::step]]
    return asked[:count]


def same(found: list[tuple[str, float]], wanted: list[tuple[str, float]]) -> bool:
    """Whether two lists are the same but for the order of ties."""
    if sorted(name for name, _ in found) != sorted(name for name, _ in wanted):
        return False
    return all(
        one == other or abs(score - right) < _TIED
        for (one, score), (other, right) in zip(found, wanted, strict=True)
    )


async def fleet(args: argparse.Namespace) -> dict[str, Any]:
    """Each gateway's answers beside those of its catalog alone."""
    every = catalog(args.tools_file, 2 * args.tools)
    mine, others = every[: args.tools], every[args.tools :]
    away = mine[len(mine) // 2].server
    without = [tool for tool in mine if tool.server != away]
    catalogs = {
        "all": mine,
        "all again": mine,
        "a half": mine[::2],
        "other tools": others,
        "one server away": without,
    }
    report: dict[str, Any] = {"tools": args.tools, "queries": args.queries}
    alone: dict[str, list[list[tuple[str, float]]]] = {}
    again = Again()
    for name, tools in catalogs.items():
        async with gateway("exact", args, EmbeddedEmbedder()) as exact:
            await exact.index(tools)
            asked = queries(tools, args.queries)
            alone[name] = [await answer(exact, Query((text,)), again) for text in asked]
    async with AsyncExitStack() as stack:
        shared: dict[str, Retriever] = {}
        for name in catalogs:
            one = gateway("qdrant", args, EmbeddedEmbedder())
            shared[name] = await stack.enter_async_context(one)
        await asyncio.gather(*(shared[name].index(found) for name, found in catalogs.items()))
        for turn in ("first", "after the server came back and went again"):
            for name, tools in catalogs.items():
                differ, most = 0, 0.0
                for text, wanted in zip(queries(tools, args.queries), alone[name], strict=True):
                    found = await answer(shared[name], Query((text,)), again)
                    differ += not same(found, wanted)
                    if same(found, wanted):
                        pairs = zip(sorted(found), sorted(wanted), strict=True)
                        most = max([most, *(abs(a[1] - b[1]) for a, b in pairs)])
                row = {"lists_that_differ": differ, "largest_score_difference": round(most, 5)}
                report[f"{name}, {turn}"] = row
                print(name, turn, row, flush=True)
            await shared["one server away"].index(mine)
            await shared["one server away"].index(without)
    return report | {"asked_again": again.count}


@dataclass(slots=True)
class Again:
    """How many queries were asked again as they were answered by words, and that was told."""

    count: int = 0


async def answer(
    one: Retriever, query: Query, again: Again, visible: VisibleSet | None = None
) -> list[tuple[str, float]]:
    """(name, score) of what is listed, by meaning: a busy machine may let a query run out of time.

    Raises:
        RuntimeError: the answers stay degraded.
    """
    problem = ""
    for _ in range(_PATIENCE):
        found = await one.search(query, visible)
        if found.degraded is None:
            return [(match.tool.name, match.score) for match in found.matches]
        problem = found.degraded
        again.count += 1
        await asyncio.sleep(1)
    raise RuntimeError(f"degraded: {problem}")


async def every_ranker(args: argparse.Namespace, size: int) -> dict[str, Any]:
    """Each ranker's answers on `qdrant` beside those on `exact`, every second one filtered."""
    tools = catalog(args.tools_file, size)
    known = await base_vectors(args.tools_file, _KNOWN, DocumentCache(args.cache))
    embedder = Noisy(known)
    visible = VisibleSet(frozenset(tool.name for tool in tools[::2]))
    asked = queries(tools, args.ranked)
    if args.data is not None:
        asked += labelled(args.data, args.ranked)
    again = Again()
    report: dict[str, Any] = {"tools": size, "queries": len(asked), "rankers": {}}
    store = make_index("qdrant", embedder, parts_of(args)) if args.qdrant else StandIn()
    async with gateway("exact", args, embedder) as exact, on(store, args, embedder) as one:
        for each in (exact, one):
            await each.index(tools)
            await settled(each._index)  # pyright: ignore[reportPrivateUsage]
        for ranker in RANKERS:
            differ, most = 0, 0.0
            for number, text in enumerate(asked):
                query, some = Query((text,), ranker=ranker), visible if number % 2 else None
                wanted = await answer(exact, query, again, some)
                found = await answer(one, query, again, some)
                differ += not same(found, wanted)
                scores = dict(wanted)
                most = max([most, *(abs(s - scores[n]) for n, s in found if n in scores)])
            row = {"lists_that_differ": differ, "largest_score_difference": round(most, 5)}
            report["rankers"][ranker] = row
            print(size, ranker, row, flush=True)
    return report | {"asked_again": again.count}


async def beside(args: argparse.Namespace, index: str, size: int, start: str) -> dict[str, Any]:
    """One start of one gateway, and what it then answers."""
    tools = catalog(args.tools_file, size)
    embedder = EmbeddedEmbedder()
    if size > args.real:
        known = await base_vectors(args.tools_file, _KNOWN, DocumentCache(args.cache))
        embedder = Noisy(known)
    before = resident_mb()
    async with gateway(index, args, embedder) as one:
        began, cpu = time.perf_counter(), time.process_time()
        report = await one.index(tools)
        built, built_cpu = time.perf_counter() - began, time.process_time() - cpu
        if start == "cache":
            return {"ready_s": built, "texts": report.embedded}
        await settled(one._index)  # pyright: ignore[reportPrivateUsage]
        changes: list[float] = []
        changes_cpu: list[float] = []
        for number in range(_CHANGES):
            text = f"{tools[0].description} Changed at {time.time()}, {number}."
            changed = [replace(tools[0], description=text), *tools[1:]]
            began, cpu = time.perf_counter(), time.process_time()
            await one.index(changed)
            changes.append(time.perf_counter() - began)
            changes_cpu.append(time.process_time() - cpu)
        visible = VisibleSet(frozenset(tool.name for tool in tools[::2]))
        walls: list[float] = []
        cpus: list[float] = []
        degraded = 0
        for number, text in enumerate(queries(tools, 220)):
            began, cpu = time.perf_counter(), time.process_time()
            found = await one.search(Query((text,)), visible)
            degraded += found.degraded is not None
            if number >= 20:
                walls.append((time.perf_counter() - began) * 1e3)
                cpus.append((time.process_time() - cpu) * 1e3)
        return {
            "index": index,
            "tools": size,
            "start": start,
            "ready_s": round(built, 2),
            "ready_cpu_s": round(built_cpu, 2),
            "one_tool_changed_s": round(sorted(changes)[_CHANGES // 2], 3),
            "one_tool_changed_cpu_s": round(sorted(changes_cpu)[_CHANGES // 2], 3),
            "listing_ms": {"p50": pct(walls, 50), "p95": pct(walls, 95)},
            "listing_cpu_ms": {"p50": pct(cpus, 50), "p95": pct(cpus, 95)},
            "resident_mb": round(resident_mb() - before),
            "degraded": degraded,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Several gateways on one Qdrant collection.")
    parser.add_argument("tools_file", type=Path)
    parser.add_argument("--qdrant", default="", help="URL of a server; none: with --ranked only")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--tools", type=int, default=3_000, help="of each catalog of the fleet")
    parser.add_argument("--sizes", default="15000")
    parser.add_argument("--ranked", type=int, default=0, help="queries of each ranker at each size")
    parser.add_argument("--data", type=Path, help="labelled sets, for as many queries more")
    parser.add_argument("--rounds", type=int, default=3, help="restarts of each")
    parser.add_argument("--real", type=int, default=20_000, help="so many are embedded for real")
    parser.add_argument("--out", type=Path, help="what is in it of other scenes stays")
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--collection", default=f"bench-{os.getpid()}", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        index, size, start = args.one.split(":")
        print(json.dumps(asyncio.run(beside(args, index, int(size), start))))
        return
    with_what = made(args.qdrant) if args.qdrant else made() | {"qdrant": "stand-in"}
    report: dict[str, Any] = {"made": with_what, "beside": []}

    if args.out is not None and args.out.is_file():
        before = json.loads(args.out.read_text(encoding="utf-8"))
        kept = {
            "fleet": not args.tools,
            "beside": not args.sizes or bool(args.ranked),
            "rankers": not args.ranked,
        }
        report |= {scene: before[scene] for scene, keep in kept.items() if keep and scene in before}

    def keep() -> None:
        if args.out is not None:
            args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder:
        args.cache = Path(folder) / "fleet.db"
        if args.tools:
            report["fleet"] = {"made": report["made"], **asyncio.run(fleet(args))}
            keep()
        sizes = [int(size) for size in args.sizes.split(",") if size]
        if args.ranked:
            args.cache = Path(folder) / "rankers.db"
            found = [asyncio.run(every_ranker(args, size)) for size in sizes]
            report["rankers"] = {"made": report["made"], "sizes": found}
            keep()
            return
        for size in sizes:
            args.cache = Path(folder) / f"{size}.db"
            print("vectors", size, once(args, "exact", size, "cache"), flush=True)
            for start in ("first", *["again"] * args.rounds):
                for index in ("exact", "qdrant"):
                    report["beside"].append(once(args, index, size, start))
                    print(report["beside"][-1], flush=True)
                    keep()


def once(args: argparse.Namespace, index: str, size: int, start: str) -> dict[str, Any]:
    """What a process of its own finds.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "benchmarks.scale.shared", str(args.tools_file)]
    command += ["--qdrant", args.qdrant, "--collection", args.collection]
    command += ["--real", str(args.real), "--cache", str(args.cache)]
    command += ["--one", f"{index}:{size}:{start}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2_000:])
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
