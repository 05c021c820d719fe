"""Large compiled libraries, loaded while others are served.

Owns: `read_ahead`. Never imports a room: whoever loads such a library late may use it.
"""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path

_PIECE = 1 << 20


def read_ahead(package: str) -> None:
    """Read the compiled files of a package that is about to be imported, in a thread.

    While Python maps a library in, nothing else runs in the process; from a slow disk, where it
    comes page by page, that takes a second. Read before, it is in memory by then. What cannot be
    read is left to the import, which says why.
    """
    with suppress(OSError, ImportError):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in Path(folder).rglob("*.so*"):
                with path.open("rb", buffering=0) as file:
                    while file.read(_PIECE):
                        pass
