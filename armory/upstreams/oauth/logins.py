"""Logins, and where they are kept: those of the gateway in a file that only its owner may read.

Owns: the login as a value, the file, and the seam to where people's logins are. Never imports a
transport; never logs what is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from armory.files import alone, replacing
from armory.logger import Logger

_log = Logger(__name__)


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
        revoke_url: where its tokens are given back; "": nowhere.
        id_token: who the person is, where it is the gateway that is logged in at; else "".
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
    revoke_url: str = ""
    id_token: str = ""

    def is_of(self, other: Login) -> bool:
        """Whether it has the same token: it was neither refreshed since, nor logged in anew."""
        return self.access_token == other.access_token


class Sealed(Protocol):
    """Where one person's login at one upstream is (`storage.logins.StoredLogin`)."""

    async def load(self) -> bytes | None:
        """The login; None where there is none."""
        ...

    async def save(self, login: bytes | None) -> None:
        """Keep a login, or forget it; ends the lease."""
        ...

    async def replace(self, login: bytes, same: Callable[[bytes], bool]) -> bool:
        """As `save`, unless there is another login by now, or none; whether it was `same`."""
        ...

    async def lease(self) -> bool:
        """Whether this process, and no other, may refresh the login now."""
        ...

    async def release(self) -> None:
        """End the lease."""
        ...


class LoginStore(Protocol):
    """Where one login is kept."""

    @property
    def changed(self) -> bool:
        """Whether it may be another one than was loaded last, where nobody tells of that."""
        ...

    async def load(self) -> Login | None:
        """The login; None where there is none."""
        ...

    async def save(self, login: Login | None) -> None:
        """Keep a login, or forget it."""
        ...

    async def replace(self, login: Login, before: Login) -> bool:
        """Keep a login in place of the one `before`, if that is still there; whether it was."""
        ...

    async def lease(self) -> bool:
        """Whether nobody else refreshes the login now."""
        ...

    async def release(self) -> None:
        """Let others refresh it."""
        ...


_one = msgspec.json.Decoder(Login)
_all = msgspec.json.Decoder(dict[str, Login])


class Logins:
    """The file; several processes may read it, and change it one after the other.

    Args:
        path: of the JSON file; made on the first write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def stamp(self) -> tuple[int, int, int] | None:
        """What differs once another process has written the file; None: there is none."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def load(self, server: str) -> Login | None:
        """The login at an upstream; None where there is none."""
        return self._read().get(server)

    def save(self, server: str, login: Login | None) -> None:
        """Keep a login, or forget it.

        Raises:
            OSError: the file cannot be read or written; it is as it was.
        """
        if login is None and not self._path.exists():
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with alone(self._path):
            every = self._every()
            if login is not None:
                every[server] = login
            elif every.pop(server, None) is None:
                return
            self._write(every)

    def replace(self, server: str, login: Login, before: Login) -> bool:
        """As `LoginStore.replace`; the login at an upstream.

        Raises:
            OSError: as of `save`.
        """
        if not self._path.exists():
            return False
        with alone(self._path):
            every = self._every()
            there = every.get(server)
            if there is None or not there.is_of(before):
                return False
            self._write({**every, server: login})
        return True

    def _write(self, every: dict[str, Login]) -> None:
        with replacing(self._path) as file:
            file.write(msgspec.json.format(msgspec.json.encode(every), indent=1))

    def _read(self) -> dict[str, Login]:
        try:
            return self._every()
        except OSError as error:
            return self._unreadable(error)

    def _every(self) -> dict[str, Login]:
        try:
            return _all.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            return self._unreadable(error)

    def _unreadable(self, error: Exception) -> dict[str, Login]:
        _log.warning("logins_unreadable", path=str(self._path), error=type(error).__name__)
        return {}


class FileLogin:
    """The gateway's own login at one upstream. Satisfies `LoginStore`.

    Args:
        path: of the file.
        server: key of the upstream.
    """

    def __init__(self, path: Path, server: str) -> None:
        self._logins = Logins(path)
        self._server = server
        self._loaded: tuple[int, int, int] | None = None

    @property
    def changed(self) -> bool:
        """As `LoginStore.changed`: commands write the file beside a gateway that runs."""
        return self._logins.stamp != self._loaded

    async def load(self) -> Login | None:
        """As `LoginStore.load`."""
        self._loaded = self._logins.stamp
        return self._logins.load(self._server)

    async def save(self, login: Login | None) -> None:
        """As `LoginStore.save`."""
        await asyncio.to_thread(self._logins.save, self._server, login)

    async def replace(self, login: Login, before: Login) -> bool:
        """As `LoginStore.replace`."""
        return await asyncio.to_thread(self._logins.replace, self._server, login, before)

    async def lease(self) -> bool:
        """Always: two processes are told apart by who was first."""
        return True

    async def release(self) -> None:
        """Nothing: there is no lease."""


class PersonLogin:
    """One person's login. Satisfies `LoginStore`.

    Args:
        sealed: where it is.
    """

    changed = False

    def __init__(self, sealed: Sealed) -> None:
        self._sealed = sealed

    async def load(self) -> Login | None:
        """As `LoginStore.load`."""
        data = await self._sealed.load()
        return None if data is None else _one.decode(data)

    async def save(self, login: Login | None) -> None:
        """As `LoginStore.save`."""
        await self._sealed.save(None if login is None else msgspec.json.encode(login))

    async def replace(self, login: Login, before: Login) -> bool:
        """As `LoginStore.replace`."""

        def same(data: bytes) -> bool:
            return _one.decode(data).is_of(before)

        return await self._sealed.replace(msgspec.json.encode(login), same)

    async def lease(self) -> bool:
        """As `LoginStore.lease`."""
        return await self._sealed.lease()

    async def release(self) -> None:
        """As `LoginStore.release`."""
        await self._sealed.release()
