"""What TOON saves on results of real servers, call by call.

    python -m benchmarks.quality.toon.run NODE_FOLDER [--out FILE]

NODE_FOLDER holds the npm packages (see tests/protocol/real/prepare.py). Every call is made through
a gateway, as it is and with `X-Prefer-Format: toon`; both texts are counted with the gateway's own
estimate. A result that TOON would not make at least a twentieth smaller stays JSON, so its saving
is nought; so does text that is no JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

from armory.llm.tokens import estimate_tokens
from armory.testing.clients.talker import Talker
from armory.testing.processes import GatewayProcess

HERE = Path(__file__).parent
PEOPLE = [
    {"name": f"person-{n}", "entityType": "person", "observations": [f"lives in town {n % 7}"]}
    for n in range(40)
]
RELATIONS = [
    {"from": f"person-{n}", "to": f"person-{n + 1}", "relationType": "knows"} for n in range(39)
]
#: (server, tool, arguments); what creates is called once and not counted
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("memory", "create_entities", {"entities": PEOPLE}),
    ("memory", "create_relations", {"relations": RELATIONS}),
    ("memory", "read_graph", {}),
    ("memory", "search_nodes", {"query": "town 3"}),
    ("files", "directory_tree", {"path": "."}),
    ("files", "list_directory", {"path": "."}),
    ("everything", "get-structured-content", {"location": "New York"}),
    ("everything", "get-env", {}),
    ("everything", "echo", {"message": "hello"}),
    ("time", "get_current_time", {"timezone": "UTC"}),
    ("git", "git_log", {"repo_path": ".", "max_count": 20}),
    ("git", "git_status", {"repo_path": "."}),
]


def text_of(result: dict[str, Any]) -> str:
    """The texts of a result."""
    return "\n".join(block.get("text", "") for block in result.get("content", ()))


def is_json(text: str) -> bool:
    """Whether a text is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


async def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    given = parser.parse_args()
    root = Path.cwd()
    modules = given.node.resolve() / "node_modules"
    node = str(modules / "node" / "bin" / "node")

    def npm(name: str, *args: str) -> dict[str, Any]:
        script = modules / "@modelcontextprotocol" / name / "dist" / "index.js"
        return {"command": node, "args": [str(script), *args]}

    beside = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = {
            "upstreams": {
                "memory": {
                    **npm("server-memory"), "env": {"MEMORY_FILE_PATH": f"{folder}/memory.json"}
                },
                "files": npm("server-filesystem", str(root / "armory")),
                "everything": npm("server-everything", "stdio"),
                "time": {"command": str(beside / "mcp-server-time")},
                "git": {"command": str(beside / "mcp-server-git")},
            },
            "tool_rag": {"enabled": False},
        }  # fmt: skip
        running = await asyncio.to_thread(GatewayProcess, config, folder)
        try:
            rows = await measure(f"{running.url}/mcp", root)
        finally:
            await asyncio.to_thread(running.close)
    servers: dict[str, Any] = {}
    for row in rows:
        entry = servers.setdefault(row["server"], {"json": 0, "toon": 0, "calls": 0, "as_toon": 0})
        entry["json"] += row["json"]
        entry["toon"] += row["toon"]
        entry["calls"] += 1
        entry["as_toon"] += row["as_toon"]
    for entry in servers.values():
        entry["saved_share"] = round(1 - entry["toon"] / entry["json"], 4) if entry["json"] else 0
    told = {"servers": servers, "calls": rows}
    given.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(servers, indent=2))


async def measure(url: str, root: Path) -> list[dict[str, Any]]:
    """Every call, as it is and as TOON."""
    rows: list[dict[str, Any]] = []
    async with (
        aiohttp.ClientSession() as plain,
        aiohttp.ClientSession(headers={"X-Prefer-Format": "toon"}) as compact,
    ):
        ways = (Talker(plain, url, "modern"), Talker(compact, url, "modern"))
        for server, tool, arguments in CALLS:
            filled = {key: (str(root / "armory") if key == "path" else value)
                      for key, value in arguments.items()}  # fmt: skip
            if "repo_path" in filled:
                filled["repo_path"] = str(root)
            call = {"name": f"{server}__{tool}", "arguments": filled}
            texts: list[str] = []
            for way in ways:
                told = await way.tell("tools/call", call)
                texts.append(text_of(told.message["result"]))
                if tool.startswith("create_"):
                    break
            if len(texts) == 1:
                continue
            rows.append(
                {
                    "server": server,
                    "tool": tool,
                    "json": estimate_tokens(texts[0]),
                    "toon": estimate_tokens(texts[1]),
                    "as_toon": is_json(texts[0]) and not is_json(texts[1]),
                }
            )
    return rows


if __name__ == "__main__":
    asyncio.run(main())
