"""Run the load benchmark: start the targets, drive each in turn, write JSON, print the table.

Owns: the grid, the order of measuring, medians and ratios. Linux only; all traffic on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.load import peers, proxies
from benchmarks.load.processes import (
    ENV,
    ROOT,
    end_on_sigterm,
    free_port,
    machine,
    process,
    rss_mb,
    sleep,
    versions,
    wake,
)
from benchmarks.load.targets import FLOOR, LABELS, LEGACY, SSE, STDIO, Target, targets

SMALL, LARGE = 64, 1 << 20
CELLS = ((1, SMALL), (1, LARGE), (32, SMALL), (256, SMALL))
UPSTREAM = [sys.executable, "-m", "benchmarks.load.upstream", "--port"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Running:
    """A target that was started for one label.

    Attributes:
        target: which one.
        url: where it answers.
        pid: of its process; 0 for the upstream itself.
    """

    target: Target
    url: str
    pid: int

    def options(self, label: str, concurrency: int, size: int) -> dict[str, Any]:
        """The driver's."""
        return {
            "era": self.target.era or ("legacy" if label == LEGACY else "modern"),
            "front": self.target.front,
            "name": self.target.tool,
            "bytes": size,
            "concurrency": concurrency,
        }


def drive(url: str, **options: Any) -> dict[str, float]:
    """One driver run on the other core.

    Raises:
        RuntimeError: it failed; its last line.
    """
    argv = [sys.executable, "-m", "benchmarks.load.driver", url]
    for key, value in options.items():
        argv += [f"--{key}", str(value)]
    done = subprocess.run(
        ["taskset", "-c", "1", *argv], env=ENV, capture_output=True, text=True, timeout=90
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "driver failed")
    return json.loads(done.stdout)


def laid_out(
    target: Target, label: str, upstream_port: int, folder: Path
) -> tuple[int, dict[str, str], tuple[str, ...]]:
    """A target's files, written to a new folder.

    Returns:
        The port for it, the values of its templates, and the template of its command.
    """
    folder.mkdir()
    port = free_port()
    values = {
        "upstream": f"http://127.0.0.1:{upstream_port}",
        "upstream_address": f"127.0.0.1:{upstream_port}",
        "endpoint": endpoint_of(label),
        "dir": str(folder),
        "python": sys.executable,
        "here": ROOT,
        "protocol": "2025-11-25" if label == LEGACY else "2026-07-28",
        "port": str(port),
    }
    for name, text in target.stdio_files if label == STDIO else target.files:
        (folder / name).write_text(text.format(**values))
    command = target.stdio_argv if label == STDIO and target.stdio_argv else target.argv
    return port, values, command


def endpoint_of(label: str) -> str:
    """The path of the upstream's endpoint."""
    return "sse-mcp" if label == SSE else "mcp"


def start(
    stack: contextlib.ExitStack, target: Target, label: str, upstream_port: int, scratch: Path
) -> Running:
    """Start one target for one label, and put it to sleep.

    Raises:
        RuntimeError: it does not come up, or not with its upstream.
    """
    upstream = f"http://127.0.0.1:{upstream_port}/{endpoint_of(label)}"
    if not target.argv:
        return Running(target, upstream, 0)
    folder = scratch / f"{label}-{target.name}".replace(" ", "-").replace(",", "")
    port, values, command = laid_out(target, label, upstream_port, folder)
    argv = [part.format(**values) for part in command]
    env = {key: value.format(**values) for key, value in target.env.items()}
    pid = stack.enter_context(process(argv, 0, port, folder / "log", env=env, timeout_s=90))
    if target.settle is not None:
        try:
            target.settle(port, upstream)
        except OSError as error:
            raise RuntimeError(f"could not be set up: {error}") from error
    running = Running(target, f"http://127.0.0.1:{port}" + target.path.format(**values), pid)
    drive(running.url, **running.options(label, 1, SMALL), warm=0, requests=3)
    sleep(pid)
    return running


def one_round(running: Running, options: dict[str, Any], seconds: float) -> dict[str, float]:
    """One target awake, one driver run; the driver reads the target's CPU clock."""
    if not running.pid:
        return drive(running.url, **options, seconds=seconds)
    wake(running.pid)
    try:
        found = drive(running.url, **options, seconds=seconds, pid=running.pid)
        found["rss_mb"] = rss_mb(running.pid)
    finally:
        sleep(running.pid)
    return found


class Cell:
    """One cell of the grid on every target, in rounds, each target once a round.

    Args:
        every: what runs, the bare proxy before those that are compared with it.
        head: the cell's label, concurrency and bytes.
    """

    def __init__(self, every: list[Running], head: Row) -> None:
        self._every = every
        self._head = head
        self._runs: dict[str, list[dict[str, float]]] = {}
        self._ratios: dict[str, dict[str, list[float]]] = {}
        self._failed: dict[str, str] = {}

    def _skipped(self, target: Target, number: int) -> bool:
        few = 1 if self._head["concurrency"] > 32 else 3
        heavy = self._head["concurrency"] > 32 or self._head["bytes"] > SMALL
        return (
            target.name in self._failed
            or (target.slow and number >= few)
            or (target.light and heavy)
        )

    def round(self, number: int, seconds: float) -> None:
        """Every target once, in another order each time: what ran before leaves its traces."""
        head = self._head
        first = number % len(self._every)
        order = self._every[first:] + self._every[:first]
        this_round: dict[str, dict[str, float]] = {}
        for running in order if number % 2 else reversed(order):
            name = running.target.name
            if self._skipped(running.target, number):
                continue
            options = running.options(head["label"], head["concurrency"], head["bytes"])
            try:
                found = one_round(running, options, seconds)
            except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
                self._failed[name] = said(error)
                continue
            self._runs.setdefault(name, []).append(found)
            this_round[name] = found
        self._compare(this_round)

    def _compare(self, found: dict[str, dict[str, float]]) -> None:
        """Note the ratios of one round."""
        floor = found.get(FLOOR)
        for running in self._every:
            name = running.target.name
            if floor is not None and running.pid and name in found:
                into = self._ratios.setdefault(name, {"cpu": [], "p50": []})
                into["cpu"].append(found[name]["cpu_us"] / floor["cpu_us"])
                into["p50"].append(found[name]["p50_ms"] / floor["p50_ms"])

    def rows(self) -> list[Row]:
        """Medians over the rounds, and why there are none."""
        rows: list[Row] = []
        for running in self._every:
            name = running.target.name
            row: Row = {**self._head, "target": name}
            if name in self._failed:
                rows.append({**row, "unavailable": self._failed[name]})
            elif name in self._runs:
                ran = self._runs[name]
                row["rounds"] = len(ran)
                for key in ran[0]:
                    middle = sum if key in ("errors", "unanswered") else statistics.median
                    row[key] = middle(run[key] for run in ran)
                for key, values in self._ratios.get(name, {}).items():
                    row[f"{key}_ratio"] = statistics.median(values)
                    row[f"{key}_ratios"] = [round(value, 3) for value in values]
                rows.append(row)
        return rows


def table(rows: list[Row]) -> str:
    """Markdown: one line a (scenario, target), ratios against the bare proxy."""
    lines = [
        "| scenario | target | req/s | p50 ms | p99 ms | CPU µs/req | CPU ratio | p50 ratio | MB |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        if "unavailable" in row:
            continue
        failures = int(row.get("errors", 0) + row.get("unanswered", 0))
        cells = [
            f"{row['label']}, c={row['concurrency']}, "
            + ("1 MiB" if row["bytes"] > SMALL else "small"),
            row["target"] + (f" ({failures} of {row['requests']:.0f} failed)" if failures else ""),
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


def said(error: BaseException) -> str:
    """Its text without folders, which are nobody's business but this machine's."""
    return re.sub(r"(?:/[\w.+-]+)+/", "", str(error))[:300]


def run_label(
    label: str, chosen: list[Target], upstream_port: int, scratch: Path, args: argparse.Namespace
) -> list[Row]:
    """Everything of one label; targets that cannot do it as rows that say why."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        every: list[Running] = []
        for target in chosen:
            head: Row = {"label": label, "target": target.name}
            if label in target.cannot:
                rows.append({**head, "unavailable": target.cannot[label]})
                continue
            try:
                every.append(start(stack, target, label, upstream_port, scratch))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                rows.append({**head, "unavailable": said(error)})
        for row in rows:
            print(f"{label}: {row['target']}: {row['unavailable']}", file=sys.stderr)
        for concurrency, size in CELLS[:3] if args.quick else CELLS:
            cell = Cell(every, {"label": label, "concurrency": concurrency, "bytes": size})
            for number in range(args.rounds):
                cell.round(number, args.seconds)
            found = cell.rows()
            rows += found
            print("\n".join(table(found).splitlines()[2:]), file=sys.stderr)
            args.keep(rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/load/results.json"))
    parser.add_argument("--peers", type=Path, default=None, help="folder made by peers.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round of one target")
    parser.add_argument(
        "--only", action="append", metavar="TARGET", help="measure this one; repeatable"
    )
    parser.add_argument("--label", action="append", choices=LABELS, help="likewise of the labels")
    parser.add_argument("--quick", action="store_true", help="without 256 clients")
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    args = parser.parse_args()
    end_on_sigterm()
    chosen = [*targets(args.peers), *proxies.targets()]
    if args.only is not None:
        names = [target.name for target in chosen]
        unknown = [name for name in args.only if name not in names]
        if unknown:
            parser.error(f"no target is called {unknown[0]!r}; there are {', '.join(names)}")
        chosen = [target for target in chosen if target.name in args.only]
    if args.before is not None:
        # the path of this checkout comes before PYTHONPATH unless it is safe
        env = {"PYTHONPATH": str(args.before.resolve()), "PYTHONSAFEPATH": "1"}
        now = next(target for target in chosen if target.name == "armory")
        chosen.insert(chosen.index(now), replace(now, name="armory before", env=env))
    measured: list[Row] = []
    head = {
        "versions": {**versions(), **peers.versions(args.peers), **proxies.versions()},
        "machine": machine(),
        "rounds": args.rounds,
        "seconds": args.seconds,
    }

    def keep(rows: list[Row]) -> None:
        found = {**head, "took_s": round(time.monotonic() - begun), "rows": [*measured, *rows]}
        args.out.write_text(json.dumps(found, indent=1) + "\n")

    args.keep = keep
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scratch, port = Path(folder), free_port()
        with process([*UPSTREAM, str(port)], 1, port, scratch / "upstream.log"):
            for label in args.label or LABELS:
                measured += run_label(label, chosen, port, scratch, args)
    print(table(measured))


if __name__ == "__main__":
    main()
