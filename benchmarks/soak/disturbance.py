"""Disturbances: bad neighbours, SIGHUP and SIGTERM while calls are under way.

Owns: (1) seven good upstreams' latency without and with three bad ones (dead, hanging, crashing at
start) beside them, two gateways in turn, the one whose turn it is not being stopped; (2) SIGHUP
with a changed file, again and again, under load: no call may fail;
(3) SIGTERM under load: every call that reached the upstream is answered. Linux only; 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.load.driver import Connection, modern_meta, prepare
from benchmarks.load.processes import (
    ROOT,
    end_on_sigterm,
    free_port,
    machine,
    process,
    sleep,
    versions,
    wake,
)

ALONE, BESIDE = "alone", "beside three bad ones"
SETTLE_S = 20.0  # the first snapshot is there, and restarts are some seconds apart
FAULTY = [sys.executable, "-m", "benchmarks.soak.faulty"]


def good(port: int) -> dict[str, Any]:
    """An upstream that answers."""
    return {"url": f"http://127.0.0.1:{port}/mcp", "max_concurrency": 512}


def bad_neighbours(silent: int) -> dict[str, Any]:
    """One dead, one that accepts and never answers, one that crashes whenever it starts (on the
    other core: what is measured is the gateway, not the scheduler).
    """
    command = ["taskset", "-c", "1", *FAULTY, "--exit"]
    crash = {"command": command[0], "args": command[1:], "env": {"PYTHONPATH": ROOT}}
    return {
        "dead": {"url": f"http://127.0.0.1:{free_port()}/mcp"},
        "silent": {"url": f"http://127.0.0.1:{silent}/mcp", "connect_timeout_s": 3},
        "crash": crash,
    }


class Gateway:
    """The configuration file and the command of one `armory serve`."""

    def __init__(self, folder: Path, upstreams: dict[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        self.file = folder / "armory.yaml"
        self.folder = folder
        self.port = free_port()
        self.write(upstreams)
        self.argv = [sys.executable, "-m", "armory.cli.main", "serve", "--config", str(self.file)]

    def write(self, upstreams: dict[str, Any]) -> None:
        """Write the file anew."""
        config = {
            "server": {"port": self.port},
            "upstreams": upstreams,
            "observability": {"log_level": "error", "query_log": {"enabled": False}},
            "storage": {
                "url": f"sqlite:///{self.folder}/armory.db",
                "cache_dir": str(self.folder / "cache"),
            },
        }
        self.file.write_text(yaml.safe_dump(config))

    @contextlib.contextmanager
    def running(self) -> Iterator[int]:
        """The process; yields its pid."""
        with process(self.argv, 0, self.port, self.folder / "armory.log") as pid:
            yield pid

    @property
    def url(self) -> str:
        """Of `/mcp`."""
        return f"http://127.0.0.1:{self.port}/mcp"


def body(number: int, tool: str, fault: str = "none") -> bytes:
    """One modern call whose answer holds its own number."""
    params = {
        "name": tool,
        "arguments": {"value": f"v{number}", "fault": fault},
        "_meta": modern_meta(),
    }
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


async def calls(url: str, tools: list[str], clients: int, each: int) -> tuple[list[float], int]:
    """Latencies (ms) of all calls, and how many were not answered with their value."""
    latencies: list[float] = []
    failed = 0

    async def client(seed: int) -> None:
        nonlocal failed
        tool = tools[seed % len(tools)]
        connection = Connection(url)
        await prepare(connection, "modern", "tools/call", tool)
        for i in range(each):
            number = seed * each + i
            begun = time.perf_counter()
            status, _, content = await connection.post(body(number, tool))
            latencies.append(1000 * (time.perf_counter() - begun))
            failed += status != 200 or f'"v{number}"'.encode() not in content
        connection.writer.close()

    await asyncio.gather(*(client(i) for i in range(clients)))
    return latencies, failed


def neighbours(folder: Path, port: int, rounds: int) -> dict[str, Any]:
    """p50 and p99 of seven good upstreams, alone and beside three bad ones, in turns.

    Ratios are of the two halves of one round; what is reported is their median, and the worst one.
    """
    seven = {f"good-{i}": good(port) for i in range(7)}
    tools = [f"{key}__echo" for key in seven]
    found: dict[str, list[tuple[float, float]]] = {ALONE: [], BESIDE: []}

    async def measure(gateway: Gateway, pid: int) -> tuple[float, float]:
        wake(pid)
        try:
            await asyncio.sleep(0.2)  # timers that came due while it was stopped
            await calls(gateway.url, tools, 14, 20)
            latencies, failed = await calls(gateway.url, tools, 14, 150)
        finally:
            sleep(pid)
        if failed:
            raise SystemExit(f"{failed} calls failed")
        latencies.sort()
        return latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.99)]

    async def turns() -> None:
        silent = await asyncio.start_server(_never_answer, "127.0.0.1", 0)
        bad = bad_neighbours(silent.sockets[0].getsockname()[1])
        gateways = {ALONE: Gateway(folder / "a", seven), BESIDE: Gateway(folder / "b", seven | bad)}
        with contextlib.ExitStack() as stack:
            pids = {name: stack.enter_context(g.running()) for name, g in gateways.items()}
            await asyncio.sleep(SETTLE_S)
            sleep(pids[ALONE])
            sleep(pids[BESIDE])
            for number in range(rounds):
                for name in (ALONE, BESIDE) if number % 2 else (BESIDE, ALONE):
                    found[name].append(await measure(gateways[name], pids[name]))
            for pid in pids.values():
                wake(pid)
        silent.close()

    asyncio.run(turns())
    ratios = [b[1] / a[1] for a, b in zip(found[ALONE], found[BESIDE], strict=True)]
    medians = {
        name: {
            "p50_ms": statistics.median(p50 for p50, _ in values),
            "p99_ms": statistics.median(p99 for _, p99 in values),
        }
        for name, values in found.items()
    }
    return {
        **medians,
        "rounds": rounds,
        "p99_ratio": statistics.median(ratios),
        "p99_ratio_worst": max(ratios),
        "p99_ratios": [round(ratio, 3) for ratio in ratios],
    }


async def _never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.CancelledError):
        while await reader.read(65536):
            pass
    writer.close()


def hangups(folder: Path, port: int, times: int) -> dict[str, int]:
    """SIGHUP with an upstream added or taken away, under load on another one."""
    gateway = Gateway(folder, {"web": good(port)})

    async def run(pid: int) -> tuple[list[float], int]:
        load = asyncio.create_task(calls(gateway.url, ["web__echo"], 16, 1000))
        for i in range(times):
            extra = {"more": good(port)} if i % 2 == 0 else {}
            gateway.write({"web": good(port), **extra})
            os.kill(pid, signal.SIGHUP)
            await asyncio.sleep(0.3)
        return await load

    with gateway.running() as pid:
        latencies, failed = asyncio.run(run(pid))
    return {"signals": times, "calls": len(latencies), "failed": failed}


def termination(folder: Path, port: int, clients: int) -> dict[str, int]:
    """SIGTERM while every client waits for a slow answer: all of them must come."""
    gateway = Gateway(folder, {"web": good(port)})

    async def run(pid: int) -> int:
        connections = [Connection(gateway.url) for _ in range(clients)]
        for connection in connections:
            await prepare(connection, "modern", "tools/call", "web__echo")
            await connection.post(body(0, "web__echo"))
        waiting = [
            asyncio.create_task(connection.post(body(i, "web__echo", "slow")))
            for i, connection in enumerate(connections)
        ]
        await asyncio.sleep(0.3)  # all of them are under way: the answers take a second
        os.kill(pid, signal.SIGTERM)
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        return sum(
            not isinstance(a, BaseException) and a[0] == 200 and f'"v{i}"'.encode() in a[2]
            for i, a in enumerate(answers)
        )

    with gateway.running() as pid:
        answered = asyncio.run(run(pid))
    return {"in_flight": clients, "answered": answered}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/soak/disturbance.json"))
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    end_on_sigterm()
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with process([*FAULTY, "--port", str(port)], 1, port, folder / "upstream.log"):
            result = {
                "versions": versions(),
                "machine": machine(),
                "sigterm": termination(folder, port, 64),
                "sighup": hangups(folder, port, 10),
                "neighbours": neighbours(folder, port, args.rounds),
            }
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
