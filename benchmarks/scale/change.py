"""One tool of many changes: what happens until it is found, phase by phase.

    python -m benchmarks.scale.change TOOLS_JSONL [--qdrant URL] [--tools 15000] [--servers 300] \
        [--turns 15] [--rounds 3] [--out FILE]

Owns: an upstream's list arrives with one tool changed, added or removed; the catalog is built, its
tools are made searchable, the view is prepared, and a search finds it. `exact` and `qdrant` take
turns in processes of their own. Vectors of the start are known ones moved a little (`run.Noisy`);
the text of a tool that changes is embedded for real.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from armory.domain.catalog import EMPTY, Catalog, ServerLists
from armory.domain.catalog_builder import CatalogBuilder
from armory.domain.query import Query
from armory.gateway.changes.differences import ViewDifference
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.view import View
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.options import PartOptions, QdrantSettings
from armory.retrieval.ports import FloatArray
from armory.retrieval.registry import make_index, make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.security.policy import Policy
from benchmarks.scale.made import made
from benchmarks.scale.run import Noisy, base_vectors, settled
from benchmarks.scale.upstream import definitions

_KNOWN = 1_000
_TEXT = "Calibrates the zeppelin gyroscope number {} of the harbour."
Definitions = dict[str, list[dict[str, Any]]]


class Started(Noisy):
    """Known vectors until everything is there; then the model itself."""

    ready = False

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        if self.ready:
            return await EmbeddedEmbedder.embed_documents(self, texts)
        return await super().embed_documents(texts)


@dataclass(slots=True)
class Clock:
    """Wall and processor time of phases, in seconds."""

    phases: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    _at: tuple[float, float] = (0.0, 0.0)

    def start(self) -> None:
        """Begins the first phase."""
        self._at = time.perf_counter(), time.process_time()

    def phase(self, name: str) -> None:
        """Ends a phase and begins the next."""
        wall, cpu = self._at
        self.start()
        self.phases[name] = self._at[0] - wall, self._at[1] - cpu


class Gateway:
    """What of a gateway a changed list goes through."""

    def __init__(self, retriever: Retriever, embedder: Started) -> None:
        self.retriever, self.embedder = retriever, embedder
        self.builder = CatalogBuilder()
        self.catalog: Catalog = EMPTY
        self.view = View(EMPTY, Policy(), GatewaySettings())

    async def renew(self, lists: Mapping[str, ServerLists], clock: Clock) -> None:
        """As `runtime.catalog.keeper` does it."""
        clock.start()
        catalog, _ = await asyncio.to_thread(self.builder.build, lists, None, self.catalog)
        clock.phase("catalog")
        await self.retriever.index(list(catalog.tools.values()))
        clock.phase("index")
        self.view = await asyncio.to_thread(self._viewed, catalog)
        clock.phase("view")
        self.catalog = catalog

    def _viewed(self, catalog: Catalog) -> View:
        old = self.view
        view = View(catalog, old.policy, old.settings, old)
        view.names  # noqa: B018
        ViewDifference(old, view, frozenset())
        return view


def edited(tools: Sequence[dict[str, Any]], kind: str, turn: int) -> list[dict[str, Any]]:
    """A server's list as it comes the next time: every object is another one."""
    found: list[dict[str, Any]] = json.loads(json.dumps(tools))
    if kind == "removed":
        del found[len(found) // 2]
        return found
    if kind == "added":
        found.insert(len(found) // 2, {**found[0], "name": f"added{turn}"})
    place = len(found) // 2
    found[place]["description"] = _TEXT.format(turn)
    return found


async def measure(args: argparse.Namespace, index: str) -> dict[str, Any]:
    """The phases of each kind of change, in one process."""
    every = definitions(args.tools_file, 0, args.tools)
    given: Definitions = {f"server{i}": every[i :: args.servers] for i in range(args.servers)}
    lists = {server: ServerLists(tools=tools) for server, tools in given.items()}
    known = await base_vectors(args.tools_file, _KNOWN, DocumentCache(args.cache))
    embedder = Started(known)
    parts = PartOptions(qdrant=QdrantSettings(url=args.qdrant, collection=args.collection))
    cache = Indexing(cache=DocumentCache(args.cache))
    made_index = make_index(index, embedder, parts)
    settings = RetrieverSettings(query_cache=0)
    found: dict[str, Any] = {"index": index, "tools": len(every)}
    async with Retriever(embedder, made_index, make_rankers(), settings, indexing=cache) as one:
        gateway, clock = Gateway(one, embedder), Clock()
        await gateway.renew(lists, clock)
        await settled(made_index)
        found["start"] = _rounded(clock.phases)
        embedder.ready = True
        await embedder.embed_documents(["The model is loaded before the first change."])
        for kind in ("changed", "added", "removed"):
            seen: list[Clock] = []
            for turn in range(args.turns):
                server = f"server{turn * 7 % args.servers}"
                given[server] = edited(given[server], kind, turn)
                lists = {**lists, server: ServerLists(tools=given[server])}
                seen.append(Clock())
                await gateway.renew(lists, seen[-1])
                said = _TEXT.format(turn)
                matches = (await one.search(Query((said,)))).matches
                seen[-1].phase("search")
                if kind != "removed" and said not in [m.tool.description for m in matches]:
                    raise RuntimeError(f"{said!r} is not found")
            found[kind] = _median(seen)
    return found


def _median(seen: Sequence[Clock]) -> dict[str, Any]:
    """Of each phase, and of all until the search; the first turn warms up."""
    found: dict[str, tuple[float, float]] = {}
    for name in seen[0].phases:
        pairs = [clock.phases[name] for clock in seen[1:]]
        found[name] = median(wall for wall, _ in pairs), median(cpu for _, cpu in pairs)
    totals = [
        [sum(pair[at] for name, pair in clock.phases.items() if name != "search") for at in (0, 1)]
        for clock in seen[1:]
    ]
    found["until_searchable"] = median(t[0] for t in totals), median(t[1] for t in totals)
    return _rounded(found) | {"slowest_ms": round(max(total[0] for total in totals) * 1e3, 1)}


def _rounded(phases: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    return {
        name: {"ms": round(wall * 1e3, 1), "cpu_ms": round(cpu * 1e3, 1)}
        for name, (wall, cpu) in phases.items()
    }


def once(args: argparse.Namespace, index: str) -> dict[str, Any]:
    """What a process of its own finds.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "benchmarks.scale.change", str(args.tools_file)]
    command += ["--qdrant", args.qdrant, "--collection", args.collection]
    command += ["--tools", str(args.tools), "--servers", str(args.servers)]
    command += ["--turns", str(args.turns), "--cache", str(args.cache), "--one", index]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2_000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="One tool of many changes.")
    parser.add_argument("tools_file", type=Path)
    parser.add_argument("--qdrant", default="", help="URL of a server")
    parser.add_argument("--tools", type=int, default=15_000)
    parser.add_argument("--servers", type=int, default=300)
    parser.add_argument("--turns", type=int, default=15, help="changes of each kind")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each index")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--collection", default=f"change-{os.getpid()}", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(asyncio.run(measure(args, args.one))))
        return
    report: dict[str, Any] = {"made": made(args.qdrant), "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        args.cache = Path(folder) / "vectors.db"
        for _ in range(args.rounds):
            for index in ("exact", *(["qdrant"] if args.qdrant else [])):
                report["runs"].append(once(args, index))
                print(report["runs"][-1], flush=True)
                if args.out is not None:
                    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
