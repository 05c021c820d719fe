"""An upstream over stdio that lists tools of a JSON Lines file and can do none of them.

    python -m benchmarks.scale.upstream TOOLS_JSONL FIRST COUNT [--suffix TEXT]

Owns: the handshake and `tools/list`. Names are `toolN`, so that two parts of the file have the
same names and other descriptions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import Any


def definitions(file: Path, first: int, count: int, suffix: str = "") -> list[dict[str, Any]]:
    """So many tools from that line on."""
    with file.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, first, first + count)]
    return [
        {
            "name": f"tool{number}",
            "description": f"{row['name']}: {row['description']}{suffix}",
            "inputSchema": row.get("inputSchema") or {"type": "object"},
        }
        for number, row in enumerate(rows)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="An upstream that lists tools of a file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--suffix", default="")
    args = parser.parse_args()
    tools = definitions(args.file, args.first, args.count, args.suffix)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "listed", "version": "1"},
                }
            case "tools/list":
                answer["result"] = {"tools": tools}
            case "ping":
                answer["result"] = {}
            case method:
                answer["error"] = {"code": -32601, "message": f"no method {method}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
