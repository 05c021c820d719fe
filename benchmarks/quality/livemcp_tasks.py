"""All labelled tasks of LiveMCPBench at tool level, out of a checkout of its repository.

Owns: reading the annotations and the catalog, and which tools a task wants. Nothing of either is
kept. Never imports retrieval.

An annotation names the tools that a human used, without their servers: every tool of that name is
wanted, as in the published figures. A task of which the catalog has no tool is left out.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from armory.evaluation.dataset import Dataset, load_dataset

TASKS_FILE = "annotated_data/all_annotations.json"
TOOLS_FILE = "tools/LiveMCPTool/tools.json"

Row = dict[str, Any]


def read_checkout(folder: Path) -> tuple[Dataset, dict[str, Any]]:
    """The catalog with the tasks, and what became of the annotations' names.

    Raises:
        SystemExit: the folder is no checkout; says which file was expected.
    """
    try:
        servers, tasks = (
            json.loads((folder / name).read_text(encoding="utf-8"))
            for name in (TOOLS_FILE, TASKS_FILE)
        )
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"{error}\nexpected: a checkout of github.com/icip-cas/LiveMCPBench with "
            f"{TOOLS_FILE} and {TASKS_FILE}"
        ) from error
    tools = list(tools_of(servers))
    queries, told = labelled(tasks, tools)
    with tempfile.TemporaryDirectory() as made:
        for name, rows in (("tools", tools), ("queries", queries)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (Path(made) / f"{name}.jsonl").write_text(text, encoding="utf-8")
        return load_dataset(made), told


def tools_of(servers: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows of `tools.jsonl`."""
    for server in servers:
        for key, block in server["tools"].items():
            for tool in block.get("tools") or ():
                kept = {name: tool.get(name) for name in ("name", "description", "inputSchema")}
                yield (
                    {"id": f"{key}::{tool['name']}", "server": key}
                    | kept
                    | {
                        "server_title": server["name"],
                        "category": server.get("category"),
                    }
                )


def labelled(tasks: Sequence[Mapping[str, Any]], tools: Sequence[Row]) -> tuple[list[Row], Row]:
    """The rows of `queries.jsonl`, and counts of the names that fit none or several tools."""
    named: dict[str, list[str]] = defaultdict(list)
    for tool in tools:
        named[tool["name"]].append(tool["id"])
    queries: list[Row] = []
    unknown: list[str] = []
    several: list[str] = []
    for task in tasks:
        said = names_in(task["Annotator Metadata"]["Tools"])
        unknown += [name for name in said if name not in named]
        several += [name for name in said if len(named.get(name, ())) > 1]
        wanted = dict.fromkeys(tool for name in said for tool in named.get(name, ()))
        if wanted:
            row = {"id": task["task_id"], "query": task["Question"], "relevant": list(wanted)}
            queries.append(row)
    told = {
        "annotated": len(tasks),
        "without a tool of the catalog": len(tasks) - len(queries),
        "unknown names": sorted(unknown),
        "names on several servers": {name: several.count(name) for name in sorted({*several})},
        "tasks that want more than five": sum(len(row["relevant"]) > 5 for row in queries),
        "best recall@5": round(
            100 * sum(min(5 / len(row["relevant"]), 1.0) for row in queries) / len(queries), 1
        )
        if queries
        else 0.0,
    }
    return queries, told


def names_in(annotation: str) -> list[str]:
    """`1. read_file` and so on, a line each, without the numbers."""
    lines = (re.sub(r"^\s*\d+[.)]\s*", "", line).strip() for line in re.split(r"[\n;]", annotation))
    return [line for line in lines if line]
