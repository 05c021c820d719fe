"""Calls through a gateway that keeps an audit: are there as many rows as calls?

    python -m benchmarks.audited [--calls N] [--to file|database]... [--batch N] [--kill]

Owns: clients of which each has one request under way (a 2025-03-26 batch of calls, or with
`--batch 1` a single one), the gateway and its upstream as processes of their own, and the count.
Every answer is looked at; a call that was answered with anything but its result ends the run.

With `--kill` the gateway is killed (SIGKILL) once that many calls were answered, and started anew
on the same audit: how many of the answered calls are missing, how old they were, and what `armory
audit verify` says about it. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load.driver import Connection
from benchmarks.load.processes import (
    ROOT,
    end_on_sigterm,
    free_port,
    machine,
    process,
    versions,
)

UPSTREAM = (sys.executable, "-m", "benchmarks.load.upstream", "--port")
ARMORY = (sys.executable, "-m", "armory.cli.main")
CLIENTS = 32
_CALL = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"bench__echo"}}'
_HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
_CONFIG = """\
server: {{port: {port}}}
upstreams: {{bench: {{url: "http://127.0.0.1:{upstream}/mcp", max_concurrency: 512}}}}
tool_rag: {{enabled: false}}
observability: {{log_level: warning, query_log: {{enabled: false}}, audit: {{to: {to}}}}}
storage: {{url: "sqlite:///{dir}/armory.db", cache_dir: "{dir}/cache"}}
"""
Row = dict[str, object]


@dataclass
class Tally:
    """What was asked and answered, and when.

    Attributes:
        begun: calls that were sent.
        answered: (time, how many) of each answer.
    """

    begun: int = 0
    answered: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    @property
    def calls(self) -> int:
        """How many have their result."""
        return sum(many for _, many in self.answered)

    def before(self, moment: float) -> int:
        """How many had it by then."""
        return sum(many for at, many in self.answered if at <= moment)


async def _connected(url: str) -> Connection:
    connection = Connection(url)
    await connection.open()
    status, headers, content = await connection.post(json.dumps(_HELLO).encode())
    if status != 200:
        raise SystemExit(f"initialize was answered with {status}: {content[:200]!r}")
    connection.headers = f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n"
    await connection.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return connection


async def _calls(connection: Connection, tally: Tally, count: int, batch: int) -> None:
    """One client: requests of `batch` calls, until all clients together began `count`."""
    while (many := min(batch, count - tally.begun)) > 0:
        tally.begun += many
        body = ",".join(_CALL % number for number in range(many))
        status, _, content = await connection.post(
            (body if batch == 1 else f"[{body}]").encode(),
        )
        if status != 200 or content.count(b'"result"') != many or b'"isError":true' in content:
            raise SystemExit(f"a call failed: HTTP {status} {content[:300]!r}")
        tally.answered.append((time.monotonic(), many))


async def driven(url: str, count: int, batch: int, kill: int | None) -> Tally:
    """So many calls; `kill`: the process group that is killed once they are answered."""
    tally = Tally()
    connections = await asyncio.gather(*(_connected(url) for _ in range(CLIENTS)))
    endless = count if kill is None else 1 << 60
    tasks = [asyncio.create_task(_calls(c, tally, endless, batch)) for c in connections]
    told = 0
    while any(not task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=0.05, return_when=asyncio.FIRST_EXCEPTION)
        if kill is not None and tally.calls >= count:
            os.killpg(kill, signal.SIGKILL)
            await asyncio.gather(*tasks, return_exceptions=True)  # their connections ended
            return tally
        if tally.calls - told >= 100_000:
            told = tally.calls
            print(f"{told:,} calls", file=sys.stderr, flush=True)
        for task in tasks:
            if task.done():
                task.result()
    return tally


def rows(folder: Path, to: str) -> tuple[int, int]:
    """(rows of calls that went well, all rows but the audit's own) as the store itself says."""
    good = every = 0
    if to == "file":
        with (folder / "audit.jsonl").open("rb") as lines:
            for line in lines:
                every += b'"method":"armory/' not in line
                good += b'"method":"tools/call"' in line and b'"outcome":"ok"' in line
        return good, every
    with contextlib.closing(sqlite3.connect(folder / "armory.db")) as database:
        text = 'SELECT count(*) FROM audit WHERE record {} LIKE \'%"method":"{}%\''
        own = database.execute(text.format("", "armory/")).fetchone()[0]
        every = database.execute("SELECT count(*) FROM audit").fetchone()[0] - own
        fine = text.format("", "tools/call") + ' AND record LIKE \'%"outcome":"ok"%\''
        good = database.execute(fine).fetchone()[0]
    return good, every


def verified(folder: Path) -> Row:
    """What `armory audit verify` says."""
    found = subprocess.run(
        [*ARMORY, "audit", "verify", "--json", "--config", str(folder / "armory.yaml")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ROOT, "ARMORY_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not found.stdout:
        raise SystemExit(found.stderr)
    verdict: Row = json.loads(found.stdout)
    return verdict


@contextlib.contextmanager
def gateway(folder: Path, to: str, upstream: int) -> Generator[tuple[int, str]]:
    """(pid, URL) of a gateway; at the end it is told to end, and has ended."""
    port = free_port()
    where = folder / "audit.jsonl" if to == "file" else to
    config = _CONFIG.format(port=port, upstream=upstream, to=where, dir=folder)
    (folder / "armory.yaml").write_text(config)
    argv = [*ARMORY, "serve", "--config", str(folder / "armory.yaml")]
    with process(argv, 0, port, folder / "gateway.log") as pid:
        yield pid, f"http://127.0.0.1:{port}/mcp"


def measured(to: str, count: int, batch: int, upstream: int, *, kill: bool) -> Row:
    """One audit: rows beside calls."""
    with tempfile.TemporaryDirectory(prefix="armory-audited-") as scratch:
        folder = Path(scratch)
        began = time.monotonic()
        with gateway(folder, to, upstream) as (pid, url):
            tally = asyncio.run(driven(url, count, batch, pid if kill else None))
            ended = time.monotonic()
        found: Row = {"to": to, "calls": tally.calls, "seconds": round(ended - began, 1)}
        if not kill:
            good, every = rows(folder, to)
            found |= {"rows": good, "all_rows": every, "equal": good == tally.calls}
        else:
            kept = rows(folder, to)[1]
            last = max(at for at, _ in tally.answered)
            ages = [last - at for at, _ in tally.answered if tally.before(at) > kept]
            with gateway(folder, to, upstream):
                pass  # it goes on with the chain
            found |= {
                "rows": kept,
                "missing": max(0, tally.calls - kept),
                "oldest_missing_s": round(max(ages, default=0.0), 3),
            }
        verdict = verified(folder)
        names = ("records", "whole", "problem", "after_kill", "open", "dropped")
        return {**found, "verify": {name: verdict.get(name) for name in names}}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Calls through an audit: rows = calls?")
    parser.add_argument("--calls", type=int, default=1_000_000, help="to each audit")
    parser.add_argument("--to", action="append", choices=["file", "database"])
    parser.add_argument("--batch", type=int, default=32, help="calls of one request")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    end_on_sigterm()
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "upstream.log"
        with process([*UPSTREAM, str(port)], 1, port, log):
            found: Row = {
                "versions": versions(),
                "machine": machine(),
                "batch": arguments.batch,
                "audits": [
                    measured(to, arguments.calls, arguments.batch, port, kill=arguments.kill)
                    for to in arguments.to or ["file", "database"]
                ],
            }
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
