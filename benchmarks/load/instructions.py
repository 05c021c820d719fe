"""Instructions of a call, counted by Valgrind: a comparison that no busy machine disturbs.

    python -m benchmarks.load.instructions [--before CHECKOUT] [--label LABEL] [--out FILE]

Owns: the gateway of this checkout, that of another one and the bare proxy under Callgrind, the
load driver in front of each, and instructions per call. Two runs of different length are counted
and the shorter one is taken from the longer, so that connecting falls out; what the process does
by itself in the same time is taken off as well. Time in the kernel is not seen: `run.py` has CPU
time. Linux only; needs `valgrind` on the PATH.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.load.processes import (
    ROOT,
    end_on_sigterm,
    free_port,
    machine,
    process,
    versions,
)
from benchmarks.load.run import LARGE, SMALL, UPSTREAM, Row, drive, laid_out
from benchmarks.load.targets import FLOOR, LABELS, LEGACY, Target, targets

# (clients at once, bytes of the result, calls of the shorter run, calls of the longer one)
CELLS = ((1, SMALL, 40, 240), (1, LARGE, 5, 65), (32, SMALL, 128, 448))
_VALGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--log-file={dir}/valgrind.log")
# What a gateway does by itself is paid by the second, and a second under Valgrind is a long time:
# the look for changes in the database waits for ever.
UNTIMED = """\
from armory.cli.main import main
from armory.storage.changes import ChangeFeed

ChangeFeed.__init__.__kwdefaults__.update(poll_s=1e9, lease_s=1e9)
main()
"""
_IDLE_S = 5.0
_TRIES = 20


@dataclass(frozen=True)
class Counted:
    """A target that runs under Callgrind.

    Attributes:
        name: in the table.
        target: what was started.
        url: where it answers.
        pid: of its process.
        folder: where its counts are written.
    """

    name: str
    target: Target
    url: str
    pid: int
    folder: Path

    def count(self, **options: Any) -> tuple[int, float]:
        """Instructions and seconds while the driver runs; without options, while nothing does."""
        self._say("zero")
        begun = time.monotonic()
        if options:
            drive(self.url, **options, warm=0, seconds=300)
        else:
            time.sleep(_IDLE_S)
        took = time.monotonic() - begun
        known = set(self.folder.glob("callgrind.out.*"))
        self._say("dump")
        (written,) = set(self.folder.glob("callgrind.out.*")) - known
        found = re.findall(r"^(?:summary|totals): (\d+)", written.read_text(), re.MULTILINE)
        written.unlink()
        return int(found[-1]), took

    def idle(self) -> float:
        """Instructions a second while nobody calls, once what the start left to do is done.

        Raises:
            RuntimeError: it never comes to rest.
        """
        last = float("inf")
        for _ in range(_TRIES):
            instructions, took = self.count()
            rate = instructions / took
            if rate > last * 0.8:
                return rate
            last = rate
        raise RuntimeError(f"{self.name} is still busy with {last:.0f} instructions a second")

    def _say(self, *command: str) -> None:
        subprocess.run(
            ["vgdb", f"--pid={self.pid}", *command], check=True, capture_output=True, timeout=120
        )

    def begin(self) -> None:
        """Count from now on."""
        self._say("instrumentation", "on")


@contextlib.contextmanager
def counted(
    name: str, target: Target, label: str, upstream_port: int, folder: Path, code: Path
) -> Generator[Counted]:
    """`target` of `code` under Callgrind, warm."""
    port, values, command = laid_out(target, label, upstream_port, folder)
    written = f"--callgrind-out-file={folder}/callgrind.out.%p"
    argv = [part.format(**values) for part in (*_VALGRIND, written, *command)]
    if "armory.cli.main" in argv:
        module = argv.index("armory.cli.main")
        argv[module - 1 : module + 1] = ["-c", UNTIMED]
    env = {"PYTHONPATH": str(code), "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"}
    with process(argv, 0, port, folder / "log", env=env, timeout_s=300) as pid:
        url = f"http://127.0.0.1:{port}" + target.path.format(**values)
        found = Counted(name, target, url, pid, folder)
        drive(url, **options_of(target, label, 1, SMALL), warm=0, requests=100, seconds=300)
        found.begin()
        yield found


def options_of(target: Target, label: str, at_once: int, size: int) -> dict[str, Any]:
    """The driver's."""
    era = "legacy" if label == LEGACY else "modern"
    return {"era": era, "name": target.tool, "bytes": size, "concurrency": at_once}


def measure(counted_: Counted, label: str) -> list[Row]:
    """Instructions per call in every cell."""
    rows: list[Row] = []
    idle = counted_.idle()
    for at_once, size, few, many in CELLS:
        options = options_of(counted_.target, label, at_once, size)
        counted_.count(**options, requests=few)  # what is done once only
        short, short_s = counted_.count(**options, requests=few)
        long, long_s = counted_.count(**options, requests=many)
        calls = long - short - idle * (long_s - short_s)
        row = {"label": label, "concurrency": at_once, "bytes": size, "target": counted_.name}
        row["idle_per_s"] = round(idle)
        rows.append({**row, "instructions": round(calls / (many - few))})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def table(rows: list[Row]) -> str:
    """Markdown: thousands of instructions of a call, and how many times the bare proxy's."""
    names = list(dict.fromkeys(row["target"] for row in rows))
    cells: dict[tuple[str, int, int], dict[str, int]] = {}
    for row in rows:
        key = (row["label"], row["concurrency"], row["bytes"])
        cells.setdefault(key, {})[row["target"]] = row["instructions"]
    lines = [
        "| scenario | " + " | ".join(names) + " |",
        "|---|" + "--:|" * len(names),
    ]
    for (label, at_once, size), found in cells.items():
        scenario = f"{label}, c={at_once}, " + ("1 MiB" if size > SMALL else "small")
        floor = found.get(FLOOR)
        told = [
            f"{found[name] / 1000:.0f} k" + (f" ({found[name] / floor:.2f})" if floor else "")
            if name in found
            else "-"
            for name in names
        ]
        lines.append(f"| {scenario} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Instructions of a call, counted by Valgrind.")
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--label", action="append", choices=LABELS)
    parser.add_argument("--out", type=Path, help="write JSON there")
    args = parser.parse_args()
    end_on_sigterm()
    by_name = {target.name: target for target in targets(None)}
    # the settings that only spare log and query log are left to either checkout's defaults
    chosen = [
        (FLOOR, by_name[FLOOR], Path(ROOT)),
        ("armory", by_name["armory"], Path(ROOT)),
    ]
    if args.before is not None:
        before = replace(by_name["armory"], name="armory before")
        chosen.append((before.name, before, args.before.resolve()))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        port = free_port()
        with process([*UPSTREAM, str(port)], 1, port, Path(scratch) / "upstream.log"):
            for label in args.label or LABELS:
                for number, (name, target, code) in enumerate(chosen):
                    folder = Path(scratch) / f"{LABELS.index(label)}-{number}"
                    with counted(name, target, label, port, folder, code) as running:
                        rows += measure(running, label)
                if args.out is not None:
                    found = {"versions": versions(), "machine": machine(), "rows": rows}
                    args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
