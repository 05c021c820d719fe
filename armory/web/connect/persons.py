"""The person that a browser has proved to be, in a sealed cookie that is checked at each request.

Owns: that cookie, and checking credentials. Never shows, logs or puts into a URL what identifies
anybody; never decides what a person may do.
"""

from __future__ import annotations

import time
from math import inf

import msgspec
from aiohttp import web

from armory.domain.principal import ANONYMOUS, Method, Principal
from armory.errors import AuthenticationFailed
from armory.web.connect.services import ConnectServices
from armory.web.cookies import SealedCookies, origin_of

_COOKIE = "armory_person"
_LIFE_S = 900
_REVOCABLE: tuple[Method, ...] = ("token", "api_key", "oauth")
_KEPT_CHARS = 1_000
"""Longer credentials are signed tokens, which hold until they expire."""


class Person(msgspec.Struct, frozen=True):
    """The person that a browser has proved to be.

    Attributes:
        subject, user, method: of the principal.
        until: seconds since 1970.
        credential: that proved it, where it may be revoked before then; "": there is no such one.
        scopes: what it is granted; None: whoever logged it in does not say.
    """

    subject: str
    user: str | None
    method: Method
    until: float
    credential: str
    scopes: tuple[str, ...] | None = None

    @property
    def principal(self) -> Principal:
        """The principal."""
        return Principal(self.subject, self.user, frozenset(self.scopes or ()), self.method)


class Persons:
    """The persons in browsers.

    Args:
        services: authenticates credentials.
        cookies: keep who it is.
    """

    def __init__(self, services: ConnectServices, cookies: SealedCookies) -> None:
        self._s = services
        self._cookies = cookies

    async def of(self, request: web.Request, server: str) -> Person | None:
        """The person in the browser that sent a request; None: it is unknown.

        Raises:
            BackendError: that cannot be looked up.
        """
        person = self._cookies.read(request, _COOKIE, Person)
        if person is not None:
            person = await self.still(person, request, server)
        if person is None and self._s.authenticator.everybody:
            return Person(ANONYMOUS.subject, None, ANONYMOUS.method, inf, "", ())
        return person

    async def still(self, person: Person, request: web.Request, server: str) -> Person | None:
        """The person, checked again; None: the credential was revoked or the account switched off.

        Raises:
            BackendError: that cannot be looked up.
        """
        if person.until <= time.time():
            return None
        try:
            if not person.credential:
                await self._s.authenticator.admit(person.principal)
                return person
            now = await self.proved(request, server, person.credential)
        except AuthenticationFailed:
            return None
        if now.key != person.principal.key:
            return None
        return msgspec.structs.replace(person, scopes=tuple(now.scopes))

    async def proved(self, request: web.Request, server: str, credential: str) -> Principal:
        """The principal of a credential; a token must be for the gateway, or for this upstream's
        endpoint.

        Raises:
            AuthenticationFailed: the credential is not valid here.
        """
        hosts, headers = self._s.hosts, {"Authorization": f"Bearer {credential}"}
        origin = origin_of(hosts, request)
        whole = f"{origin}{self._s.base_path}/mcp" if hosts.names_itself else None
        check = self._s.authenticator.authenticate
        try:
            return await check(headers, whole)
        except AuthenticationFailed:
            if whole is None:
                raise
            return await check(headers, f"{whole}/{server}")

    def remember(
        self,
        request: web.Request,
        response: web.Response,
        principal: Principal,
        scopes: frozenset[str] | None,
        credential: str = "",
    ) -> web.Response:
        """The response, with a cookie from which the browser is known for a while.

        Args:
            request: of the browser.
            response: to it.
            principal: who it has proved to be.
            scopes: what that is granted; None: whoever logged it in does not say.
            credential: that proved it; "": a login did.
        """
        expires = inf if principal.expires_at is None else principal.expires_at
        until = min(time.time() + _LIFE_S, expires)
        revocable = principal.method in _REVOCABLE and len(credential) <= _KEPT_CHARS
        kept = credential if revocable else ""
        granted = None if scopes is None else tuple(scopes)
        person = Person(principal.subject, principal.user, principal.method, until, kept, granted)
        return self._cookies.write(request, response, _COOKIE, person, _LIFE_S)

    def forget(self, request: web.Request, response: web.Response) -> None:
        """Have the browser be unknown from now on."""
        self._cookies.drop(request, response, _COOKIE)
