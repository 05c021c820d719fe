"""The readings of this folder as a table, a plot and text for the documentation.

Owns: Markdown and SVG. Measures nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BEGIN, END = "<!-- scale:begin (generated) -->", "<!-- scale:end -->"
NOTE = (
    "A query: embedding included, filtered to every second tool, nothing cached. CPU milliseconds "
    "are what it costs; wall milliseconds depend on what else the machine does (load: running "
    "processes at the time)."
)


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Query time (median, CPU milliseconds) over tools, both axes logarithmic, as an SVG."""
    width, height, left, bottom = 640, 360, 60, 40
    colours = {"exact": "#1f6feb", "faiss": "#d1242f", "qdrant": "#1a7f37"}
    top = max(row["query_cpu_ms"]["p50"] for row in rows) * 1.5

    def at(tools: float, ms: float) -> tuple[float, float]:
        x = left + (np.log10(tools) - 3) / 2 * (width - left - 90)
        y = height - bottom - np.log10(max(ms, 1)) / np.log10(top) * (height - bottom - 20)
        return round(float(x), 1), round(float(y), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for tools in (1_000, 10_000, 100_000):
        x, y = at(tools, 1)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{tools:,} tools</text>')
    for ms in (m for m in (1, 2, 5, 10, 20, 50, 100, 200, 500) if m <= top):
        x, y = at(1_000, ms)
        parts.append(f'<line x1="{left}" x2="{width - 90}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{ms} ms</text>')
    for name, colour in colours.items():
        points = [at(r["tools"], r["query_cpu_ms"]["p50"]) for r in rows if r["index"] == name]
        if points:
            line = " ".join(f"{x},{y}" for x, y in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}"/>')
            x, y = points[-1]
            parts.append(f'<text x="{x + 6}" y="{y + 4}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = [
        "| index | tools | build, CPU s | one tool removed, CPU s | memory, MB "
        "| query p50 / p95, ms CPU | wall ms | load |",
        "|---" * 8 + "|",
    ]
    for row in rows:
        cpu, wall = row["query_cpu_ms"], row["query_ms"]
        lines.append(
            f"| {row['index']} | {row['tools']:,} | {row['build_cpu_s']:.1f} "
            f"| {row.get('one_tool_removed_cpu_s', row['one_tool_removed_s']):.2f} "
            f"| {row['resident_mb']} "
            f"| {cpu['p50']:.1f} / {cpu['p95']:.1f} | {wall['p50']:.1f} / {wall['p95']:.1f} "
            f"| {row['load']:.0f} |"
        )
    return "\n".join(lines)


def write_docs(path: Path, rows: Sequence[dict[str, Any]], image: Path | None) -> None:
    """Put table and plot between the markers of a Markdown file."""
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    picture = (
        f"\n\n![Query time over tools]({os.path.relpath(image, path.parent)})" if image else ""
    )
    parts = [f"{table(rows)}{picture}", NOTE, *_more()]
    body = "\n" + "\n\n".join(parts) + "\n"
    path.write_text(head + BEGIN + body + END + tail, encoding="utf-8")


def _more() -> list[str]:
    """What the other legs found, where their files are."""
    found: list[str] = []
    for name, told in (("query", query_text), ("query_large", query_text), ("busy", busy_table)):
        path = HERE / f"{name}.json"
        if path.is_file():
            found.append(told(json.loads(path.read_text(encoding="utf-8"))))
    return found


def query_text(found: dict[str, Any]) -> str:
    """One query on one core, in a paragraph."""
    stages = ", ".join(
        f"{name} {spent['mean']:.1f}" for name, spent in found["stages_cpu_ms"].items()
    )
    cpu, wall = found["cpu_ms"], found["wall_ms"]
    held = f" The process takes {found['memory_mb']} MB." if "memory_mb" in found else ""
    return (
        f"{found['queries']} different queries of at most 64 tokens against {found['tools']:,} "
        f"tools on one core, from the text to the list: {cpu['p50']:.1f} ms of CPU in the median, "
        f"{cpu['p95']:.1f} at the 95th percentile (wall {wall['p50']:.1f} and {wall['p95']:.1f}, "
        f"load {found['load']:.0f}). A run of each stage takes, in CPU ms: {stages}; a query "
        f"is embedded in one run, its clauses included.{held}"
    )


def busy_table(found: dict[str, Any]) -> str:
    """Queries while tools are indexed, as a Markdown table."""
    lines = [
        f"Ten queries a second while {found['tools']:,} tools are indexed in the same process "
        f"(load {found['load']:.0f}):",
        "",
        "| stretch | seconds | search p50 / p99 / max, ms | event loop late p99 / max, ms "
        "| answered by words | wanted tools listed |",
        "|---" * 6 + "|",
    ]
    names = {
        "first": "first start", "joining": "joining known ones",
        "before_words": "reading words", "while_indexing": "embedding", "after": "afterwards",
    }  # fmt: skip
    for scene in ("first", "joining"):
        for stretch, felt in found.get(scene, {}).items():
            if not isinstance(felt, dict) or not felt["search_ms"]:
                continue
            took, late = felt["search_ms"], felt["loop_late_ms"]
            lines.append(
                f"| {names[scene]}, {names[stretch]} | {felt['seconds']:.0f} "
                f"| {took['p50']:.0f} / {took['p99']:.0f} / {took['max']:.0f} "
                f"| {late['p99']:.0f} / {late['max']:.0f} "
                f"| {felt['degraded']} of {felt['queries']} | {felt['wanted_listed']:.0%} |"
            )
    return "\n".join(lines)
