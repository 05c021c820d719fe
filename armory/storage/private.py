"""Restricts files and folders to the user who runs the gateway.

Owns: making them so, and mending those that an older version or somebody else made. Never opens
what it protects.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from armory.logger import Logger

_log = Logger(__name__)
_FILE = 0o600
_FOLDER = 0o700


def private_folder(path: Path) -> None:
    """Create a folder with mode 0700, or restrict an existing one.

    A folder of another user, or a shared one (with the sticky bit, like `/tmp`), stays as it is.
    """
    try:
        path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    except OSError:
        return  # whoever needs it says so
    _mend(path, _FOLDER)


def private_file(path: Path) -> None:
    """Restrict a file to mode 0600; a missing one is created, empty.

    An existing file is not opened: closing it would release every POSIX lock that this process
    holds on it, and another process could then remove SQLite's log under its writers.

    Raises:
        OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _FILE))
    except FileExistsError:
        _mend(path, _FILE)


def mend_file(path: Path) -> None:
    """Restrict a file to mode 0600, if it exists."""
    if path.is_file():
        _mend(path, _FILE)


def mend_database(file: Path) -> None:
    """Restrict an SQLite file and the files beside it."""
    for suffix in ("", "-wal", "-shm"):
        mend_file(file.with_name(file.name + suffix))


def _mend(path: Path, mode: int) -> None:
    found = path.stat()
    wide = stat.S_IMODE(found.st_mode) & 0o077
    if not wide or found.st_mode & stat.S_ISVTX or found.st_uid != os.geteuid():
        return
    try:
        path.chmod(mode)
    except OSError as error:
        _log.warning("cannot_make_private", path=str(path), error=str(error))
        return
    _log.info("made_private", path=str(path), mode=f"{mode:04o}")
