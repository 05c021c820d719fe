"""Detects changes of a gateway's configuration file, and of the `.env` beside it.

Owns: `ConfigWatch`. Never reads the files.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from pathlib import Path

from armory.config.dotenv import NAME as DOTENV

WATCH_S = 1.0
WRITTEN_S = 0.1
"""A changed file is read once it has stayed the same for so long."""
GONE_S = 5.0
"""A file that is gone or empty for longer is not being written: it counts as changed."""
_Stamp = tuple[int, ...]


class ConfigWatch:
    """Detects changes of the file since it was made, except those that were applied meanwhile. Make
    it before the file is read, so that no change is missed.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _stamp(path)
        self._read = self._seen
        self._missing_since: float | None = None

    async def changed(self) -> None:
        """Wait for a change; returns when the file is complete."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = await asyncio.to_thread(_stamp, self._path)
            if now is None:
                self._seen = None  # as it is once it is back: who read it meanwhile found nothing
                if self._is_gone(time.monotonic()):
                    return
            else:
                self._missing_since = None
            if now == self._seen:
                continue
            await asyncio.sleep(WRITTEN_S)
            if now != self._seen and now == await asyncio.to_thread(_stamp, self._path):
                self._seen = now
                return

    def reading(self) -> None:
        """Note the version of the file that is read next, whatever caused the reading; in any
        thread.
        """
        self._read = _stamp(self._path)

    def in_force(self) -> None:
        """The version that was read last is applied, so it is no change any more."""
        self._seen = self._read

    def _is_gone(self, now: float) -> bool:
        """Whether the file has disappeared for good; true once."""
        if self._missing_since is None:
            self._missing_since = now
        if now - self._missing_since < GONE_S:
            return False
        self._missing_since = math.inf
        return True


def _stamp(path: Path) -> _Stamp | None:
    """A value that changes with the file; None: it is being written. `command > armory.yaml`
    truncates it first, which must not count as a configuration without upstreams.
    """
    try:
        found = path.stat()
    except OSError:  # an editor is replacing it
        return None
    if not found.st_size:
        return None
    try:
        beside = (path.parent / DOTENV).stat()
    except OSError:  # there is none
        return _stat_values(found)
    return _stat_values(found) + _stat_values(beside)


def _stat_values(found: os.stat_result) -> _Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino
