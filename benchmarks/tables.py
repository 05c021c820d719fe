"""Fill the tables of README and docs from the benchmarks' JSON.

Owns: the regions between `<!-- benchmarks: NAME -->` and `<!-- /benchmarks -->`. Run it after a
benchmark: `python -m benchmarks.tables`; with `--check` it only says whether a region is stale.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.load.run import table as load_table
from benchmarks.quality import summary

ROOT = Path(__file__).resolve().parents[1]
FILES = ("README.md", "docs/performance.md")
REGION = re.compile(r"(<!-- benchmarks: ([a-z-]+) -->\n).*?(<!-- /benchmarks -->)", re.DOTALL)


def _read(name: str) -> Any:
    path = ROOT / "benchmarks" / name
    return json.loads(path.read_text()) if path.exists() else None


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def load() -> str | None:
    """Ratios to the bare proxy, small results."""
    found = _read("load/results.json")
    if found is None:
        return None
    rows = [
        [
            f"{row['target']}, {row['label']}, c={row['concurrency']}",
            f"{row['rps']:.0f}",
            f"{row['p50_ms']:.2f}",
            f"{row['cpu_us']:.0f}",
            f"{row['cpu_ratio']:.2f}",
            f"{row['p50_ratio']:.2f}",
        ]
        for row in found["rows"]
        if row["bytes"] == 64 and row["concurrency"] in (1, 32) and "cpu_ratio" in row
    ]
    head = ["target", "req/s", "p50 ms", "CPU µs/req", "CPU ratio", "p50 ratio"]
    return _markdown(head, rows)


def load_all() -> str | None:
    """Every row of the load benchmark."""
    found = _read("load/results.json")
    return None if found is None else load_table(found["rows"])


def lists() -> str | None:
    """Filtered lists by catalogue size."""
    found = _read("load/lists.json")
    if found is None:
        return None
    rows = [
        [
            f"{row['tools']:,} tools",
            f"{row['p50_ms']:.1f}",
            f"{row['p95_ms']:.1f}",
            f"{row['cpu_ms']:.1f}",
            f"{row['returned_mean']:.1f}",
            f"{row['first_start_s']:.0f}",
            f"{row['restart_s']:.1f}",
            f"{row['rss_mb']:.0f}",
        ]
        for row in found["rows"]
    ]
    head = ["catalogue", "p50 ms", "p95 ms", "CPU ms", "tools listed", "first start s"]
    return _markdown([*head, "restart s", "MB"], rows)


def soak() -> str | None:
    """What was injected, and what came of it."""
    found = _read("soak/results.json")
    if found is None:
        return None
    kinds = ("value", "tool error", "rpc error", "client left")
    rows = [
        [what, *(f"{outcomes.get(kind, 0):,}" for kind in kinds)]
        for what, outcomes in found["outcomes"].items()
    ]
    first, last = found["samples"][1], found["samples"][-1]
    words = (
        f"{found['calls']:,} calls in {found['seconds']:,.0f} s; answered wrongly, twice or not at "
        f"all: {len(found['wrong'])}. Memory {first['rss_mb']:.0f} MB after {first['calls']:,} "
        f"calls, {last['rss_mb']:.0f} MB after {last['calls']:,}; descriptors {first['fds']} and "
        f"{last['fds']}.\n\n"
    )
    return words + _markdown(["upstream: what it did", *kinds], rows)


def disturbance() -> str | None:
    """Bad neighbours, SIGHUP, SIGTERM."""
    found = _read("soak/disturbance.json")
    if found is None:
        return None
    near, hup, term = found["neighbours"], found["sighup"], found["sigterm"]
    rows = [
        [
            "p99 of seven good upstreams beside a dead, a hanging and a crashing one",
            f"{near['p99_ratio']:.2f} times their own",
        ],
        [
            f"calls that failed during {hup['signals']} reloads",
            f"{hup['failed']} of {hup['calls']:,}",
        ],
        [
            "calls in flight at SIGTERM that were answered",
            f"{term['answered']} of {term['in_flight']}",
        ],
    ]
    return _markdown(["disturbance", "outcome"], rows)


def quality() -> str | None:
    """Recall@5 by set and ranker."""
    found = _read("quality/results.json")
    return None if found is None else summary.quality(found)


TABLES: dict[str, Callable[[], str | None]] = {
    "load": load,
    "load-all": load_all,
    "lists": lists,
    "soak": soak,
    "disturbance": disturbance,
    "quality": quality,
}


def filled(text: str) -> str:
    """The text with every region made anew; regions without figures stay as they are."""

    def region(match: re.Match[str]) -> str:
        table = TABLES[match[2]]()
        return match[0] if table is None else f"{match[1]}\n{table}\n\n{match[3]}"

    return REGION.sub(region, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for name in FILES:
        path = ROOT / name
        old = path.read_text()
        new = filled(old)
        if new != old:
            stale.append(name)
            if not args.check:
                path.write_text(new)
    print("stale:" if args.check else "written:", ", ".join(stale) or "none")
    if args.check and stale:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
