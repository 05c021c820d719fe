"""Importing large compiled libraries without blocking the process.

Owns: `read_ahead`. Never imports a room: whoever loads such a library late may use it.
"""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path

_PIECE = 1 << 20


def read_ahead(package: str) -> None:
    """Read the compiled files of a package, to call in a thread before the package is imported.

    While Python maps a library, nothing else runs in the process. From a slow disk, page by page,
    that takes a second; once the files were read they are in the page cache. Files that cannot be
    read are left to the import, which reports why.
    """
    with suppress(OSError, ImportError):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in Path(folder).rglob("*.so*"):
                with path.open("rb", buffering=0) as file:
                    while file.read(_PIECE):
                        pass
