"""With what a reading of this folder was made.

Owns: versions, those of the server among them, and the machine's cores.
"""

from __future__ import annotations

import json
import os
import platform
import time
import urllib.request
from importlib import metadata

_PARTS = ("armory-mcp-gateway", "numpy", "onnxruntime", "qdrant-client", "aiohttp")


def made(qdrant: str = "") -> dict[str, str | int]:
    """Day, versions and cores; `qdrant`: URL of a server, whose version is asked."""
    told: dict[str, str | int] = {
        "day": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        **{part: metadata.version(part) for part in _PARTS},
        "cores": len(os.sched_getaffinity(0)),
    }
    if qdrant:
        with urllib.request.urlopen(qdrant, timeout=10) as answer:
            told["qdrant"] = json.load(answer)["version"]
    return told
