"""The readings of `shared`, `live` and `large` as tables of the documentation.

    python -m benchmarks.scale.tables docs/scaling.md

Owns: Markdown between the markers of a file. Measures nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
BEGIN, END = "<!-- shared:begin (generated) -->", "<!-- shared:end -->"


def fleet_text(found: dict[str, Any]) -> list[str]:
    """The gateways of one collection, in a sentence."""
    rows = [row for row in found.values() if isinstance(row, dict)]
    differ = sum(row["lists_that_differ"] for row in rows)
    most = max(row["largest_score_difference"] for row in rows)
    asked = len(rows) * found["queries"]
    return [
        f"Five gateways of {found['tools']:,} tools (the same catalog twice, a half of it, other "
        f"tools, one server away and back) on one collection of a server, each beside itself alone "
        f"on `exact`: {differ:,} of {asked:,} lists differ, scores by at most {most:.3f}."
    ]


def beside_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """`exact` beside `qdrant`: medians of the restarts."""
    lines = [
        _heads(
            "tools", "index", "ready from nothing, s", "ready again, s", "one tool changed, s",
            "listing p50 / p95, ms", "its CPU p50, ms", "memory, MB",
        )
    ]  # fmt: skip
    for tools in dict.fromkeys(row["tools"] for row in rows):
        for index in ("exact", "qdrant"):
            some = [row for row in rows if (row["tools"], row["index"]) == (tools, index)]
            first = [row for row in some if row["start"] == "first"]
            again = [row for row in some if row["start"] == "again"]
            lines.append(
                _cells(
                    f"{tools:,}",
                    f"`{index}`",
                    f"{median(row['ready_s'] for row in first):.1f}",
                    f"{median(row['ready_s'] for row in again):.1f}",
                    f"{median(row['one_tool_changed_s'] for row in again):.2f}",
                    f"{median(row['listing_ms']['p50'] for row in again):.0f} / "
                    f"{median(row['listing_ms']['p95'] for row in again):.0f}",
                    f"{median(row['listing_cpu_ms']['p50'] for row in again):.0f}",
                    f"{median(row['resident_mb'] for row in again):.0f}",
                )
            )
    return lines


def large_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The index alone, at sizes that one process does not hold."""
    lines = [
        _heads(
            "tools", "vectors sent, s", "graph stands after, s", "another gateway ready after, s",
            "gateway, bytes a tool", "search p50 / p95, ms", "one tool changed, s", "server, MB",
        )
    ]  # fmt: skip
    for row in rows:
        if "search_ms" not in row:
            lines.append(
                _cells(f"{row['tools']:,} (no server)", "", "", f"{row['ready_s']:.1f}")[:-2]
                + f" | {row['gateway_bytes_a_tool']:,} | | | |"
            )
            continue
        search = row["search_ms"]
        lines.append(
            _cells(
                f"{row['tools']:,}",
                f"{row['sent_s']:.0f}",
                f"{row['graph_s']:.0f}",
                f"{row['ready_s']:.1f}",
                f"{row['gateway_bytes_a_tool']:,}",
                f"{search['p50']:.0f} / {search['p95']:.0f}",
                f"{row['one_tool_changed_s']:.2f}",
                f"{row['server_resident_mb']:,}",
            )
        )
    return lines


def live_text(found: dict[str, Any]) -> list[str]:
    """A gateway in use, while others work and Qdrant is killed."""
    lines = [_heads("meanwhile", "answers during and after", "that differ")]
    for name, row in found["others"].items():
        answers = sum(count for key, count in row.items() if key.startswith("answers"))
        differ = sum(count for key, count in row.items() if key.startswith("that_differ"))
        lines.append(_cells(name, f"{answers:,}", f"{differ:,}"))
    if away := found.get("away"):
        lines += [
            "",
            f"Killed for {away['away_s']:.0f} s under {away['rate']:.0f} searches a second: words "
            f"after {away['first_by_words_s']:.2f} s, told by `/readyz` after "
            f"{away['told_by_readyz_s']:.2f} s, the slowest answer meanwhile "
            f"{away['slowest_while_away_s']:.2f} s; by meaning "
            f"{away['first_by_meaning_after_s']:.2f} s after the return, the last one by words "
            f"{away['last_by_words_after_s']:.2f} s after it; {away['failed']} of "
            f"{away['answers']:,} failed.",
        ]
    return lines


def _heads(*names: str) -> str:
    return _cells(*names) + "\n" + "|---" * len(names) + "|"


def _cells(*values: str) -> str:
    return f"| {' | '.join(values)} |"


def body(folder: Path) -> str:
    """Everything that was measured, as Markdown."""
    parts: list[Iterable[str]] = []
    shared, large, live = (_read(folder / f"{n}.json") for n in ("shared", "large", "live"))
    if shared and shared.get("fleet"):
        parts.append(fleet_text(shared["fleet"]))
    if shared and shared["beside"]:
        parts.append(beside_table(shared["beside"]))
    if live:
        parts.append(live_text(live))
    if large:
        parts.append(large_table(large["sizes"]))
    return "\n\n".join("\n".join(part) for part in parts)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables of a shared Qdrant.")
    parser.add_argument("docs", type=Path, help="Markdown file with the markers")
    args = parser.parse_args()
    head, rest = args.docs.read_text(encoding="utf-8").split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    args.docs.write_text(f"{head}{BEGIN}\n{body(HERE)}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
