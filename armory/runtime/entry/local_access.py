"""A way in for commands on this machine: a note of each gateway that runs, with a token.

Owns: the notes in `${ARMORY_HOME}/running`, readable by their user alone. The token
is accepted where whoever listens says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
from dataclasses import asdict, dataclass
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
    """One gateway that runs here.

    Attributes:
        url: where it listens, `server.base_path` included.
        token: bearer token with the scope `admin`, good as long as the process lives.
        pid: the process.
        host: Host header that it takes; empty: that of `url`.
    """

    url: str
    token: str
    pid: int
    host: str = ""


def operator_token() -> StaticToken:
    """A new token of an administrator."""
    return StaticToken(OPERATOR, secrets.token_urlsafe(32), frozenset((ADMIN,)))


class Note:
    """The note of this process, from `leave` to `remove`; a read-only home has none.

    Two containers that share a home may have the same process id: the later note takes the place
    of the earlier one, and outlives it.

    Args:
        home: the folder behind `ARMORY_HOME`.
        url, token, host: as of `LocalAccess`.
    """

    def __init__(self, home: Path, url: str, token: str, host: str = "") -> None:
        self._access = LocalAccess(url, token, os.getpid(), host)
        self._path = home / FOLDER / f"{self._access.pid}-{urlsplit(url).port}.json"
        self._turn = threading.Lock()
        self._failed = self._removed = False

    def leave(self) -> None:
        """Write it."""
        with self._turn:
            if not self._removed:
                self._write()

    def leave_again(self) -> None:
        """Write it where it is not there: its disk was full, or somebody tidied up."""
        with self._turn:
            if not self._removed and not self._path.exists():
                self._write()

    def _write(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(self._path) as file:
                file.write(json.dumps(asdict(self._access)).encode())
        except OSError as error:
            if not self._failed:
                note = _log.warning if error.errno in NO_ROOM else _log.debug
                note("no_local_access", error=str(error))
        self._failed = not self._path.exists()

    def remove(self) -> None:
        """Take it away for good."""
        with self._turn:
            self._removed = True
            left = _read(self._path)
            if left is not None and left.token == self._access.token:
                with contextlib.suppress(OSError):
                    self._path.unlink()


def running_at(home: Path, port: int) -> LocalAccess | None:
    """The gateway of this `ARMORY_HOME` that has a port."""
    return next((one for one in running(home) if urlsplit(one.url).port == port), None)


def running(home: Path) -> list[LocalAccess]:
    """The gateways of this `ARMORY_HOME` that run here; notes of dead ones are removed."""
    found: list[LocalAccess] = []
    for path in sorted((home / FOLDER).glob("*.json")):
        access = _read(path)
        if access is None:
            continue
        if _lives(access.pid):
            found.append(access)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
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
