"""The soak: a gateway over good, dead, hanging, crashing and lying upstreams, under mixed clients.

Owns: the traffic, the bookkeeping (every call is answered once, with its own value) and the report:
what was injected and what came of it, memory, descriptors and tasks over time. Linux only; all
traffic stays on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.load.driver import Connection, modern_meta, prepare
from benchmarks.load.run import free_port, process, rss_mb

CONFIG = """\
server: {{port: {port}}}
upstreams:
  web: {{url: "http://127.0.0.1:{good}/mcp", call_timeout_s: 1, breaker: {{failures: 1000000}}}}
  old:
    url: "http://127.0.0.1:{good}/mcp"
    protocol: "2025-11-25"
    isolation: shared
    call_timeout_s: 1
    breaker: {{failures: 1000000}}
  pipe:
    command: "{python}"
    args: [-m, benchmarks.soak.faulty, --stdio]
    env: {{PYTHONPATH: "{here}"}}
    isolation: shared
    call_timeout_s: 1
    breaker: {{failures: 1000000}}
  steady:
    command: "{python}"
    args: [-m, benchmarks.soak.faulty, --stdio]
    env: {{PYTHONPATH: "{here}"}}
    isolation: shared
  dead: {{url: "http://127.0.0.1:{dead}/mcp"}}
  loop:
    command: "{python}"
    args: [-m, benchmarks.soak.faulty, --exit]
    env: {{PYTHONPATH: "{here}"}}
observability: {{log_level: error, query_log: {{enabled: false}}}}
storage: {{url: "sqlite:///{dir}/armory.db", cache_dir: "{dir}/cache"}}
"""

# share of calls per (upstream, fault); the rest are honest calls
FAULTS = {
    ("web", "late"): 0.01, ("web", "garbage"): 0.005, ("web", "twice"): 0.01,
    ("web", "crash"): 0.005, ("web", "reset"): 0.005, ("web", "status"): 0.005,
    ("web", "hang"): 0.001, ("web", "huge"): 0.00002,
    ("old", "late"): 0.01, ("old", "twice"): 0.005, ("old", "garbage"): 0.002,
    ("pipe", "twice"): 0.005, ("pipe", "garbage"): 0.0005, ("pipe", "hang"): 0.0005,
    ("pipe", "crash"): 0.0002, ("pipe", "status"): 0.005, ("pipe", "reset"): 0.0005,
    ("pipe", "huge"): 0.00001, ("dead", "none"): 0.001, ("loop", "none"): 0.001,
}  # fmt: skip
HONEST = ("web", "old", "pipe", "steady")
ANSWERED = {"none", "late", "twice"}


class Book:
    """What was sent and what came back."""

    def __init__(self) -> None:
        self.counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.wrong: list[str] = []
        self.samples: list[dict[str, float]] = []

    def note(self, upstream: str, fault: str, outcome: str) -> None:
        """Count one call."""
        self.counts[upstream, fault, outcome] += 1

    def fail(self, text: str) -> None:
        """Something that must never happen."""
        if len(self.wrong) < 50:
            self.wrong.append(text)


def pick(rng: random.Random) -> tuple[str, str]:
    """The next call's upstream and fault."""
    roll = rng.random()
    for key, share in FAULTS.items():
        if (roll := roll - share) < 0:
            return key
    return rng.choice(HONEST), "none"


def outcome_of(status: int, content: bytes, number: int, value: str) -> str:
    """How a call ended: `value`, `tool error`, `rpc error`, or a sentence when it is wrong."""
    if b"data: " in content[:200]:
        frames = [line[6:] for line in content.splitlines() if line.startswith(b"data: ")]
        replies = [f for f in map(json.loads, (f for f in frames if f.strip())) if "id" in f]
        if len(replies) != 1:
            return f"wrong: {len(replies)} replies"
        message = replies[0]
    else:
        try:
            message = json.loads(content)
        except ValueError:
            return f"wrong: HTTP {status} {content[:80]!r}"
    if message.get("id") != number:
        return f"wrong: id {message.get('id')!r}, expected {number}"
    if "error" in message:
        return "rpc error"
    result = message["result"]
    if result.get("isError"):
        known = "dev.armory/error" in (result.get("_meta") or {})
        return "tool error" if known else "wrong: isError without a code"
    return "value" if result["content"][0].get("text") == value else "wrong: foreign value"


async def client(url: str, era: str, numbers: Any, book: Book, seed: int) -> None:
    """One client: many calls on a connection; sometimes it cancels, vanishes or starts anew."""
    rng = random.Random(seed)
    connection: Connection | None = None
    for number in numbers:
        upstream, fault = pick(rng)
        name, value = f"{upstream}__echo", f"v{number}"
        if connection is None:
            connection = Connection(url)
            await prepare(connection, era, "tools/call", name)
        params: dict[str, Any] = {"name": name, "arguments": {"value": value, "fault": fault}}
        extra = ""
        if era == "modern":
            params["_meta"] = modern_meta()
            connection.headers = connection.headers.partition("Mcp-Name")[0]
            extra = f"Mcp-Name: {name}\r\n"
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        leave = rng.random()
        try:
            if leave < 0.002:  # vanish in mid-call
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(connection.post(json.dumps(message).encode(), extra), 0)
                connection.writer.transport.abort()
                connection = None
                book.note(upstream, fault, "client left")
                continue
            status, _, content = await asyncio.wait_for(
                connection.post(json.dumps(message).encode(), extra), 30
            )
        except TimeoutError:
            book.fail(f"{upstream} {fault}: no answer within 30 s")
            book.note(upstream, fault, "wrong: lost")
            connection = None
            continue
        except (OSError, asyncio.IncompleteReadError) as error:
            book.fail(f"{upstream} {fault}: {error!r}")
            book.note(upstream, fault, "wrong: connection")
            connection = None
            continue
        outcome = outcome_of(status, content, number, value)
        book.note(upstream, fault, outcome)
        if outcome.startswith("wrong"):
            book.fail(f"{upstream} {fault}: {outcome}")
        if leave > 0.999:  # a new session; the old one is simply abandoned
            connection.writer.close()
            connection = None


async def watch(pid: int, book: Book, done: asyncio.Event) -> None:
    """Sample memory, descriptors and children until `done`."""
    begun = time.monotonic()
    while not done.is_set():
        book.samples.append(
            {
                "t_s": round(time.monotonic() - begun, 1),
                "rss_mb": round(rss_mb(pid), 1),
                "fds": len(os.listdir(f"/proc/{pid}/fd")),
                "calls": sum(book.counts.values()),
            }
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), 5)


async def traffic(url: str, pid: int, calls: int, clients: int) -> Book:
    """All clients, sharing one counter of calls."""
    book, done = Book(), asyncio.Event()
    watcher = asyncio.create_task(watch(pid, book, done))
    numbers = iter(itertools.islice(itertools.count(1), calls))
    await asyncio.gather(
        *(client(url, "modern" if i % 2 else "legacy", numbers, book, i) for i in range(clients))
    )
    done.set()
    await watcher
    return book


def report(book: Book, seconds: float) -> dict[str, Any]:
    """The JSON: totals, the table of injected faults, samples."""
    rows: dict[str, dict[str, int]] = {}
    for (upstream, fault, outcome), count in sorted(book.counts.items()):
        rows.setdefault(f"{upstream}: {fault}", {})[outcome] = count
    return {
        "calls": sum(book.counts.values()), "seconds": round(seconds, 1), "wrong": book.wrong,
        "outcomes": rows, "samples": book.samples,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/soak/results.json"))
    args = parser.parse_args()
    here = str(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        values = {
            "port": free_port(), "good": free_port(), "dead": free_port(),
            "python": sys.executable, "here": here, "dir": folder,
        }  # fmt: skip
        config = scratch / "armory.yaml"
        config.write_text(CONFIG.format(**values))
        faulty = [sys.executable, "-m", "benchmarks.soak.faulty", "--port", str(values["good"])]
        serve = [sys.executable, "-m", "armory.cli.main", "serve", "--config", str(config)]
        with (
            process(faulty, 1, values["good"], scratch / "faulty.log"),
            process(serve, 0, values["port"], scratch / "armory.log") as pid,
        ):
            begun = time.monotonic()
            url = f"http://127.0.0.1:{values['port']}/mcp"
            book = asyncio.run(traffic(url, pid, args.calls, args.clients))
            result = report(book, time.monotonic() - begun)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "samples"}, indent=1))
    print("first and last sample:", result["samples"][0], result["samples"][-1])
    if result["wrong"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
