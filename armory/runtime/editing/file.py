"""The configuration file on disk: its version, and replacing it atomically.

Owns: reading and writing. Knows nothing of what the text means.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from armory.config.load import read_file
from armory.errors import ConfigError
from armory.web.rest.live.config_file import NotWritable, Stale

_READ_ONLY = frozenset((errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV))


@dataclass(frozen=True, slots=True)
class Version:
    """The contents of the file at some time.

    Attributes:
        text: all of it.
        tag: names it, by the key.
    """

    text: str
    tag: str


def version_of(path: Path, key: bytes) -> Version:
    """The current version of the file.

    Args:
        path: of the file.
        key: of tags. A plain hash would let readers try out what a hidden value may be.

    Raises:
        ConfigError: it cannot be read.
    """
    text = read_file(path)
    return Version(text, hashlib.blake2b(text.encode(), key=key, digest_size=16).hexdigest())


def why_read_only(path: Path) -> str | None:
    """Why the file cannot be replaced; None: it can, as far as is known.

    A file without any write permission counts as read-only for root, too.
    """
    real = path.resolve()
    try:
        writable = bool(real.stat().st_mode & 0o222) and os.access(real, os.W_OK)
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    if not writable:
        return f"{path} is read-only for this process"
    if not os.access(real.parent, os.W_OK | os.X_OK):
        return f"the folder of {path} is read-only for this process"
    return None


def replace(path: Path, text: str, tag: str, key: bytes) -> Version:
    """Replace the file atomically; permissions and owner stay.

    Raises:
        Stale: it does not hold the version `tag` any more.
        NotWritable: it cannot be replaced.
        ConfigError: it cannot be read, or the disk is full.
    """
    if (reason := why_read_only(path)) is not None:
        raise NotWritable(reason)
    real = path.resolve()
    name: str | None = None
    try:
        before = real.stat()
        handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            _as_before(file.fileno(), before)
            os.fsync(file.fileno())
        if version_of(path, key).tag != tag:
            raise Stale("the file has changed since it was read; read it again")
        os.replace(name, real)
        name = None
    except OSError as error:
        message = f"{path} cannot be replaced: {error.strerror}"
        if error.errno in _READ_ONLY:
            raise NotWritable(message) from None
        raise ConfigError(message) from None
    finally:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
    return version_of(path, key)


def _as_before(descriptor: int, before: os.stat_result) -> None:
    os.fchmod(descriptor, before.st_mode & 0o7777)
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
