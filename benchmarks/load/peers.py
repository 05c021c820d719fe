"""Install the peers that the load benchmark can measure: `python -m benchmarks.load.peers DIR`.

Owns: one folder a peer (a virtual environment or `node_modules`), and `DIR/versions.json`. What is
there already stays.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

PYTHON = {"fastmcp": "fastmcp", "contextforge": "mcp-contextforge-gateway"}
NODE = {"mcp-hub": "mcp-hub"}
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


def install(folder: Path) -> dict[str, str]:
    """Install what is missing; the version of each package."""
    found: dict[str, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in PYTHON.items():
        python = folder / name / "bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
        said = subprocess.run(
            [str(python), "-c", _VERSION, package], capture_output=True, text=True, check=False
        )
        if said.returncode:
            subprocess.run([str(python), "-m", "pip", "install", "-q", package], check=True)
            said = subprocess.run(
                [str(python), "-c", _VERSION, package], capture_output=True, text=True, check=True
            )
        found[package] = said.stdout.strip()
    for name, package in NODE.items():
        manifest = folder / name / "node_modules" / package / "package.json"
        if not manifest.exists():
            (folder / name).mkdir(exist_ok=True)
            command = ["npm", "install", "--prefix", str(folder / name), "--no-audit", "--no-fund"]
            subprocess.run([*command, package], check=True)
        found[package] = str(json.loads(manifest.read_text())["version"])
    (folder / "versions.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def versions(folder: Path | None) -> dict[str, str]:
    """What `install` found."""
    file = None if folder is None else folder / "versions.json"
    return {} if file is None or not file.exists() else json.loads(file.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(json.dumps(install(parser.parse_args().folder), indent=1))


if __name__ == "__main__":
    main()
