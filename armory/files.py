"""Atomic replacement of files, locks on them, and telling versions of them apart.

Owns: `replacing`, `alone`, `stamp`, `disk_left`. Never imports a room: every room writes files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Numbers of the errors of a disk that is full, as far as this user may fill it."""


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """A temporary file, readable by its owner alone, that replaces `path` at the end of the block.
    If anything fails meanwhile, such as a full disk, it is deleted and `path` stays unchanged.

    Raises:
        OSError: it cannot be written; names the file.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave an empty file in its place
        Path(name).replace(path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError) and error.filename is None:  # so of a disk that is full
            error.filename = str(path)
        raise


@contextmanager
def alone(path: Path) -> Generator[None]:
    """Hold an exclusive lock on the file at `path`, among all threads and processes that use this
    function, to read it and write it again. Where there is an event loop, the wait is in a thread.

    Raises:
        OSError: nothing can be written beside the file.
    """
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def stamp(path: Path) -> tuple[int, int, int] | None:
    """A value that differs once another process has written the file; None: there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def disk_left(path: Path) -> tuple[Path, int] | None:
    """The mount point of the disk that holds `path`, and the free bytes on it; None: the system
    does not tell.
    """
    try:
        left = shutil.disk_usage(path).free
        while not os.path.ismount(path) and path != path.parent:
            path = path.parent
    except OSError:
        return None
    return path, left
