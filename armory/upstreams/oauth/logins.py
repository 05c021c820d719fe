"""The store of logins: one file, which only its owner may read.

Owns: the file. Never imports a transport; never logs what is in it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import structlog

_log = structlog.get_logger(__name__)


class Login(msgspec.Struct, frozen=True):
    """One login at an authorization server, for one upstream.

    Attributes:
        issuer: the authorization server, exactly as it calls itself; nothing here goes elsewhere.
        token_url: its token endpoint.
        resource: identifier of the upstream.
        client_id, client_secret, method: who the gateway is there, and how it says so.
        access_token, refresh_token: what it was given; "" where there is none.
        expires_at: from when on the token is to be renewed, in seconds of the epoch; None: it does
            not say.
        scopes: that were asked for.
        wanted: scopes that the upstream has demanded since; the next login asks for them too.
    """

    issuer: str
    token_url: str
    resource: str
    client_id: str
    client_secret: str = ""
    method: str = "none"
    access_token: str = ""
    refresh_token: str = ""
    expires_at: float | None = None
    scopes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()


_all = msgspec.json.Decoder(dict[str, Login])


class Logins:
    """The file; several processes may read it, and write one after the other.

    Args:
        path: of the JSON file; made on the first write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, server: str) -> Login | None:
        """The login at an upstream; None where there is none."""
        return self._read().get(server)

    def save(self, server: str, login: Login | None) -> None:
        """Keep a login, or forget it."""
        every = self._read()
        if login is not None:
            every[server] = login
        elif every.pop(server, None) is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(handle, "wb") as file:  # mkstemp: for its owner alone
            file.write(msgspec.json.format(msgspec.json.encode(every), indent=1))
        Path(name).replace(self._path)

    def _read(self) -> dict[str, Login]:
        try:
            return _all.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("logins_unreadable", path=str(self._path), error=type(error).__name__)
            return {}
