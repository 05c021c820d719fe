"""Fetch what the tests over real servers and clients need, once:

    python tests/protocol/real/prepare.py FOLDER

then set `ARMORY_TEST_NODE_DIR=FOLDER/node` and `ARMORY_TEST_VENVS=FOLDER/venvs`.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

NPM = (
    "node@22",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/client@2.4.0",
)
#: Python servers on old SDKs: folder name -> what is installed.
VENVS = {
    "mcp-1.6.0": ("mcp==1.6.0", "mcp-server-sqlite==2025.4.25", "pydantic<2.12"),
    "mcp-1.9.4": ("mcp==1.9.4", "mcp-server-time<2026", "pydantic<2.12"),
    "mcp-1.14.1": ("mcp==1.14.1", "mcp-server-time<2026", "pydantic<2.12"),
}


def main() -> None:
    """Install everything that is not there yet."""
    folder = Path(sys.argv[1]).resolve()
    node = folder / "node"
    if not (node / "node_modules" / "node").exists():
        node.mkdir(parents=True, exist_ok=True)
        # Node itself first: some packages pick an older version of themselves on an older Node.
        subprocess.run(["npm", "install", "--no-fund", "--no-audit", NPM[0]], cwd=node, check=True)
        own = str(node / "node_modules" / "node" / "bin")
        npm = ["env", f"PATH={own}:/usr/local/bin:/usr/bin:/bin", "npm", "install", "--no-fund"]
        subprocess.run([*npm, "--no-audit", *NPM], cwd=node, check=True)
    for name, packages in VENVS.items():
        place = folder / "venvs" / name
        if not place.exists():
            venv.create(place, with_pip=True)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q"]
            subprocess.run([*pip, *packages], check=True)


if __name__ == "__main__":
    main()
