"""A gateway that is in use while others touch its Qdrant collection, and while Qdrant is killed.

    python -m benchmarks.scale.live TOOLS_JSONL [--tools 3000] [--queries 100] [--away 60] \
        [--rate 16] [--only SCENE] [--out FILE]

Owns: two scenes with real processes, `qdrant` of the PATH among them. `others`: the gateway's
answers before, during and after `eval`, `tune`, `search` with an upstream away, and `serve` of a
configuration with other tools of the same names. `away`: searches at a steady rate, Qdrant killed
and started again. Processes of the first scene have homes of their own, as on other machines:
`tune` in the gateway's own home is meant to change its answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import yaml

from armory.testing.processes import GatewayProcess
from armory.testing.servers import QdrantProcess
from benchmarks.scale.made import made
from benchmarks.scale.upstream import definitions

_PARTS = 3
_AFTER_S = 20.0
_READY_S = 900.0


class Found(NamedTuple):
    """One answer."""

    sent: float
    answered: float
    status: int
    degraded: str
    tools: list[tuple[str, float]]


def config(args: argparse.Namespace, url: str, first: int, *more: str) -> dict[str, Any]:
    """A gateway with `args.tools` tools from that line of the file on."""
    size = args.tools // _PARTS
    upstreams: dict[str, Any] = {}
    for part in range(_PARTS):
        given = [str(args.tools_file), str(first + part * size), str(size), *more]
        command = ["-m", "benchmarks.scale.upstream", *given]
        upstreams[f"part{part}"] = {
            "command": sys.executable,
            "args": command,
            "env": {"PYTHONPATH": os.getcwd()},
        }
    return {
        "upstreams": upstreams,
        "tool_rag": {"index": "qdrant", "qdrant": {"url": url}},
    }


def started(settings: dict[str, Any], folder: Path) -> GatewayProcess:
    """A gateway with every tool embedded.

    Raises:
        TimeoutError: it takes too long.
    """
    gateway = GatewayProcess(settings, folder, wait=False)
    try:
        gateway.wait_ready(_READY_S)
    except BaseException:
        gateway.close()
        raise
    return gateway


async def search(session: aiohttp.ClientSession, url: str, text: str) -> Found:
    """What the gateway lists for a text."""
    body = {"queries": [text]}
    sent = time.monotonic()
    async with session.post(f"{url}/v1/search", json=body) as answer:
        said = await answer.json()
    tools = [(one["name"], round(one["score"], 4)) for one in said.get("candidates", ())]
    return Found(sent, time.monotonic(), answer.status, said.get("degraded") or "", tools)


def differs(found: Found, wanted: Found) -> bool:
    """Whether an answer is another than before."""
    return (found.status, found.degraded, found.tools) != (
        wanted.status,
        wanted.degraded,
        wanted.tools,
    )


def _write(folder: Path, settings: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "armory.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


async def command(folder: Path, settings: dict[str, Any], *arguments: str) -> str:
    """Run one `armory` command to its end; "" or what went wrong."""
    _write(folder, settings)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "armory.cli.main", *arguments),
        cwd=folder,
        env={**os.environ, "ARMORY_HOME": str(folder / "home"), "PYTHONPATH": os.getcwd()},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    return "" if process.returncode == 0 else told.decode()[-500:]


async def others(args: argparse.Namespace, url: str, folder: Path, texts: list[str]) -> Any:
    """The first scene, by what the others did."""
    evaluated = folder / "evaluated"
    evaluated.mkdir()
    lines = [{"id": row["name"], **row} for row in definitions(args.tools_file, 0, 300, " Other.")]
    (evaluated / "tools.jsonl").write_text("\n".join(map(json.dumps, lines)))
    asked = [
        {"id": str(i), "query": text, "relevant": [f"tool{i}"]} for i, text in enumerate(texts)
    ]
    (evaluated / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    mine, other = config(args, url, 0), config(args, url, args.tools)
    missing = config(args, url, 0)
    missing["upstreams"]["part1"]["args"] = ["-c", "raise SystemExit('away')"]

    async def serve_another() -> str:
        place = folder / "another"
        place.mkdir()
        another = await asyncio.to_thread(started, other, place)
        async with aiohttp.ClientSession() as session:
            said = (await search(session, another.url, texts[0])).degraded
        await asyncio.to_thread(another.close)
        return said

    deeds: dict[str, Callable[[], Awaitable[str]]] = {
        "eval": lambda: command(folder / "eval", mine, "eval", str(evaluated)),
        "tune": lambda: command(folder / "tune", mine, "tune", str(evaluated)),
        "search, an upstream away": lambda: command(
            folder / "search", missing, "search", texts[0], "--json"
        ),
        "serve, other tools": serve_another,
    }
    (folder / "mine").mkdir()
    gateway = await asyncio.to_thread(started, mine, folder / "mine")
    report: dict[str, Any] = {}
    try:
        async with aiohttp.ClientSession() as session:
            before = [await search(session, gateway.url, text) for text in texts]
            again = [await search(session, gateway.url, text) for text in texts]
            changed = sum(map(differs, again, before))
            report["nothing"] = {"answers": len(texts), "that_differ": changed}
            for name, deed in deeds.items():
                work = asyncio.ensure_future(deed())
                during = changed = 0
                while not work.done():
                    place = during % len(texts)
                    found = await search(session, gateway.url, texts[place])
                    changed += differs(found, before[place])
                    during += 1
                after = [await search(session, gateway.url, text) for text in texts]
                report[name] = {
                    "answers_during": during,
                    "that_differ_during": changed,
                    "answers_after": len(after),
                    "that_differ_after": sum(map(differs, after, before)),
                    "failed": work.result(),
                }
                print(name, report[name], flush=True)
    finally:
        gateway.close()
    return report


async def away(
    args: argparse.Namespace, qdrant: QdrantProcess, folder: Path, texts: list[str]
) -> Any:
    """The second scene. Seconds count from the kill, or from the return: the server is ready."""
    (folder / "killed").mkdir()
    gateway = await asyncio.to_thread(started, config(args, qdrant.url, 0), folder / "killed")
    told: list[tuple[float, bool]] = []
    tasks: list[asyncio.Task[Found]] = []
    try:
        async with aiohttp.ClientSession() as session:
            end = asyncio.Event()

            async def ask() -> None:
                while not end.is_set():
                    text = texts[len(tasks) % len(texts)]
                    tasks.append(asyncio.create_task(search(session, gateway.url, text)))
                    await asyncio.sleep(1 / args.rate)

            async def look() -> None:
                while not end.is_set():
                    status = await asyncio.to_thread(gateway.status)
                    told.append((time.monotonic(), "Qdrant at" in json.dumps(status)))
                    await asyncio.sleep(0.05)

            asking, looking = asyncio.create_task(ask()), asyncio.create_task(look())
            await asyncio.sleep(5)
            killed = time.monotonic()
            await asyncio.to_thread(qdrant.kill)
            await asyncio.sleep(args.away)
            await asyncio.to_thread(qdrant.start)
            back = time.monotonic()
            await asyncio.sleep(_AFTER_S)
            end.set()
            await asking
            await looking
            found = await asyncio.gather(*tasks)
    finally:
        gateway.close()
    return readings(args, found, told, killed, back)


def readings(
    args: argparse.Namespace,
    found: list[Found],
    told: list[tuple[float, bool]],
    killed: float,
    back: float,
) -> dict[str, Any]:
    """What the answers say."""
    meant = [one for one in found if not one.degraded]
    words = [one for one in found if one.degraded]
    gone = [one for one in found if one.answered > killed and one.sent < back]
    return {
        "rate": args.rate,
        "away_s": round(back - killed, 1),
        "answers": len(found),
        "failed": sum(one.status != 200 for one in found),
        "by_words": len(words),
        "by_words_before_the_kill": sum(one.answered < killed for one in words),
        "first_by_words_s": round(min(one.answered for one in words) - killed, 2),
        "slowest_while_away_s": round(max(one.answered - one.sent for one in gone), 2),
        "told_by_readyz_s": round(min(at for at, away in told if away) - killed, 2),
        "first_by_meaning_after_s": round(
            min(one.answered for one in meant if one.answered > back) - back, 2
        ),
        "last_by_words_after_s": round(max(one.answered for one in words) - back, 2),
    }


async def run(args: argparse.Namespace) -> dict[str, Any]:
    """Both scenes."""
    report: dict[str, Any] = {}
    rows = definitions(args.tools_file, 0, args.tools)
    step = max(1, len(rows) // args.queries)
    words = [row["description"].split() for row in rows[::step]]
    texts = [" ".join(row[1:10] or row) for row in words]  # without a description, the name
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "qdrant").mkdir()
        qdrant = QdrantProcess(folder / "qdrant")
        try:
            report["made"] = made(qdrant.url)
            if args.only != "away":
                report["others"] = await others(args, qdrant.url, folder, texts[: args.queries])
            if args.only != "others":
                found = await away(args, qdrant, folder, texts)
                report["away"] = {"tools": args.tools, **found}
                print(report["away"], flush=True)
        finally:
            qdrant.kill()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description="A gateway in use on a shared Qdrant.")
    parser.add_argument("tools_file", type=Path)
    parser.add_argument("--tools", type=int, default=3_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--away", type=float, default=60.0, help="seconds that it is killed")
    parser.add_argument("--rate", type=float, default=16.0, help="searches a second")
    parser.add_argument("--only", choices=["others", "away"], help="one scene; the other stays")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.tools_file = args.tools_file.resolve()
    report: dict[str, Any] = {}
    if args.only and args.out is not None and args.out.is_file():
        report = json.loads(args.out.read_text(encoding="utf-8"))
    report |= asyncio.run(run(args))
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
