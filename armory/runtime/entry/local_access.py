"""Access for commands on this machine: each running gateway leaves a note with an admin token.

Owns: the notes in `${ARMORY_HOME}/running`, readable by their user alone. The token
is accepted where whoever listens says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from armory.files import NO_ROOM, replacing
from armory.logger import Logger
from armory.security.authentication import ADMIN, StaticToken

_log = Logger(__name__)
FOLDER = "running"
OPERATOR = "operator"
"""Subject of whoever comes with such a token."""


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """The contents of a note: one gateway that runs on this machine.

    Attributes:
        url: where it listens, `server.base_path` included.
        token: bearer token with the scope `admin`, good as long as the process lives.
        pid: the process.
        host: Host header that it takes; empty: that of `url`.
        ending: whether it takes no connections any more, and finishes what is in flight.
    """

    url: str
    token: str
    pid: int
    host: str = ""
    ending: bool = False


def operator_token() -> StaticToken:
    """A new administrator token."""
    return StaticToken(OPERATOR, secrets.token_urlsafe(32), frozenset((ADMIN,)))


class Note:
    """The note of this process, from `leave` to `remove`; a read-only home has none.

    Two containers that share a home may have the same process id: the later note replaces the
    earlier one, and is not removed with it.

    Args:
        home: the folder behind `ARMORY_HOME`.
        url, token, host: as of `LocalAccess`.
    """

    def __init__(self, home: Path, url: str, token: str, host: str = "") -> None:
        self._access = LocalAccess(url, token, os.getpid(), host)
        self._path = home / FOLDER / f"{self._access.pid}-{urlsplit(url).port}.json"
        self._lock = _Lock(_lock_of(self._path.parent, self._access))
        self._turn = threading.Lock()
        self._failed = self._removed = False

    def leave(self) -> None:
        """Write the note."""
        with self._turn:
            if not self._removed:
                self._write()

    def leave_again(self) -> None:
        """Write the note if it is missing: the disk was full, or it was removed."""
        with self._turn:
            if not self._removed and not self._path.exists():
                self._write()

    def _write(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_unheld(self._path.parent)
            self._lock.take()
            self._put()
        except OSError as error:
            if not self._failed:
                note = _log.warning if error.errno in NO_ROOM else _log.debug
                note("no_local_access", error=str(error))
        self._failed = not self._path.exists()

    def end(self) -> None:
        """Record in the note that the gateway is shutting down."""
        with self._turn:
            self._access = replace(self._access, ending=True)
            with contextlib.suppress(OSError):
                if self._is_own():
                    self._put()

    def _put(self) -> None:
        with replacing(self._path) as file:
            file.write(json.dumps(asdict(self._access)).encode())

    def _is_own(self) -> bool:
        left = _read(self._path)
        return left is not None and left.token == self._access.token

    def remove(self) -> None:
        """Remove the note for good."""
        with self._turn:
            self._removed = True
            if self._is_own():
                with contextlib.suppress(OSError):
                    self._path.unlink()
            self._lock.give_back()


class _Lock:
    """A file that this process holds a lock on for as long as it lives. Process ids may be reused,
    above all after a power failure, so a note is only valid while its lock is held.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def take(self) -> None:
        """Create and lock the file; where that is not possible, there is none."""
        self.give_back()
        with contextlib.suppress(OSError):
            self._held = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # not every file system has locks
                self.give_back()

    def give_back(self) -> None:
        """Remove the file."""
        if self._held is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._held)
            self._held = None


def _lock_of(folder: Path, access: LocalAccess) -> Path:
    """The lock file beside a note; unique to each gateway."""
    return folder / f"{hashlib.sha256(access.token.encode()).hexdigest()[:16]}.lock"


def _held(path: Path) -> bool | None:
    """Whether a process holds the lock; None: unknown."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _remove_unheld(folder: Path) -> None:
    """Remove the files of gateways that were killed."""
    for path in folder.glob("*.lock"):
        if _held(path) is False:
            with contextlib.suppress(OSError):
                path.unlink()


def running_at(home: Path, port: int) -> LocalAccess | None:
    """The running gateway of this `ARMORY_HOME` with that port."""
    return next((one for one in running(home) if urlsplit(one.url).port == port), None)


def running(home: Path) -> list[LocalAccess]:
    """The running gateways of this `ARMORY_HOME` on this machine; stale notes are removed."""
    return [one for one in _living(home) if not one.ending]


def ending(home: Path) -> list[LocalAccess]:
    """The gateways that are shutting down and still finish requests."""
    return [one for one in _living(home) if one.ending]


def _living(home: Path) -> list[LocalAccess]:
    found: list[LocalAccess] = []
    for path in sorted((home / FOLDER).glob("*.json")):
        access = _read(path)
        if access is None:
            continue
        lock = _lock_of(path.parent, access)
        held = _held(lock)
        if held or (held is None and _lives(access.pid)):
            found.append(access)
            continue
        for left in (path, lock):
            with contextlib.suppress(OSError):
                left.unlink()
    return found


def _read(path: Path) -> LocalAccess | None:
    try:
        return LocalAccess(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
