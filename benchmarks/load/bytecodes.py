"""Bytecodes of a call, counted by the interpreter: which function takes how many, on any machine.

    python -m benchmarks.load.bytecodes [--before CHECKOUT] [--label LABEL] [--out FILE]

Owns: the gateway of this checkout and that of another one, traced opcode by opcode, and the load
driver in front of each. What C code does is not seen: `instructions.py` counts that, `run.py` has
CPU time. A busy machine disturbs it little: a function counts where it is called for every call, so
that most of what the gateway does by itself is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.load.instructions import UNTIMED, options_of
from benchmarks.load.processes import (
    ROOT,
    end_on_sigterm,
    free_port,
    machine,
    process,
    versions,
)
from benchmarks.load.run import SMALL, UPSTREAM, drive, laid_out
from benchmarks.load.targets import LABELS, targets

CALLS, WARM = 400, 100
TRACED = (
    """\
import collections, json, os, signal, sys

opcodes, calls = collections.Counter(), collections.Counter()

def trace(frame, event, _):
    if event == "opcode":
        opcodes[frame.f_code] += 1
    elif event == "call":
        calls[frame.f_code] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
    return trace

def begin(*_):
    sys.settrace(trace)

def end(*_):
    sys.settrace(None)
    found = [
        (code.co_filename, code.co_qualname, calls[code], count) for code, count in opcodes.items()
    ]
    with open(os.environ["COUNTED"] + ".part", "w") as file:
        json.dump(found, file)
    os.rename(os.environ["COUNTED"] + ".part", os.environ["COUNTED"])

signal.signal(signal.SIGUSR1, begin)
signal.signal(signal.SIGUSR2, end)
"""
    + UNTIMED
)
_BESIDE = ("sqlalchemy/", "aiosqlite/", "ddsketch/")
"""What takes in and writes what many calls have left, at times within few."""
_WRITTEN_WITHIN_S = 30.0
_SHOWN = 20

Counted = dict[str, tuple[float, float]]
"""By function: how often it is called, and bytecodes, both for each call."""


def counted(code: Path, label: str, upstream_port: int, folder: Path) -> Counted:
    """What a small call takes in the gateway of a checkout."""
    target = next(target for target in targets(None) if target.name == "armory")
    port, values, command = laid_out(target, label, upstream_port, folder)
    argv = [part.format(**values) for part in command]
    module = argv.index("armory.cli.main")
    argv[module - 1 : module + 1] = ["-c", TRACED]
    written = folder / "counted.json"
    env = {"PYTHONPATH": str(code), "PYTHONSAFEPATH": "1", "COUNTED": str(written)}
    with process(argv, 0, port, folder / "log", env=env) as pid:
        url = f"http://127.0.0.1:{port}" + target.path.format(**values)
        options = {**options_of(target, label, 1, SMALL), "warm": 0, "seconds": 60}
        drive(url, **options, requests=WARM)
        os.kill(pid, signal.SIGUSR1)
        drive(url, **options, requests=CALLS)
        os.kill(pid, signal.SIGUSR2)
        until = time.monotonic() + _WRITTEN_WITHIN_S
        while not written.exists():
            if time.monotonic() > until:
                raise RuntimeError("the gateway has not written what it counted")
            time.sleep(0.05)
    found: Counted = {}
    for file, name, calls, opcodes in json.loads(written.read_text()):
        place = place_of(file, name, code)
        if calls >= CALLS / 2 and not place.startswith(_BESIDE):
            before = found.get(place, (0.0, 0.0))
            found[place] = before[0] + calls / CALLS, before[1] + opcodes / CALLS
    return found


def place_of(file: str, name: str, code: Path) -> str:
    """A function: of the checkout by its name, since files move; of a package with its file."""
    if file.startswith(f"{code}/armory/"):
        return name
    return f"{file.rpartition('site-packages/')[2]}:{name}"


def table(label: str, found: dict[str, Counted]) -> str:
    """Markdown: the sums, and where most of the difference is, else most of all."""
    lines = [f"| {label} | " + " | ".join(found) + " |", "|---|" + "--:|" * len(found)]
    sums = [
        f"{sum(n for _, n in each.values()):.0f} ({sum(n for n, _ in each.values()):.0f} calls)"
        for each in found.values()
    ]
    lines.append("| all | " + " | ".join(sums) + " |")
    places = {place for each in found.values() for place in each}

    def weight(place: str) -> float:
        counts = [each.get(place, (0.0, 0.0))[1] for each in found.values()]
        return abs(counts[0] - counts[1]) if len(counts) > 1 else counts[0]

    for place in sorted(places, key=lambda place: (-weight(place), place))[:_SHOWN]:
        counts = [f"{each.get(place, (0.0, 0.0))[1]:.0f}" for each in found.values()]
        lines.append(f"| `{place}` | " + " | ".join(counts) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bytecodes of a call, counted by the interpreter.")
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--label", action="append", choices=LABELS)
    parser.add_argument("--out", type=Path, help="write JSON there")
    args = parser.parse_args()
    end_on_sigterm()
    chosen = {"armory": Path(ROOT)}
    if args.before is not None:
        chosen["armory before"] = args.before.resolve()
    every: dict[str, dict[str, Counted]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        port = free_port()
        with process([*UPSTREAM, str(port)], 1, port, Path(scratch) / "upstream.log"):
            for label in args.label or LABELS:
                found = every[label] = {}
                for name, code in chosen.items():
                    print(f"{label}, {name}", file=sys.stderr, flush=True)
                    folder = Path(scratch) / f"{label}-{name}".replace(" ", "-")
                    found[name] = counted(code, label, port, folder)
                print(table(label, found), end="\n\n", flush=True)
    if args.out is not None:
        written = {"versions": versions(), "machine": machine(), "counted": every}
        args.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
