"""Files that are written whole or not at all, by one at a time.

Owns: `replacing`, `alone`, `disk_left`. Never imports a room: every one keeps files.
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
    """A file for its owner alone that takes the place of `path` at the end; where something fails
    meanwhile, a full disk say, nothing of it is left and `path` is as it was.

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
    """As the only one, among the threads and processes that ask for it, who reads the file at
    `path` and writes it anew. Waits for the others: in a thread, where there is an event loop.

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


def disk_left(path: Path) -> tuple[Path, int] | None:
    """Where the disk that has `path` is mounted, and how many bytes are left on it; None: the
    system does not tell.
    """
    try:
        left = shutil.disk_usage(path).free
        while not os.path.ismount(path) and path != path.parent:
            path = path.parent
    except OSError:
        return None
    return path, left
