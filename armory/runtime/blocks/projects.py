"""Where what is kept of one configuration file is, apart from what is kept of others.

Owns: the names. Opens nothing.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from armory.config import Loaded


def project_of(loaded: Loaded) -> str:
    """The configuration file as it is called, or the folder where there is none. Links are not
    followed: the kubelet has the same name point to another file for each version of a ConfigMap.
    """
    return os.path.abspath(_named(loaded))


def place_of(loaded: Loaded, folder: Path, suffix: str = "") -> Path:
    """The project's own place in a folder; the one by the file behind links where that was used."""
    by_name = folder / f"{_key(project_of(loaded))}{suffix}"
    by_file = folder / f"{_key(str(_named(loaded).resolve()))}{suffix}"
    return by_file if by_file.exists() and not by_name.exists() else by_name


def _named(loaded: Loaded) -> Path:
    return loaded.path or loaded.folder


def _key(project: str) -> str:
    return hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:16]
