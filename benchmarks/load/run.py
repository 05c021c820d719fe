"""Run the load benchmark: start each target, drive it, write JSON, print the table.

Owns: processes, pinning, CPU and memory readings (from `/proc`), medians. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.load.targets import Target, here, targets

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_ENV = {**os.environ, "PYTHONPATH": here()}


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes], timeout_s: float = 60) -> None:
    """Wait until something listens on `port`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} exited with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on {port} after {timeout_s} s")


@contextlib.contextmanager
def process(argv: list[str], core: int, port: int, log: Path) -> Iterator[int]:
    """A child process on one core, listening on `port`; yields its pid."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *argv], env=_ENV, stdout=out, stderr=out
        )
        try:
            await_port(port, child)
            yield child.pid
        finally:
            child.terminate()
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(5)


def cpu_seconds(pid: int) -> float:
    """User and system time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def rss_mb(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def drive(url: str, **options: Any) -> dict[str, float]:
    """One driver run on the other core."""
    argv = [sys.executable, "-m", "benchmarks.load.driver", url]
    for key, value in options.items():
        if value is not None:
            argv += [f"--{key}", str(value)]
    done = subprocess.run(
        ["taskset", "-c", "1", *argv], env=_ENV, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "driver failed")
    return json.loads(done.stdout)


def scenarios(quick: bool) -> list[dict[str, Any]]:
    """What is measured on every target."""
    every: list[dict[str, Any]] = []
    levels = (1, 32) if quick else (1, 32, 256)
    for label, era, endpoint in (
        ("modern JSON", "modern", "mcp"),
        ("modern SSE", "modern", "sse-mcp"),
        ("legacy session", "legacy", "mcp"),
    ):
        for concurrency in levels:
            for size in (64, 1 << 20):
                if size > 64 and concurrency != 1:
                    continue
                small = 1000 if concurrency == 1 else 3000
                every.append(
                    {
                        "label": label,
                        "era": era,
                        "endpoint": endpoint,
                        "concurrency": concurrency,
                        "bytes": size,
                        "requests": (small if size == 64 else 100) // (2 if quick else 1),
                    }
                )
    return every


def measure(
    target: Target, scenario: dict[str, Any], upstream_port: int, rounds: int, scratch: Path
) -> dict[str, float]:
    """Medians over `rounds` of one scenario on one freshly started target."""
    endpoint = scenario["endpoint"]
    values = {
        "upstream": f"http://127.0.0.1:{upstream_port}",
        "endpoint": endpoint,
        "dir": str(scratch),
        "python": sys.executable,
        "here": here(),
        "protocol": "2026-07-28" if scenario["era"] == "modern" else "2025-11-25",
        "port": str(free_port()),
    }
    for name, text in target.files:
        (scratch / name).write_text(text.format(**values))
    options = {
        "era": scenario["era"],
        "bytes": scenario["bytes"],
        "name": target.tool,
        "concurrency": scenario["concurrency"],
        "requests": scenario["requests"],
    }
    with contextlib.ExitStack() as stack:
        if target.argv:
            argv = [part.format(**values) for part in target.argv]
            port = int(values["port"])
            pid = stack.enter_context(process(argv, 0, port, scratch / f"{target.name}.log"))
            url = f"http://127.0.0.1:{port}" + target.path.format(**values)
        else:
            pid, url = 0, f"http://127.0.0.1:{upstream_port}/{endpoint}"
        drive(url, **{**options, "requests": min(200, scenario["requests"])})
        runs: list[dict[str, float]] = []
        for _ in range(rounds):
            before = cpu_seconds(pid) if pid else 0.0
            run = drive(url, **options)
            if pid:
                run["cpu_us"] = 1e6 * (cpu_seconds(pid) - before) / run["requests"]
                run["rss_mb"] = rss_mb(pid)
            runs.append(run)
    return {key: statistics.median(r[key] for r in runs) for key in runs[0]}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: one line a (scenario, target), ratios against the bare proxy."""
    lines = [
        "| scenario | target | req/s | p50 ms | p99 ms | CPU µs/req | CPU ratio | p50 ratio | MB |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = [
            f"{row['label']}, c={row['concurrency']}, "
            + ("1 MiB" if row["bytes"] > 64 else "small"),
            row["target"],
            f"{row['rps']:.0f}",
            f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}",
            f"{row['cpu_us']:.0f}" if "cpu_us" in row else "-",
            f"{row['cpu_ratio']:.2f}" if "cpu_ratio" in row else "-",
            f"{row['p50_ratio']:.2f}" if "p50_ratio" in row else "-",
            f"{row['rss_mb']:.0f}" if "rss_mb" in row else "-",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """What was measured."""
    names = ("armory-mcp-gateway", "aiohttp", "msgspec", "mcp", "uvloop")
    found = {"python": platform.python_version()}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/load/results.json"))
    parser.add_argument("--peers", type=Path, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=None, help="comma list of target names")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    wanted = None if args.only is None else set(args.only.split(","))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch, port = Path(folder), free_port()
        upstream = [sys.executable, "-m", "benchmarks.load.upstream", "--port", str(port)]
        with process(upstream, 1, port, scratch / "upstream.log"):
            for scenario in scenarios(args.quick):
                floor: dict[str, float] = {}
                for target in targets(args.peers):
                    if wanted is not None and target.name not in wanted:
                        continue
                    if target.stdio and scenario["endpoint"] != "mcp":
                        continue
                    try:
                        figures = measure(target, scenario, port, args.rounds, scratch)
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        log = scratch / f"{target.name}.log"
                        tail = log.read_text()[-400:] if log.exists() else ""
                        print(
                            f"{target.name}, {scenario['label']}: {error}\n{tail}", file=sys.stderr
                        )
                        continue
                    if target.name == "bare aiohttp proxy":
                        floor = figures
                    row = {**scenario, "target": target.name, **figures}
                    if floor and "cpu_us" in figures:
                        row["cpu_ratio"] = figures["cpu_us"] / floor["cpu_us"]
                        row["p50_ratio"] = figures["p50_ms"] / floor["p50_ms"]
                    rows.append(row)
                    print(table([row]).splitlines()[-1], file=sys.stderr)
    result = {"versions": versions(), "rounds": args.rounds, "rows": rows}
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
