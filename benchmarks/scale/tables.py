"""The readings of `shared`, `change`, `live`, `large` and `sparse` as tables of the documentation.

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
_CPU = ("sent_cpu_s", "server_cpu_s")
MARKS = ("shared", "change", "sparse")
_PHASES = {"catalog": "catalog", "index": "made searchable", "view": "view"}


def fleet_text(found: dict[str, Any]) -> list[str]:
    """The gateways of one collection, in a sentence."""
    rows = [row for name, row in found.items() if isinstance(row, dict) and name != "made"]
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


def rankers_table(found: dict[str, Any]) -> list[str]:
    """Every ranker's answers on `qdrant` beside those on `exact`."""
    lines = [_heads("tools", "ranker", "lists that differ", "largest difference of a score")]
    for size in found["sizes"]:
        for ranker, row in size["rankers"].items():
            lines.append(
                _cells(
                    f"{size['tools']:,}",
                    f"`{ranker}`",
                    f"{row['lists_that_differ']} of {size['queries']}",
                    f"{row['largest_score_difference']:.3f}",
                )
            )
    return lines


def change_table(runs: Sequence[dict[str, Any]]) -> list[str]:
    """One tool of many changes: medians over the processes."""
    heads = (*_PHASES.values(), "together", "elapsed", "elapsed at most")
    lines = [_heads("index", "a tool is", *heads)]
    for index in dict.fromkeys(run["index"] for run in runs):
        for kind in ("changed", "added", "removed"):
            rows = [run[kind] for run in runs if run["index"] == index]
            cells = [_ms(row[name]["cpu_ms"] for row in rows) for name in _PHASES]
            total = [row["until_searchable"] for row in rows]
            cells += [_ms(t["cpu_ms"] for t in total), _ms(t["ms"] for t in total)]
            slowest = max(row["slowest_ms"] for row in rows)
            lines.append(_cells(f"`{index}`", kind, *cells, f"{slowest:,.0f}"))
    return lines


def sparse_table(found: dict[str, Any]) -> list[str]:
    """Words on the server beside words in the gateway."""
    lines = [
        _heads(
            "what a point holds", "the collection", "ten best tools that differ",
            "in the gateway p50 / p95, ms", "on the server p50 / p95, ms",
        )
    ]  # fmt: skip
    for held, scenes in found["scenes"].items():
        for scene, row in scenes.items():
            here, there = row["in_the_gateway_ms"], row["on_the_server_ms"]
            lines.append(
                _cells(
                    held,
                    scene,
                    f"{row['lists_that_differ']} of {row['queries']}",
                    f"{here['p50']:.1f} / {here['p95']:.1f}",
                    f"{there['p50']:.1f} / {there['p95']:.1f}",
                )
            )
    lines += [
        "",
        f"{found['tools']:,} tools; in the gateway their words take "
        f"{found['words_in_the_gateway_bytes_a_tool']:,} bytes a tool.",
    ]
    return lines


def made_text(made: dict[str, Any]) -> str:
    """With what it was measured."""
    return "Measured with " + ", ".join(f"{name} {value}" for name, value in made.items()) + "."


def large_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The index alone, at sizes that one process does not hold."""
    lines = [
        _heads(
            "tools", "vectors sent, s", "in order after, s", "CPU of gateway and server, s",
            "another gateway ready after, s", "gateway, bytes a tool",
            "search of all p50 / p95, ms", "of every second server, ms", "one tool changed, s",
            "server, MB",
        )
    ]  # fmt: skip
    for row in rows:
        if "search" not in row:
            lines.append(
                _cells(f"{row['tools']:,} (no server)", "", "", "", f"{row['ready_s']:.1f}")[:-2]
                + f" | {row['gateway_bytes_a_tool']:,} | | | | |"
            )
            continue
        search, every = row["search"]["ms"], row.get("search_all", {}).get("ms")
        lines.append(
            _cells(
                f"{row['tools']:,}{', int8' if row.get('quantization') else ''}",
                f"{row['sent_s']:,.0f}",
                _graph(row),
                " + ".join(f"{row[of]:,.0f}" for of in _CPU if of in row),
                f"{row['ready_s']:.1f}",
                f"{row['gateway_bytes_a_tool']:,}",
                f"{every['p50']:.0f} / {every['p95']:.0f}" if every else "",
                f"{search['p50']:.0f} / {search['p95']:.0f}",
                f"{row['one_tool_changed_s']:.2f}",
                f"{row['server_resident_mb']:,}",
            )
        )
    return lines


def _graph(row: dict[str, Any]) -> str:
    """When the server's graph stood, or how much of it there was when that was not waited for."""
    share = row.get("indexed", row["tools"]) / (row["tools"] * row["vectors_a_tool"])
    return f"{row['graph_s']:,.0f}" if share > 0.9 else f"{100 * share:.0f} % were"


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


def _ms(values: Iterable[float]) -> str:
    return f"{median(values):.0f}"


def body(folder: Path, mark: str) -> str:
    """What was measured of one region, as Markdown."""
    parts: list[Iterable[str]] = []
    if mark == "shared":
        shared, large, live = (_read(folder / f"{n}.json") for n in ("shared", "large", "live"))
        if fleet := shared.get("fleet"):
            parts.append([*fleet_text(fleet), made_text(fleet["made"])])
        parts.append([*beside_table(shared["beside"]), "", made_text(shared["made"])])
        if rankers := shared.get("rankers"):
            parts.append([*rankers_table(rankers), "", made_text(rankers["made"])])
        parts.append([*live_text(live), "", made_text(live["made"])])
        parts.append([*large_table(large["sizes"])])
        parts += [[made_text(row["made"])] for row in large["sizes"][-1:] if "made" in row]
    else:
        found = _read(folder / f"{mark}.json")
        table = change_table(found["runs"]) if mark == "change" else sparse_table(found)
        parts += [table, [made_text(found["made"])]]
    return "\n\n".join("\n".join(part) for part in parts)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables of a shared Qdrant.")
    parser.add_argument("docs", type=Path, help="Markdown file with the markers")
    args = parser.parse_args()
    text = args.docs.read_text(encoding="utf-8")
    for mark in MARKS:
        begin, end = f"<!-- {mark}:begin (generated) -->", f"<!-- {mark}:end -->"
        head, rest = text.split(begin, 1)
        text = f"{head}{begin}\n{body(HERE, mark)}\n{end}{rest.split(end, 1)[1]}"
    args.docs.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
