"""What a gateway takes while nobody asks, and what a command takes: memory and processor time.

Owns: the readings. Processor time is the process's own and of whatever it started and waited for;
a busy machine moves it a little, none of it is waiting.

    python -m benchmarks.light [--tools DATA]
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.load.driver import cpu_seconds
from benchmarks.load.lists import READINESS, await_ready
from benchmarks.load.processes import ENV, ROOT, end_on_sigterm, free_port, machine, process
from benchmarks.load.processes import versions as load_versions
from benchmarks.sizing.run import CONFIG, SERVER, peak_mb

REPEATS = 5
MANY = 10_000
IDLE_S = 10.0
"""After it is ready; by then what the start needed alone has gone back."""
LOGGED_S = 60.0
ARMORY = [sys.executable, "-m", "armory.cli.main"]
QUERY = "what time is it in Tokyo"


def memory(pid: int) -> dict[str, float]:
    """Resident memory in MB: all, the process's own, and what is mapped of files."""
    status = Path(f"/proc/{pid}/status").read_text()
    names = {"rss_mb": "VmRSS", "own_mb": "RssAnon", "files_mb": "RssFile"}
    found = {key: re.search(rf"{name}:\s+(\d+)", status) for key, name in names.items()}
    return {key: int(match[1]) / 1024 for key, match in found.items() if match}


def await_words(log: Path, words: bytes) -> None:
    """Wait until a log has them."""
    until = time.monotonic() + LOGGED_S
    while words not in log.read_bytes():
        if time.monotonic() > until:
            raise RuntimeError(log.read_text())
        time.sleep(0.005)


def command(arguments: list[str], env: dict[str, str]) -> float:
    """Processor seconds of one command: the median of some runs."""
    spent: list[float] = []
    for _ in range(REPEATS):
        child = subprocess.Popen(
            [*ARMORY, *arguments], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"armory {' '.join(arguments)}: exit code {child.returncode}")
        spent.append(used.ru_utime + used.ru_stime)
    return statistics.median(spent)


def listening(folder: Path, env: dict[str, str]) -> float:
    """Processor seconds of `armory serve` until it says where it listens: the median."""
    spent: list[float] = []
    for _ in range(REPEATS):
        log = folder / "listening.log"
        with log.open("wb") as out:
            argv = [*ARMORY, "serve", "--port", str(free_port())]
            child = subprocess.Popen(argv, env=env, stdout=out, stderr=out, cwd=ROOT)
        try:
            await_words(log, b'"event": "listening"')
            spent.append(cpu_seconds(child.pid))
        finally:
            child.terminate()
            child.wait()
    return statistics.median(spent)


def demonstration(folder: Path) -> dict[str, Any]:
    """The repository's own `armory.yaml`: idle after its first start, a restart and a query."""
    file, env = Path(ROOT) / "armory.yaml", {**ENV, "ARMORY_HOME": str(folder)}
    found: dict[str, Any] = {}
    for start in ("first", "again"):
        port = free_port()
        serve = [*ARMORY, "serve", "--config", str(file), "--port", str(port)]
        with process(serve, 0, port, folder / f"{start}.log") as pid:
            await_words(folder / f"{start}.log", b'"event": "ready"')
            time.sleep(IDLE_S)
            found[f"{start}_start"] = memory(pid) | {"peak_mb": peak_mb(pid)}
            if start == "first":
                continue
            there = ["--url", f"http://127.0.0.1:{port}/mcp"]
            subprocess.run(
                [*ARMORY, "search", *there, QUERY], env=env, stdout=subprocess.DEVNULL, check=True
            )
            time.sleep(IDLE_S)
            found["after_a_query"] = memory(pid) | {"peak_mb": peak_mb(pid)}
            arguments = {
                "keys list": ["keys", "list", "--config", str(file)],
                "validate": ["validate", "--config", str(file)],
                "status": ["status", "--url", f"http://127.0.0.1:{port}"],
                "tools --url": ["tools", *there],
                "search --url": ["search", *there, QUERY],
                "call --url": ["call", *there, "notes__list_notes"],
            }
            found["cpu_s"] = {name: command(argv, env) for name, argv in arguments.items()}
    found["cpu_s"]["serve, listening"] = listening(folder, env)
    return found


def many(data: Path, count: int, folder: Path) -> dict[str, Any]:
    """So many real tools of one upstream: idle after the first start and a restart."""
    port, upstream = free_port(), free_port()
    file = folder / "armory.yaml"
    values = {"port": port, "upstream": upstream, "name": SERVER, "token": READINESS}
    file.write_text(CONFIG.format(**values))
    offers = [sys.executable, "-m", "benchmarks.sizing.run", str(data), "--serve", str(count)]
    serve = [*ARMORY, "serve", "--config", str(file)]
    found: dict[str, Any] = {"tools": count}
    with process([*offers, "--port", str(upstream)], 1, upstream, folder / "upstream.log"):
        for start in ("first", "again"):
            log = folder / f"{start}.log"
            with process(serve, 0, port, log, timeout_s=120) as pid:
                await_ready(f"http://127.0.0.1:{port}", 3_600)
                time.sleep(IDLE_S)
                found[f"{start}_start"] = memory(pid) | {"peak_mb": peak_mb(pid)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, help="folder with the public tool-retrieval sets")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/light.json"))
    args = parser.parse_args()
    end_on_sigterm()
    compileall.compile_dir(Path(ROOT) / "armory", quiet=1)  # as `pip install` leaves it
    kept: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    result: dict[str, Any] = {"versions": load_versions(), "machine": machine()}
    with tempfile.TemporaryDirectory() as name:
        result["demonstration"] = demonstration(Path(name))
    if many_before := kept.get("many"):
        result["many"] = many_before
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    if args.tools is not None:
        with tempfile.TemporaryDirectory() as name:
            result["many"] = many(args.tools, MANY, Path(name))
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1), file=sys.stderr)


if __name__ == "__main__":
    main()
