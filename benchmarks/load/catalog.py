"""What the list benchmark lists, and what it asks for.

Owns: the catalogs (real tools from DATA/toucan-pool, repeated under other names where there are
too few) and the queries (DATA/*/queries.jsonl, each asked once, so that no cache answers).
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

SERVER = "pool"
SETS = ("livemcpbench", "mcpproxy-golden", "sealtools", "toolbench-stable")


def catalog(data: Path, count: int) -> list[dict[str, Any]]:
    """`count` tools with distinct names."""
    lines = (data / "toucan-pool" / "tools.jsonl").read_text().splitlines()
    real = [json.loads(line) for line in lines]
    tools: list[dict[str, Any]] = []
    for copy in itertools.count():
        for tool in real:
            if len(tools) == count:
                return tools
            schema = tool.get("inputSchema")
            suffix = f"_{copy}" if copy else ""
            description = str(tool.get("description") or "")
            tools.append(
                {
                    "name": f"{len(tools)}_{tool['name']}"[:40] + suffix,
                    "description": description + (f" (edition {copy})" if copy else ""),
                    "inputSchema": schema if isinstance(schema, dict) else {"type": "object"},
                }
            )
    raise AssertionError


def queries(data: Path, count: int) -> list[str]:
    """Distinct queries of at most about 64 tokens."""
    texts = (
        json.loads(line)["query"]
        for name in SETS
        for line in (data / name / "queries.jsonl").read_text().splitlines()
    )
    return list(itertools.islice(dict.fromkeys(t for t in texts if len(t) < 250), count))
