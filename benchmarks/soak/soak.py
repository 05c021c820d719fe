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
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.load.driver import Connection, modern_meta, prepare
from benchmarks.load.processes import end_on_sigterm, free_port, machine, process, versions
from benchmarks.soak.watch import EVERY_S, SAMPLES, WARM_S, Sample, judge, watch

CONFIG = """\
server: {{port: {port}, limits: {{session_idle_s: {idle}}}}}
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
VANISH = 0.002  # share of calls whose client goes away in mid-call
CANCEL = 0.004  # of a legacy client's that it cancels
ABANDON = 0.001  # after which a client starts anew, and leaves its session behind


SESSION_IDLE_S = 20.0  # so that sessions that clients abandon do expire while it runs


class Book:
    """What was sent and what came back."""

    def __init__(self) -> None:
        self.counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.wrong: list[str] = []
        self.calls = 0

    def note(self, upstream: str, fault: str, outcome: str) -> None:
        """Count one call."""
        self.counts[upstream, fault, outcome] += 1
        self.calls += 1

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


class Client:
    """One client: many calls on a connection; sometimes it cancels, vanishes or starts anew.

    Args:
        url: the gateway's `/mcp`.
        era: `modern` or `legacy`.
        book: where its calls are noted.
        seed: of its choices.
    """

    def __init__(self, url: str, era: str, book: Book, seed: int) -> None:
        self._url = url
        self._era = era
        self._book = book
        self._rng = random.Random(seed)
        self._connection: Connection | None = None
        self._stream: Connection | None = None

    async def run(self, numbers: Iterator[int]) -> None:
        """Take numbers while there are any."""
        for number in numbers:
            await self._one(number)
        self._leave()

    async def _connect(self, name: str) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._url)
            await prepare(self._connection, self._era, "tools/call", name)
            if self._era == "legacy" and self._rng.random() < 0.5:
                await self._listen(self._connection.headers)
        return self._connection

    async def _listen(self, headers: str) -> None:
        """Open the session's event stream, as many clients do, and never read it."""
        self._stream = stream = Connection(self._url)
        await stream.open()
        head = f"GET {stream.path} HTTP/1.1\r\nHost: {stream.host}:{stream.port}\r\n"
        stream.writer.write(f"{head}{headers}Accept: text/event-stream\r\n\r\n".encode())
        await stream.head()

    def _leave(self) -> None:
        """Go without a word; a session stays behind."""
        for connection in (self._connection, self._stream):
            if connection is not None:
                connection.writer.transport.abort()
        self._connection = self._stream = None

    async def _one(self, number: int) -> None:
        rng, book = self._rng, self._book
        upstream, fault = pick(rng)
        leave = rng.random()
        cancels = VANISH <= leave < VANISH + CANCEL and self._era == "legacy"
        if cancels and (upstream, fault) in (("web", "none"), ("old", "none")):
            fault = "late"  # so that there is something to cancel
        name, value = f"{upstream}__echo", f"v{number}"
        connection = await self._connect(name)
        params: dict[str, Any] = {"name": name, "arguments": {"value": value, "fault": fault}}
        extra = ""
        if self._era == "modern":
            params["_meta"] = modern_meta()
            connection.headers = connection.headers.partition("Mcp-Name")[0]
            extra = f"Mcp-Name: {name}\r\n"
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        body = json.dumps(message).encode()
        if leave < VANISH:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.post(body, extra), 0)
            self._leave()
            book.note(upstream, fault, "client left")
            return
        try:
            answer = asyncio.ensure_future(connection.post(body, extra))
            if cancels:
                await self._cancel(number, connection.headers)
            status, _, content = await asyncio.wait_for(answer, 30)
        except TimeoutError:
            how = ", cancelled" if cancels else ""
            self._wrong(upstream, fault, f"no answer within 30 s ({self._era}{how})")
            return
        except (OSError, asyncio.IncompleteReadError) as error:
            self._wrong(upstream, fault, f"connection: {error!r}")
            return
        outcome = outcome_of(status, content, number, value)
        if cancels and not said(content):
            outcome = "cancelled"
        if outcome.startswith("wrong"):
            book.fail(f"{upstream} {fault}: {outcome}")
        book.note(upstream, fault, outcome)
        if leave > 1 - ABANDON:
            self._leave()

    async def _cancel(self, number: int, headers: str) -> None:
        """Say that the answer is not wanted any more, while the call is under way."""
        other = Connection(self._url)
        await other.open()
        other.headers = headers
        params = {"requestId": number, "reason": "changed my mind"}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        await other.post(json.dumps(cancel).encode())
        other.writer.close()

    def _wrong(self, upstream: str, fault: str, what: str) -> None:
        self._book.fail(f"{upstream} {fault}: {what}")
        self._book.note(upstream, fault, "wrong")
        self._leave()


def said(content: bytes) -> bool:
    """Whether an answer holds a response at all."""
    return b'"jsonrpc"' in content


def counting(calls: int, seconds: float) -> Iterator[int]:
    """Numbers of calls from 1 on, until there were enough or the time is up; 0: no such limit."""
    until = time.monotonic() + seconds
    for number in itertools.count(1):
        if (calls and number > calls) or (seconds and time.monotonic() > until):
            return
        yield number


async def traffic(
    url: str, pid: int, calls: int, seconds: float, clients: int
) -> tuple[Book, list[Sample], float]:
    """All clients, sharing one counter of calls; what was seen of the gateway meanwhile, and how
    many seconds it took.
    """
    book, done = Book(), asyncio.Event()
    begun = time.monotonic()
    metrics = f"{url.removesuffix('/mcp')}/metrics"
    every_s = max(EVERY_S, seconds / SAMPLES)
    watcher = asyncio.create_task(watch(metrics, pid, lambda: book.calls, done, every_s=every_s))
    numbers = counting(calls, seconds)
    everybody = [
        Client(url, "modern" if i % 2 else "legacy", book, i).run(numbers) for i in range(clients)
    ]
    await asyncio.gather(*everybody)
    took_s = time.monotonic() - begun
    done.set()
    return book, await watcher, took_s


def report(book: Book, samples: list[Sample], seconds: float, warm_s: float) -> dict[str, Any]:
    """The JSON: totals, the table of injected faults, what grew, samples."""
    rows: dict[str, dict[str, int]] = {}
    for (upstream, fault, outcome), count in sorted(book.counts.items()):
        rows.setdefault(f"{upstream}: {fault}", {})[outcome] = count
    return {
        "versions": versions(), "machine": machine(), "calls": book.calls,
        "seconds": round(seconds, 1), "wrong": book.wrong, "warm_s": warm_s,
        "growth": judge(samples, warm_s),
        "outcomes": rows, "samples": samples,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000, help="0: as many as there is time")
    parser.add_argument("--minutes", type=float, default=0, help="0: as long as the calls take")
    parser.add_argument("--warm", type=float, default=WARM_S, help="seconds that do not count yet")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/soak/results.json"))
    args = parser.parse_args()
    if not args.calls and not args.minutes:
        parser.error("--calls or --minutes must say when it ends")
    end_on_sigterm()
    here = str(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        values = {
            "port": free_port(), "good": free_port(), "dead": free_port(),
            "python": sys.executable, "here": here, "dir": folder, "idle": SESSION_IDLE_S,
        }  # fmt: skip
        config = scratch / "armory.yaml"
        config.write_text(CONFIG.format(**values))
        faulty = [sys.executable, "-m", "benchmarks.soak.faulty", "--port", str(values["good"])]
        serve = [sys.executable, "-m", "armory.cli.main", "serve", "--config", str(config)]
        with (
            process(faulty, 1, values["good"], scratch / "faulty.log"),
            process(serve, 0, values["port"], scratch / "armory.log") as pid,
        ):
            url = f"http://127.0.0.1:{values['port']}/mcp"
            found = asyncio.run(traffic(url, pid, args.calls, 60 * args.minutes, args.clients))
            result = report(*found, args.warm)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "samples"}, indent=1))
    if result["wrong"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
