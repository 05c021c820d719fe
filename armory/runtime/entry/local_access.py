"""A way in for commands on this machine: a note of each gateway that runs, with a token.

Owns: the notes in `${ARMORY_HOME}/running`, readable by their user alone. The token
is accepted where whoever listens says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

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


@contextlib.contextmanager
def announced(home: Path, url: str, token: str, host: str = "") -> Generator[None]:
    """Leave a note of this process as long as the context lasts; a read-only home has none.

    Two containers that share a home may have the same process id: the later note takes the place
    of the earlier one, and outlives it.
    """
    pid = os.getpid()
    path = home / FOLDER / f"{pid}-{urlsplit(url).port}.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as note:
            json.dump(asdict(LocalAccess(url, token, pid, host)), note)
    except OSError as error:
        _log.debug("no_local_access", error=str(error))
        yield
        return
    try:
        yield
    finally:
        left = _read(path)
        if left is not None and left.token == token:
            with contextlib.suppress(OSError):
                path.unlink()


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
