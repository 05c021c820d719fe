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
from benchmarks.load.targets import FLOOR
from benchmarks.quality import summary

ROOT = Path(__file__).resolve().parents[1]
FILES = ("README.md", "docs/performance.md", "docs/operating.md", "docs/retrieval.md")
REGION = re.compile(r"(<!-- benchmarks: ([a-z-]+) -->\n).*?(<!-- /benchmarks -->)", re.DOTALL)


def _read(name: str) -> Any:
    path = ROOT / "benchmarks" / name
    return json.loads(path.read_text()) if path.exists() else None


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def load() -> str | None:
    """Ratios to the bare proxy, small results, one line a target and number of clients."""
    found = _read("load/results.json")
    if found is None:
        return None
    small = [row for row in found["rows"] if row.get("bytes") == 64 and "cpu_ratio" in row]
    labels = list(dict.fromkeys(row["label"] for row in small))
    lines: dict[tuple[str, int], dict[str, str]] = {}
    for row in small:
        if row["target"] != FLOOR and row["concurrency"] in (1, 32):
            cells = lines.setdefault((row["target"], row["concurrency"]), {})
            cells[row["label"]] = f"{row['cpu_ratio']:.2f} / {row['p50_ratio']:.2f}"
    rows = [
        [target, str(clients), *(cells.get(label, "-") for label in labels)]
        for (target, clients), cells in sorted(lines.items(), key=lambda line: line[0][1])
    ]
    return _markdown(["CPU per call / p50, the bare proxy's = 1", "clients", *labels], rows)


def load_all() -> str | None:
    """Every row of the load benchmark, and why some are missing."""
    found = _read("load/results.json")
    if found is None:
        return None
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in found["rows"]:
        if "unavailable" in row:
            what = row["label"]
            if "concurrency" in row:
                size = "1 MiB" if row["bytes"] > 64 else "small"
                what += f", c={row['concurrency']}, {size}"
            reasons.setdefault((row["target"], row["unavailable"]), []).append(what)
    missing = [
        f"- {name}: {'; '.join(where)}: {why[:280]}" for (name, why), where in reasons.items()
    ]
    listed = "\n\nWithout figures:\n\n" + "\n".join(missing) if missing else ""
    return load_table(found["rows"]) + listed


def loops() -> str | None:
    """Armory on either event loop, and as it was, beside the bare proxy and nginx."""
    found = _read("load/loops.json")
    return None if found is None else load_table(found["rows"])


def lists() -> str | None:
    """Filtered lists by catalog size."""
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
            "-" if row["first_start_s"] is None else f"{row['first_start_s']:.0f}",
            f"{row['restart_s']:.1f}",
            f"{row['rss_mb']:.0f}",
        ]
        for row in found["rows"]
    ]
    head = ["catalog", "p50 ms", "p95 ms", "CPU ms", "tools listed", "first start s"]
    moved = [row for row in found["rows"] if isinstance(row["vectors"], dict)]
    words = "".join(
        f" The vectors of {row['vectors']['real_tools']:,} of the {row['tools']:,} tools are the "
        f"model's, the other {row['vectors']['moved_tools']:,} are such vectors moved by a little "
        "noise."
        for row in moved
        if row["vectors"]["moved_tools"]
    )
    return _markdown([*head, "restart s", "MB"], rows) + (f"\n\n{words.strip()}" if words else "")


def watched() -> str | None:
    """What traces, metrics and the audit add to a call."""
    found = _read("watched/results.json")
    if found is None:
        return None
    names = {
        "traces_1_percent": "traces and metrics",
        "traces_1_percent_no_metrics": "traces alone",
        "metrics": "metrics alone",
        "traces_all": "all traces, metrics",
        "audit_file": "audit, a file",
        "audit_database": "audit, SQLite",
    }
    rows = [
        [
            names[way],
            f"{found['off_us_a_call'][way]:.0f}",
            f"{found['adds_us_on_the_loop'][way]:.1f}",
            f"{found['adds_us_beside'][way]:.1f}",
            "{median:.3f} ({low:.3f} to {high:.3f})".format(**found["to_off"][way]),
        ]
        for way in names
        if way in found["to_off"]
    ]
    head = ["watched by", "µs of a call", "more, event loop", "more, beside it", "ratio"]
    return _markdown(head, rows)


def soak() -> str | None:
    """What stayed flat; what was injected, and what came of it."""
    found = _read("soak/results.json")
    if found is None:
        return None
    words = (
        f"{found['calls']:,} calls in {found['seconds']:,.0f} s; answered wrongly, twice or not at "
        f"all: {len(found['wrong'])}. After a warm-up of {found.get('warm_s', 60):.0f} s, medians "
        "of the first and the last quarter; `gone`: half a minute after every client has left."
    )
    names = {"rss_mb": "memory, MB", "fds": "descriptors", "tasks": "tasks"}
    names |= {"sessions": "client sessions", "children": "processes"}
    grown = [
        [text, *(f"{found['growth'][key][when]:.0f}" for when in ("first", "last", "most", "idle"))]
        for key, text in names.items()
    ]
    kinds = ("value", "tool error", "rpc error", "cancelled", "client left")
    rows = [
        [what, *(f"{outcomes.get(kind, 0):,}" for kind in kinds)]
        for what, outcomes in found["outcomes"].items()
    ]
    growth = _markdown(["of the gateway", "first quarter", "last quarter", "most", "gone"], grown)
    return "\n\n".join((words, growth, _markdown(["upstream: what it did", *kinds], rows)))


def disturbance() -> str | None:
    """Bad neighbours, SIGHUP, SIGTERM."""
    found = _read("soak/disturbance.json")
    if found is None:
        return None
    near, hup, term = found["neighbours"], found["sighup"], found["sigterm"]
    rows = [
        [
            "p99 of seven good upstreams beside a dead, a hanging and a crashing one",
            f"{near['p99_ratio']:.2f} times their own (median of {near['rounds']} rounds; "
            f"worst {near['p99_ratio_worst']:.2f})",
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


def sizing() -> str | None:
    """Memory and processor time by catalog size."""
    found = _read("sizing/results.json")
    if found is None:
        return None
    rows = [
        [
            f"{row['tools']:,} tools",
            f"{row['ready_mb']:.0f}",
            f"{row['busy_mb']:.0f}",
            f"{max(row['first_start_peak_mb'], row['peak_mb']):.0f}",
            f"{row['first_start_cpu_s']:.0f}",
            f"{row['again_start_cpu_s']:.0f}",
            f"{row['query_cpu_ms']:.0f}",
            f"{row['call_cpu_ms']:.1f}",
        ]
        for row in found["rows"]
    ]
    head = ["catalog", "ready MB", "busy MB", "most MB", "first start CPU s", "restart CPU s"]
    session = max(row["session_kib"] for row in found["rows"])
    words = (
        f"A session of an earlier client takes {session:.0f} KiB, a small stdio server in Python "
        f"{found['stdio_server_mb']:.0f} MB."
    )
    if sizes := found.get("image_mib"):
        base = sizes["base"]
        words += (
            f" The image is {sizes['armory'] - base} MiB on top of Python's own, unpacked; with "
            f"Node.js and uv it is {sizes['full'] - base} MiB."
        )
    return _markdown([*head, "listing CPU ms", "call CPU ms"], rows) + "\n\n" + words


def light() -> str | None:
    """Memory of an idle gateway, processor time of commands."""
    found = _read("light.json")
    if found is None:
        return None
    shown = found["demonstration"]
    names = {"first_start": "after its first start", "again_start": "after a restart"}
    names |= {"after_a_query": "after a restart and a query"}
    idle = [(f"demonstration, {text}", shown[key]) for key, text in names.items()]
    if many := found.get("many"):
        keys = list(names)[:2]
        idle += [(f"{many['tools']:,} tools, {names[key]}", many[key]) for key in keys]
    figures = ("rss_mb", "own_mb", "files_mb", "peak_mb")
    memory = [[text, *(f"{of[key]:.0f}" for key in figures)] for text, of in idle]
    spent = [[f"`{name}`", f"{seconds:.2f}"] for name, seconds in shown["cpu_s"].items()]
    head = ["idle", "resident MB", "its own", "of files", "most MB"]
    return _markdown(head, memory) + "\n\n" + _markdown(["command", "CPU s"], spent)


def quality() -> str | None:
    """Recall@5 by set and ranker."""
    found = _read("quality/results.json")
    return None if found is None else summary.quality(found)


def quality_below() -> str | None:
    """Where a plain ranker finds more than the default one."""
    found = _read("quality/results.json")
    return None if found is None else summary.quality_below(found)


def catalog_sizes() -> str | None:
    """Recall@5 over catalog size."""
    found = _read("../training/relevance/sizes.json")
    return None if found is None else summary.sizes(found)


def livemcp() -> str | None:
    """LiveMCPBench at tool level."""
    found = _read("quality/livemcp.json")
    return None if found is None else summary.livemcp(found)


def tokens() -> str | None:
    """Tokens of whole tasks in four ways."""
    found = _read("quality/tokens.json")
    return None if found is None else summary.tokens(found)


def rrb() -> str | None:
    """ToolSense's RRB by tier."""
    found = _read("quality/rrb.json")
    return None if found is None else summary.rrb(found)


TABLES: dict[str, Callable[[], str | None]] = {
    "load": load,
    "load-all": load_all,
    "load-loops": loops,
    "lists": lists,
    "soak": soak,
    "disturbance": disturbance,
    "sizing": sizing,
    "light": light,
    "watched": watched,
    "quality": quality,
    "quality-below": quality_below,
    "catalog-sizes": catalog_sizes,
    "livemcp": livemcp,
    "tokens": tokens,
    "rrb": rrb,
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
