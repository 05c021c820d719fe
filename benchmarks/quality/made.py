"""What a figure was made with.

Owns: the versions and checksums that stand in a result's JSON.
"""

from __future__ import annotations

import hashlib
import platform
import time
from importlib import metadata
from pathlib import Path


def made() -> dict[str, str]:
    """Day and versions."""
    parts = ("armory-mcp-gateway", "numpy", "onnxruntime")
    told = {part: _version(part) for part in parts}
    return {"day": time.strftime("%Y-%m-%d"), "python": platform.python_version(), **told}


def _version(part: str) -> str:
    try:
        return metadata.version(part)
    except metadata.PackageNotFoundError:
        return "not installed"


def sha256(path: Path) -> str:
    """Checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
