"""Sealed cookies of the gateway's own pages: only the gateway can read or make one.

Owns: how they are written and read, and the seam to what knows under which URL a request was sent.
Never decides what is in them.

Over https their names begin with `__Host-`: of such a cookie browsers see to it that this very host
has set it. Else a server of a neighbouring name, or whoever can answer for http, could plant one of
its own: what it was allowed, or who it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Protocol, TypeVar

import msgspec
from aiohttp import web

from armory.security.sealing import Seal

_T = TypeVar("_T")
_LOOKED_AT = 256
"""Cookies of a request that are looked at: browsers keep fewer for a host."""


class Hosts(Protocol):
    """Host checks, and the gateway's own URL (`wire.http.host_checks`, `wire.http.resources`)."""

    @property
    def names_itself(self) -> bool:
        """Whether the gateway's URL comes from its configuration, not from the request's Host."""
        ...

    def seen_as(self, peer: str | None, headers: Any) -> tuple[str | None, str | None]:
        """(client address, Host value) of a request, through trusted proxies."""
        ...

    def host_allowed(self, host: str | None) -> bool:
        """Whether requests with this Host value are accepted."""
        ...

    def origin_of(self, peer: str | None, scheme: str, headers: Any) -> str:
        """`scheme://host` under which a request was sent."""
        ...


def origin_of(hosts: Hosts, request: web.Request) -> str:
    """`scheme://host` under which a request was sent, through trusted proxies."""
    return hosts.origin_of(request.remote, request.scheme, request.headers)


class SealedCookies:
    """Writes and reads sealed cookies.

    Args:
        seal: of their values.
        path: of the pages.
        hosts: know under which URL a request was sent.
    """

    def __init__(self, seal: Seal, path: str, hosts: Hosts) -> None:
        self._seal = seal
        self._path = path
        self._hosts = hosts

    def read(self, request: web.Request, name: str, kind: type[_T]) -> _T | None:
        """The value of a cookie; None where there is none that was sealed here."""
        try:
            sealed = base64.urlsafe_b64decode(_sent(request, self._place(request, name)[0]))
            data = self._seal.open(sealed, name)
            return None if data is None else msgspec.json.decode(data, type=kind)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def write(
        self, request: web.Request, response: web.Response, name: str, value: Any, life_s: int
    ) -> web.Response:
        """Set a cookie."""
        sealed = self._seal.seal(msgspec.json.encode(value), name)
        key, path, secure = self._place(request, name)
        response.set_cookie(
            key,
            base64.urlsafe_b64encode(sealed).decode(),
            max_age=life_s,
            path=path,
            httponly=True,
            samesite="Lax",
            secure=secure,
        )
        return response

    def drop(self, request: web.Request, response: web.Response, name: str) -> None:
        """Delete a cookie."""
        key, path, secure = self._place(request, name)
        response.del_cookie(key, path=path, secure=secure, httponly=True, samesite="Lax")

    def _place(self, request: web.Request, name: str) -> tuple[str, str, bool]:
        """(name, path, secure) of a cookie. One with the prefix `__Host-` has no path, so its name
        says which gateway on that host it belongs to.
        """
        if not origin_of(self._hosts, request).startswith("https://"):
            return name, self._path, False
        return f"__Host-{name}_{hashlib.sha256(self._path.encode()).hexdigest()[:8]}", "/", True


def _sent(request: web.Request, name: str) -> str:
    """The raw value of a cookie, "" where there is none. aiohttp would parse all
    cookies each time.
    """
    kept = ""
    for cookie in request.headers.get("Cookie", "").split(";", _LOOKED_AT)[:_LOOKED_AT]:
        key, _, value = cookie.strip().partition("=")
        if key == name:
            kept = value.strip('"')
    return kept
