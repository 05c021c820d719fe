"""A Qdrant index of a hundred thousand tools and of a million: time, memory, searches.

    python -m benchmarks.scale.large [--qdrant URL --sizes 100000] [--held 1000000] \
        [--vectors 1] [--quantization int8] [--graph-s SECONDS] [--out FILE]

Owns: the index alone, without definitions and words, which a gateway holds whatever its index is.
Vectors cost nothing: a tool's is the centre of one of 1,000 topics moved by the tool's own noise,
and queries are made the same way. `write` gives the server all of them and waits until its graph
stands; `again` is another gateway that finds them there: time until it can search, resident memory
a tool, searches of all tools and of every second server's, one changed tool. `--held`
asks no server: what the gateway's side of so many tools takes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from armory.retrieval.indexes.background import Background
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.indexes.qdrant_catalog import CatalogPoints
from armory.retrieval.options import QdrantSettings
from armory.retrieval.ports import FloatArray, IntArray, Row, VectorView
from benchmarks.scale.made import made
from benchmarks.scale.run import pct, resident_mb

_DIMENSION = 384
_TOPICS = 1_000
_NOISE = 0.03
_TOOLS_PER_SERVER = 40
_STEP = 20_000
"""Tools whose vectors are in memory at once."""
_CANDIDATES = 200
_SEARCHES = 220
_WARM = 20
_PATIENCE_S = 3_600.0
"""Of one request: both sides may be stopped for a while, so that others get the machine."""


def rows(size: int) -> list[Row]:
    """So many tools of servers with 40 each."""
    return [
        Row(
            f"server{i // _TOOLS_PER_SERVER}__tool{i}",
            hashlib.sha256(str(i).encode()).hexdigest(),
            f"server{i // _TOOLS_PER_SERVER}",
        )
        for i in range(size)
    ]


class Vectors:
    """Unit vectors by number, the same in every process.

    Args:
        each: how many a tool has.
    """

    def __init__(self, each: int) -> None:
        centres = np.random.default_rng(1).normal(size=(_TOPICS, _DIMENSION)).astype(np.float32)
        self._centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        self._each = each

    def of(self, first: int, count: int) -> FloatArray:
        """(count, each, d) of the tools from that number on; those below 0 are queries."""
        random = np.random.default_rng([7, abs(first), first < 0])
        shape = (count, self._each, _DIMENSION)
        topics = random.integers(0, _TOPICS, size=count)
        found = self._centres[topics][:, None] + _NOISE * random.standard_normal(shape, np.float32)
        return (found / np.linalg.norm(found, axis=2, keepdims=True)).astype(np.float32)


def index(args: argparse.Namespace) -> QdrantIndex:
    """The index of this run's collection."""
    settings = QdrantSettings(
        url=args.qdrant, collection=args.collection, quantization=args.quantization
    )
    return QdrantIndex("benchmark", _DIMENSION, settings, timeout_s=_PATIENCE_S)


async def write(args: argparse.Namespace, size: int) -> dict[str, Any]:
    """Give the server every tool, and wait until it has put them in order."""
    every, vectors = rows(size), Vectors(args.vectors)
    one = index(args)
    began, cpu = time.perf_counter(), time.process_time()
    served = _server_cpu(args.qdrant_pid)
    for first in range(0, size, _STEP):
        part = every[first : first + _STEP]
        given = vectors.of(first, len(part))
        await one.update(part, {row.key: given[i] for i, row in enumerate(part)})
    sent, sent_cpu = time.perf_counter() - began, time.process_time() - cpu
    indexed = await asyncio.to_thread(_until_green, args.qdrant, one.collection, args.graph_s)
    await one.aclose()
    return {
        "indexed": indexed,
        "sent_s": round(sent, 1),
        "sent_cpu_s": round(sent_cpu, 1),
        "graph_s": round(time.perf_counter() - began, 1),
        "server_cpu_s": round(_server_cpu(args.qdrant_pid) - served, 1),
        "server_resident_mb": round(_server_mb(args.qdrant_pid)),
    }


def _until_green(url: str, collection: str, most_s: float) -> int:
    """Wait until the server has nothing left to optimize; how many vectors its graph has then."""
    green, end = 0, time.monotonic() + most_s
    while True:
        with urllib.request.urlopen(f"{url}/collections/{collection}", timeout=60) as answer:
            found = json.load(answer)["result"]
        green = green + 1 if found["status"] == "green" else 0
        if green == 3 or time.monotonic() > end:
            return found["indexed_vectors_count"]
        time.sleep(1)


def _server_mb(pid: int) -> float:
    if not pid:
        return 0.0
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def _server_cpu(pid: int) -> float:
    """Seconds of processor time that the server has taken, all threads together."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def again(args: argparse.Namespace, size: int) -> dict[str, Any]:
    """Another gateway, which finds every point there."""
    every, vectors = rows(size), Vectors(args.vectors)
    gc.collect()
    before = resident_mb()
    one = index(args)
    began, cpu = time.perf_counter(), time.process_time()
    await one.stored(every)
    view = await one.update(every, _sampled(one, every, vectors, args))
    ready, ready_cpu = time.perf_counter() - began, time.process_time() - cpu
    gc.collect()
    taken = resident_mb() - before
    numbers = np.arange(size)
    some = numbers[numbers // _TOOLS_PER_SERVER % 2 == 0]
    searches = {
        "search_all": await _searches(view, vectors, None),
        "search": await _searches(view, vectors, some),
    }
    changed = Row(every[0].key, hashlib.sha256(os.urandom(8)).hexdigest(), every[0].server)
    began = time.perf_counter()
    fresh = [changed, *every[1:]]
    await one.stored(fresh)
    await one.update(fresh, {changed.key: vectors.of(0, 1)[0]})
    change = time.perf_counter() - began
    await one.aclose()
    return {
        "ready_s": round(ready, 1),
        "ready_cpu_s": round(ready_cpu, 1),
        "gateway_mb": round(taken, 1),
        "gateway_bytes_a_tool": round(taken * 2**20 / size),
        **searches,
        "one_tool_changed_s": round(change, 3),
    }


async def _searches(
    view: VectorView, vectors: Vectors, allowed: IntArray | None
) -> dict[str, dict[str, float]]:
    """Wall and processor time of searches, milliseconds."""
    walls: list[float] = []
    cpus: list[float] = []
    for number in range(_SEARCHES):
        query = vectors.of(-1 - number, 1)[:, 0]
        began, cpu = time.perf_counter(), time.process_time()
        await view.search(query, _CANDIDATES, allowed)
        if number >= _WARM:
            walls.append((time.perf_counter() - began) * 1e3)
            cpus.append((time.process_time() - cpu) * 1e3)
    return {
        "ms": {"p50": pct(walls, 50), "p95": pct(walls, 95)},
        "cpu_ms": {"p50": pct(cpus, 50), "p95": pct(cpus, 95)},
    }


async def held(args: argparse.Namespace, size: int) -> dict[str, Any]:
    """What a gateway's side of so many tools takes, without a server."""
    every, vectors = rows(size), Vectors(args.vectors)
    gc.collect()
    before = resident_mb()
    began = time.perf_counter()
    places = CatalogPoints(every)
    places = CatalogPoints([*every[1:], every[0]], places)  # as after changes
    ready = time.perf_counter() - began
    groups = list(vectors.of(0, len(places.sampled)))
    background = Background(np.array(places.sampled), Compact.of(groups, _DIMENSION), size)
    del groups
    gc.collect()
    taken = resident_mb() - before
    return {
        "ready_s": round(ready, 1),
        "gateway_mb": round(taken, 1),
        "gateway_bytes_a_tool": round(taken * 2**20 / size),
        "sampled": len(background.rows),
    }


def _sampled(
    one: QdrantIndex, every: Sequence[Row], vectors: Vectors, args: argparse.Namespace
) -> Mapping[str, FloatArray]:
    """Vectors that stand for all, which a gateway has in its cache."""
    wanted = set(one.wanted(every))
    found: dict[str, FloatArray] = {}
    for first in range(0, len(every), _STEP):
        part = every[first : first + _STEP]
        given = vectors.of(first, len(part))
        found |= {row.key: given[i].copy() for i, row in enumerate(part) if row.key in wanted}
    return found


def once(args: argparse.Namespace, scene: str, size: int) -> dict[str, Any]:
    """What a process of its own finds.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "benchmarks.scale.large", "--qdrant", args.qdrant]
    command += ["--qdrant-pid", str(args.qdrant_pid), "--vectors", str(args.vectors)]
    command += ["--graph-s", str(args.graph_s)]
    command += ["--quantization", args.quantization] if args.quantization else []
    command += ["--collection", f"{args.collection}-{size}", "--one", f"{scene}:{size}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2_000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="A large index in Qdrant.")
    parser.add_argument("--qdrant", default="", help="URL of a server")
    parser.add_argument("--qdrant-pid", type=int, default=0, help="whose memory is read")
    parser.add_argument("--sizes", default="", help="tools on the server")
    parser.add_argument("--held", default="", help="tools without a server")
    parser.add_argument("--quantization", choices=["int8"])
    parser.add_argument("--graph-s", type=float, default=1e6, help="waits so long for the graph")
    parser.add_argument("--vectors", type=int, default=1, help="of each tool")
    parser.add_argument("--collection", default=f"large-{os.getpid()}", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        scene, size = args.one.split(":")
        scenes = {"write": write, "again": again, "held": held}
        print(json.dumps(asyncio.run(scenes[scene](args, int(size)))))
        return
    report: dict[str, Any] = {"sizes": []}
    if args.out is not None and args.out.is_file():  # other sizes stay
        report = json.loads(args.out.read_text(encoding="utf-8"))
    turns = [(size, ("write", "again")) for size in _numbers(args.sizes)]
    turns += [(size, ("held",)) for size in _numbers(args.held)]
    for size, scenes in turns:
        row: dict[str, Any] = {"tools": size, "vectors_a_tool": args.vectors}
        row["quantization"] = args.quantization if "write" in scenes else None
        row["made"] = made(args.qdrant)
        report["sizes"] = [one for one in report["sizes"] if one["tools"] != size] + [row]
        for scene in scenes:
            row |= once(args, scene, size)
            print(row, flush=True)
            if args.out is not None:
                args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


if __name__ == "__main__":
    main()
