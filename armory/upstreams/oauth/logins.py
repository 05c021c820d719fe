"""Logins and where they are stored; the gateway's own are in a file that only its owner may read.

Owns: the login as a value, the file, and the seam to where people's logins are. Never imports a
transport; never logs what is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from armory.files import alone, replacing, stamp
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
        """Whether it has the same token as `other`: no refresh and no new login came between."""
        return self.access_token == other.access_token


class Sealed(Protocol):
    """The stored, sealed login of one person at one upstream (`storage.logins.StoredLogin`)."""

    async def load(self) -> bytes | None:
        """The login; None where there is none."""
        ...

    async def save(self, login: bytes | None) -> None:
        """Store a login, or delete it (None); ends the lease."""
        ...

    async def replace(self, login: bytes, same: Callable[[bytes], bool]) -> bool:
        """As `save`, but only if the stored login is still `same`; returns whether it was."""
        ...

    async def lease(self) -> bool:
        """Take the lease to refresh the login; returns whether this process has it now."""
        ...

    async def release(self) -> None:
        """End the lease."""
        ...


class LoginStore(Protocol):
    """The storage of one login."""

    @property
    def changed(self) -> bool:
        """Whether the login may have changed since it was last loaded, where nobody notifies of
        that.
        """
        ...

    async def load(self) -> Login | None:
        """The login; None where there is none."""
        ...

    async def save(self, login: Login | None) -> None:
        """Store a login, or delete it (None)."""
        ...

    async def replace(self, login: Login, before: Login) -> bool:
        """Replace the login `before` if it is still the stored one; returns whether it was."""
        ...

    async def lease(self) -> bool:
        """Take the lease to refresh the login; returns whether nobody else has it."""
        ...

    async def release(self) -> None:
        """Give the lease back."""
        ...


_one = msgspec.json.Decoder(Login)
_all = msgspec.json.Decoder(dict[str, Login])


class Logins:
    """The file of the gateway's own logins; several processes may share it.

    Args:
        path: of the JSON file; made on the first write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def stamp(self) -> tuple[int, int, int] | None:
        """As `files.stamp` of the file."""
        return stamp(self._path)

    def load(self, server: str) -> Login | None:
        """The login at an upstream; None where there is none."""
        return self._read().get(server)

    def save(self, server: str, login: Login | None) -> None:
        """Store a login, or delete it (None).

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
        """As `LoginStore.changed`: commands write the file while a gateway runs."""
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
        """Always True: `replace` decides between two processes."""
        return True

    async def release(self) -> None:
        """Does nothing: there is no lease."""


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
