"""Files and folders that only the user who runs the gateway may read.

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
    """Make a folder, 0700, and mend one that is wider.

    One of another user, or one that is meant for many (with the sticky bit, like `/tmp`), stays as
    it is.
    """
    try:
        path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    except OSError:
        return  # whoever needs it says so
    _mend(path, _FOLDER)


def private_file(path: Path) -> None:
    """Mend a file that is wider than 0600; one that is not there is made, empty.

    One that is there is not opened: to close it again would end every lock that this process holds
    on it (POSIX), and another process could then take SQLite's log away under its writers.

    Raises:
        OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _FILE))
    except FileExistsError:
        _mend(path, _FILE)


def mend_file(path: Path) -> None:
    """Mend a file that is wider than 0600, where it is there."""
    if path.is_file():
        _mend(path, _FILE)


def mend_database(file: Path) -> None:
    """Mend a file of SQLite and what stands beside it while it is used."""
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
