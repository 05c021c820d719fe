"""Where the CPU time of one call goes, layer by layer, for the bare proxy and for Armory.

Owns: a sampler that the process under measurement runs under, and the sorting of its stacks. The
timer counts CPU time (`ITIMER_PROF`), so that waiting is not sampled and other programs on the
machine do not show. Linux only.

    python -m benchmarks.load.layers [--label LABEL] [--bytes N] [--concurrency N]
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import re
import runpy
import signal
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType

from benchmarks.load.processes import end_on_sigterm, free_port, process, wake
from benchmarks.load.run import UPSTREAM, drive, start
from benchmarks.load.targets import FLOOR, JSON, LABELS, targets

_INTERVAL_S = 0.001
_RUN_S = 10.0
_SHOWN = 0.005
# A sample belongs to the first rule that its innermost frames fit; from inside out, so that what
# asyncio does for a layer counts as the layer's.
_LAYERS = (
    ("statistics", r"tell_called|armory/(observability|accounts|feedback)/|EventFanOut\.called"),
    ("stored statistics, in the background", r"sqlalchemy|aiosqlite|armory/storage/"),
    ("answer: head, write", r"wire/answers|LazyAnswer\.finish|finish_response"),
    ("upstream: pool, breaker, queue, session", r"upstreams/(pool|upstream|sessions|gate|breaker)"),
    ("upstream: request, HTTP, answer", r"armory/upstreams/"),
    ("envelope, session, the era's ladder", r"wire/(eras|jsonrpc|modern|legacy|session|streams)"),
    ("envelope, session, the era's ladder", r"wire/methods|mcp/shared"),
    ("name, policy, links, the answer's era", r"armory/(gateway|security/(policy|rules)|domain)/"),
    ("name, policy, links, the answer's era", r"wire/(dispatch|interaction|parked)"),
    ("admission, authentication, body", r"armory/(wire|web|security|runtime)/"),
    ("aiohttp's client", r"aiohttp/(client|connector)"),
    ("the proxy's handler", r"bare_proxy"),
    ("aiohttp's server", r"aiohttp/web"),
)
_RULES = tuple((name, re.compile(pattern)) for name, pattern in _LAYERS)
_LOOP = "event loop"
_RUNS = re.compile(r"\w+\.run_forever|Runner\.run\b")
"""The frame that an event loop runs in: asyncio's own, or what started uvloop, which has none."""


def sample(out: Path, module: str, arguments: list[str]) -> None:
    """Run a module; from SIGUSR1 on, count the main thread's stacks; write them at the end."""
    stacks: Counter[str] = Counter()

    def take(_: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None:
            code = frame.f_code
            names.append(f"{code.co_filename}:{code.co_qualname}")
            frame = frame.f_back
        stacks[";".join(names)] += 1

    def begin(_: int, __: FrameType | None) -> None:
        signal.signal(signal.SIGPROF, take)
        signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)

    def write() -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        out.write_text("".join(f"{count} {stack}\n" for stack, count in stacks.items()))

    signal.signal(signal.SIGUSR1, begin)
    atexit.register(write)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def layer(stack: str) -> str:
    """The layer of one stack, innermost frame first."""
    for frame in stack.split(";"):
        for name, pattern in _RULES:
            if pattern.search(frame):
                return name
    return _LOOP


def shares(text: str) -> dict[str, float]:
    """Share of each layer in [0, 1], the largest first; of what the event loop runs."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        count, _, stack = line.partition(" ")
        inside, *loop = _RUNS.split(stack, maxsplit=1)
        if loop:
            found[layer(inside)] += int(count)
    total = sum(found.values()) or 1
    print(f"{total:,} samples", file=sys.stderr)
    return {name: count / total for name, count in found.most_common()}


def measure(
    name: str, label: str, size: int, concurrency: int, rounds: int, port: int, scratch: Path
) -> tuple[dict[str, float], float]:
    """(share of each layer, CPU µs a call) of one target."""
    target = next(t for t in targets(None) if t.name == name)
    out = scratch / f"{name}.stacks"
    python, flag, module, *rest = target.argv
    sampled = (python, flag, "benchmarks.load.layers", "--sample", str(out), module, *rest)
    with contextlib.ExitStack() as stack:
        running = start(stack, replace(target, argv=sampled), label, port, scratch)
        wake(running.pid)
        options = running.options(label, concurrency, size)
        drive(running.url, **options, seconds=1.0)
        os.kill(running.pid, signal.SIGUSR1)
        runs = [
            drive(running.url, **options, seconds=_RUN_S, pid=running.pid) for _ in range(rounds)
        ]
    return shares(out.read_text()), statistics.median(run["cpu_us"] for run in runs)


def table(label: str, found: dict[str, tuple[dict[str, float], float]]) -> str:
    """Markdown: one line a layer."""
    lines = [f"| {label} | share | µs |", "|---|--:|--:|"]
    for name, (layers, cpu_us) in found.items():
        lines.append(f"| **{name}** | **100 %** | **{cpu_us:.0f}** |")
        lines += [
            f"| {layer} | {share:.0%} | {share * cpu_us:.0f} |"
            for layer, share in layers.items()
            if share >= _SHOWN
        ]
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--sample"]:
        sample(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label", choices=LABELS[:3], default=JSON)
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=4, help="of ten seconds")
    args = parser.parse_args()
    end_on_sigterm()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with process([*UPSTREAM, str(port)], 1, port, scratch / "upstream.log"):
            found = {
                name: measure(
                    name, args.label, args.bytes, args.concurrency, args.rounds, port, scratch
                )
                for name in (FLOOR, "armory")
            }
    print(table(args.label, found))


if __name__ == "__main__":
    main()
