"""Cookies of the gateway's own pages: sealed, so that who holds one reads and makes none.

Owns: how they are written and read, and the seam to what knows under which URL a request was sent.
Never decides what is in them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
from aiohttp import web

from armory.security.sealing import Seal

_T = TypeVar("_T")


class Hosts(Protocol):
    """Host checks, and the gateway's own URL (`wire.http.host_checks`, `wire.http.resources`)."""

    def seen_as(self, peer: str | None, headers: Any) -> tuple[str | None, str | None]:
        """(client address, Host value) of a request, through trusted proxies."""
        ...

    def host_allowed(self, host: str | None) -> bool:
        """Whether a Host value may be asked for."""
        ...

    def origin_of(self, peer: str | None, scheme: str, headers: Any) -> str:
        """`scheme://host` under which a request was sent."""
        ...


class SealedCookies:
    """Writes and reads sealed cookies.

    Args:
        seal: of their values.
        path: below which browsers send them.
        origin: `scheme://host` of a request.
    """

    def __init__(self, seal: Seal, path: str, origin: Callable[[web.Request], str]) -> None:
        self._seal = seal
        self._path = path
        self._origin = origin

    def read(self, request: web.Request, name: str, kind: type[_T]) -> _T | None:
        """The value of a cookie; None where there is none that was made here."""
        try:
            sealed = base64.urlsafe_b64decode(request.cookies.get(name, ""))
            data = self._seal.open(sealed, name)
            return None if data is None else msgspec.json.decode(data, type=kind)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def write(
        self, request: web.Request, response: web.Response, name: str, value: Any, life_s: int
    ) -> web.Response:
        """Have the browser keep a value."""
        sealed = self._seal.seal(msgspec.json.encode(value), name)
        response.set_cookie(
            name,
            base64.urlsafe_b64encode(sealed).decode(),
            max_age=life_s,
            path=self._path,
            httponly=True,
            samesite="Lax",
            secure=self._origin(request).startswith("https://"),
        )
        return response
