"""Where a project's pinned definitions are kept: by configuration file, so that two projects that
name a server alike do not share what they know of it.

Owns: the place. Opens nothing but the file.
"""

from __future__ import annotations

import hashlib

from armory.config import Loaded
from armory.security.pinning import Pinning
from armory.security.settings import PinningMode

_FOLDER = "pins"
_SHARED = "pins.json"
"""Where the definitions of all projects were kept before."""


def pinning_of(loaded: Loaded, mode: PinningMode) -> Pinning:
    """The pinned definitions of one configuration file, or of the folder where there is none."""
    project = str((loaded.path or loaded.folder).resolve())
    name = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    path = loaded.home / _FOLDER / f"{name}.json"
    return Pinning(path, mode, project=project, before=loaded.home / _SHARED)
