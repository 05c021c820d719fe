"""`/connect/{upstream}`: a person connects an account of its own at an upstream.

Owns: the pages and their buttons, and that nobody else's login becomes the person's own. Who the
person is: `persons`. Never shows, logs or puts into a URL what identifies anybody.

Whose account is connected is decided by who the browser proves to be, here; not by who asked for
it. So a link that was sent to somebody else connects that one's account to that one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping

import msgspec
from aiohttp import web
from cachetools import TTLCache

from armory.domain.naming import is_server_key
from armory.errors import AccessDenied, ArmoryError, AuthenticationFailed
from armory.logger import Logger
from armory.tasks import Flights
from armory.upstreams.oauth.code_flow import BegunLogin
from armory.upstreams.upstream import Upstream
from armory.web.connect import pages
from armory.web.connect.persons import Person, Persons
from armory.web.connect.services import ConnectServices
from armory.web.cookies import SealedCookies, origin_of
from armory.web.pages import message_page

_log = Logger(__name__)
_LOGIN = "armory_login"
_LOGIN_S = 600
_NAMELESS = (
    "The gateway does not know its own name, so it registers nowhere under it. Its operator gives "
    "it the name in server.allowed_hosts, or a client of its own in security.oauth.client_id."
)
_SEEN = 10_000
_FORM_BYTES = 32_768


class Visit(msgspec.Struct, frozen=True):
    """A login in progress: the browser is at an authorization server's page.

    Attributes:
        server: the upstream whose account is to be connected.
        begun: the login; of the person at the upstream, or at the gateway's own issuer.
        whose: key of the principal whose it is; None: that is to be found out, at the gateway's
            own issuer.
        until: seconds since 1970.
    """

    server: str
    begun: BegunLogin
    whose: str | None
    until: float


class Connect:
    """Serves `/connect/{server}` and `/connect/callback`."""

    def __init__(self, services: ConnectServices) -> None:
        self._s = services
        self._cookies = SealedCookies(services.seal, self._path, services.hosts)
        self._persons = Persons(services, self._cookies)
        self._finishing: Flights[None] = Flights()
        self._used: MutableMapping[str, None] = TTLCache[str, None](_SEEN, _LOGIN_S)

    def register(self, app: web.Application) -> None:
        """Add the routes."""
        base = f"{self._s.base_path}/connect"
        app.router.add_get(f"{base}/callback", self._guarded(self.callback))
        app.router.add_get(f"{base}/{{server}}", self._guarded(self.show))
        app.router.add_post(f"{base}/{{server}}", self._guarded(self.act))

    def _guarded(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def guarded(request: web.Request) -> web.Response:
            _, host = self._s.hosts.seen_as(request.remote, request.headers)
            if not self._s.hosts.host_allowed(host):
                return message_page("Not here", "This Host is not in server.allowed_hosts.", 403)
            try:
                return await handler(request)
            except (AuthenticationFailed, AccessDenied) as error:
                return message_page("That did not work", error.message, 403)
            except ArmoryError as error:
                _log.rate_limited("warning", "connect_failed", error=error.message)
                return message_page("That did not work", error.message, 502)

        return guarded

    # -- one upstream ------------------------------------------------------------------------

    async def show(self, request: web.Request) -> web.Response:
        """`GET /connect/{server}`: asks who the person is, then shows the connect button."""
        server = request.match_info["server"]
        person = await self._persons.of(request, server)
        if person is None and is_server_key(server):
            return self._who(server)  # which servers there are is not for nobody to know
        upstream = None if person is None else self._upstream(person, server)
        if person is None or upstream is None:
            return _not_there()
        connected = await upstream.kept_login(person.principal) is not None
        return pages.connect(server, person.user or person.subject, connected=connected)

    async def act(self, request: web.Request) -> web.Response:
        """`POST /connect/{server}`: handles the buttons of that page."""
        server = request.match_info["server"]
        if not is_server_key(server):
            return _not_there()
        if not self._from_here(request):
            return message_page("Not from here", "Open the page itself, and use its buttons.", 403)
        if (form := await _small_form(request)) is None:
            return message_page("Too large", "That is no form, or it is too large.", 413)
        action, person = form.get("action"), await self._persons.of(request, server)
        if action == "identify":
            return await self._identify(request, server, str(form.get("credential", "")).strip())
        if action == "sign-in" and self._s.sign_in is not None:
            if self._s.sign_in.registers_itself and not self._s.hosts.names_itself:
                return message_page("Not here", _NAMELESS, 403)  # whoever asks would have the code
            begun = await self._s.sign_in.begin_here(self._callback(request))
            return self._sent(request, Visit(server, begun, None, time.time() + _LOGIN_S))
        if action == "leave":
            response = self._who(server)
            self._persons.forget(request, response)
            return response
        if person is None:
            return self._back(server)
        return await self._pressed(request, server, str(action), person)

    async def _pressed(
        self, request: web.Request, server: str, action: str, person: Person
    ) -> web.Response:
        """Handles a button for a person who is known."""
        upstream, principal = self._upstream(person, server), person.principal
        if upstream is None:
            return _not_there()
        if action == "disconnect":
            tokens = upstream.login_of(principal)
            assert tokens is not None
            await tokens.log_out()
            return self._back(server)
        if action != "connect":
            return message_page("Not known", "There is no such button.", 400)
        begun = await upstream.begin_login(principal, self._callback(request))
        return self._sent(request, Visit(server, begun, principal.key, time.time() + _LOGIN_S))

    def _upstream(self, person: Person, server: str) -> Upstream | None:
        """The upstream, if the person may know of it. A person whose login says nothing about
        scopes may know of every upstream.
        """
        if person.scopes is not None and not self._s.concerns(person.principal, server):
            return None
        return self._s.upstream(server)

    async def _identify(self, request: web.Request, server: str, credential: str) -> web.Response:
        try:
            principal = await self._persons.proved(request, server, credential)
        except AuthenticationFailed as error:
            return self._who(server, f"That is no credential of this gateway ({error.message}).")
        if principal.delegated and principal.id_token is not None:  # given by the gateway itself
            # the account would serve all other programs, and outlast this one's login
            return self._who(server, "A program that you let in connects no account. Log in here.")
        response = self._back(server)
        return self._persons.remember(request, response, principal, principal.scopes, credential)

    # -- coming back -------------------------------------------------------------------------

    async def callback(self, request: web.Request) -> web.Response:
        """`GET /connect/callback`: the browser comes back from an authorization server."""
        visit = self._cookies.read(request, _LOGIN, Visit)
        state = request.query.get("state", "")
        if visit is None or visit.until < time.time():
            return message_page(
                "That did not work",
                "This browser has begun no login here, or too long ago. Begin again.",
                400,
            )
        if not secrets.compare_digest(state.encode(), visit.begun.state.encode()):
            return message_page("That did not work", "The answer is of another login.", 400)
        if state in self._used and not self._finishing.under_way(state):
            return message_page("That did not work", "This login was used already.", 400)
        self._used[state] = None
        back = {name: request.query[name] for name in request.query}
        person = await self._persons.of(request, visit.server)
        if visit.whose is None:
            response = await self._signed_in(request, visit, back)
        elif person is None or person.principal.key != visit.whose:
            response = message_page(
                "That did not work", "Somebody else is in this browser now.", 403
            )
        else:
            response = await self._connected(request, visit, person, back)
        self._cookies.drop(request, response, _LOGIN)
        return response

    async def _signed_in(
        self, request: web.Request, visit: Visit, back: dict[str, str]
    ) -> web.Response:
        sign_in = self._s.sign_in
        assert sign_in is not None
        principal = await sign_in.principal_of(visit.begun, back)
        await self._s.authenticator.admit(principal)
        scopes = principal.scopes if sign_in.says_scopes else None
        response = self._back(visit.server)
        return self._persons.remember(request, response, principal, scopes)

    async def _connected(
        self, request: web.Request, visit: Visit, person: Person, back: dict[str, str]
    ) -> web.Response:
        upstream = self._s.upstream(visit.server)
        tokens = None if upstream is None else upstream.login_of(person.principal)
        if tokens is None:
            return message_page("Not found", "Nobody connects an account there any more.", 404)

        async def finish() -> None:
            await tokens.finish(visit.begun, back)
            if await self._persons.still(person, request, visit.server) is None:
                await tokens.log_out()  # else the next one of a deleted user's name had the account
                raise AuthenticationFailed("whoever began this may not come in any more")
            _log.info("account_connected", upstream=visit.server)

        # It goes on if the browser leaves: the code works once. One that comes again waits for it.
        await self._finishing.join(visit.begun.state, finish)
        return message_page(
            "Connected", "You may close this page. Let your MCP client try again what it tried."
        )

    # -- cookies -----------------------------------------------------------------------------

    @property
    def _path(self) -> str:
        return f"{self._s.base_path}/connect"

    def _origin(self, request: web.Request) -> str:
        return origin_of(self._s.hosts, request)

    def _callback(self, request: web.Request) -> str:
        return f"{self._origin(request)}{self._path}/callback"

    def _from_here(self, request: web.Request) -> bool:
        """Whether a form was sent from these pages: browsers send `Origin` with every POST."""
        return request.headers.get("Origin", "").lower() == self._origin(request)

    def _sent(self, request: web.Request, visit: Visit) -> web.Response:
        response = web.Response(status=303, headers={"Location": visit.begun.login_url})
        return self._cookies.write(request, response, _LOGIN, visit, _LOGIN_S)

    def _back(self, server: str) -> web.Response:
        """Redirect to the page of an upstream. It is always the gateway's own, never a
        foreign URL.
        """
        return web.Response(status=303, headers={"Location": f"{self._path}/{server}"})

    def _who(self, server: str, wrong: str = "") -> web.Response:
        sign_in = self._s.sign_in
        issuer = sign_in.issuer if sign_in is not None else None
        return pages.who_are_you(server, issuer, wrong)


def _not_there() -> web.Response:
    return message_page("Not found", "Nobody connects an account there.", 404)


async def _small_form(request: web.Request) -> Mapping[str, object] | None:
    """The form in the body; None where there is none, or it is too large (which a chunked body
    shows only at its end).
    """
    is_form = request.content_type == "application/x-www-form-urlencoded"
    small = is_form and (request.content_length or 0) <= _FORM_BYTES
    try:
        return await request.post() if small and len(await request.read()) <= _FORM_BYTES else None
    except (ValueError, LookupError):  # it is no text in its encoding
        return None
