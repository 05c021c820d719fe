"""The pages of a login: `/oauth/authorize`, `/oauth/consent`, `/oauth/callback`.

Owns: that a login belongs to the browser that began it, that a person agreed to it, and that it
counts once. Never gives out a token.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from armory.authserver.clients import OWN, Client, own
from armory.authserver.errors import OAuthError
from armory.authserver.kept_grants import Grant
from armory.authserver.requests import Request, Returned, each_once, read
from armory.domain.encoding import decoded, encoded
from armory.errors import ArmoryError, AuthenticationFailed
from armory.logger import Logger
from armory.tasks import Flights
from armory.upstreams.oauth.client import TokenRefused
from armory.upstreams.oauth.code_flow import BegunLogin
from armory.web.cookies import SealedCookies
from armory.web.oauth.consent import consent_page, is_remembered, remember
from armory.web.oauth.urls import GatewayUrls, OAuthServices, form_of
from armory.web.pages import message_page

_log = Logger(__name__)
_BROWSER, _VISIT, _FORM = "armory_browser", "armory_visit", "oauth consent"
_VISIT_S = 600
_MAX_COOKIE = 3_800
_AGAIN = "Begin again in the program that sent you here."
_Handler = Callable[[web.Request], Awaitable[web.Response]]


class _Browser(msgspec.Struct, frozen=True):
    """An opaque id of the browser; says nothing about the person."""

    id: str


class _ConsentForm(msgspec.Struct, frozen=True):
    """The sealed contents of the consent form, valid only in the browser that it was shown in."""

    request: Request
    browser: str
    until: float


class _Visit(msgspec.Struct, frozen=True):
    """A login in progress: the browser is at the provider."""

    request: Request
    issuer: str
    begun: BegunLogin
    until: float


class Pages:
    """The pages of the authorization server."""

    def __init__(self, services: OAuthServices) -> None:
        self._s = services
        self._server = services.server
        self._urls = GatewayUrls(services)
        self._path = f"{services.base_path}/oauth"
        self._cookies = SealedCookies(services.seal, self._path, services.hosts)
        self._finishing: Flights[str | None] = Flights()

    def register(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get(f"{self._path}/authorize", self._guarded(self.authorize))
        app.router.add_post(f"{self._path}/consent", self._guarded(self.consent))
        app.router.add_get(f"{self._path}/callback", self._guarded(self.callback))

    def _guarded(self, handler: _Handler) -> _Handler:
        async def guarded(request: web.Request) -> web.Response:
            if not self._urls.is_allowed(request):
                return message_page("Not here", "This Host is not in server.allowed_hosts.", 403)
            try:
                return await handler(request)
            except Returned as back:
                return _sent(back.url)
            except OAuthError as error:
                _log.rate_limited(
                    "info",
                    "oauth_refused",
                    path=request.path,
                    error=error.code,
                    reason=error.description,
                )
                return message_page("That did not work", error.description, 400)
            except ArmoryError as error:
                _log.rate_limited("warning", "oauth_failed", path=request.path, error=error.message)
                return message_page("That did not work", error.message, 502)

        return guarded

    # -- letting a client in -----------------------------------------------------------------

    async def authorize(self, request: web.Request) -> web.Response:
        """`GET /oauth/authorize`: a client sends a person here."""
        query = each_once(request.query, lambda name: len(request.query.getall(name)))
        issuer, id = self._urls.issuer(request), query.get("client_id", "")
        if id == OWN:
            client = own(issuer)
        else:
            client = await self._server.client(id, self._urls.asker(request))
        try:
            asked = read(
                query,
                client,
                issuer,
                lambda url: self._urls.is_resource(request, url),
                f"{issuer}/mcp",
            )
        except Returned as back:
            if not self._is_trusted(client, back.redirect_uri):
                # a new one: the context of that one would be `back`, which holds it
                raise OAuthError(back.error.code, back.error.description) from None
            raise
        # sent back to the gateway's own page: nobody else is let in
        back_here = id == OWN and asked.redirect_uri in client.redirects
        asks = self._server.settings.consent and not back_here
        if not asks or is_remembered(self._cookies, request, asked):
            return await self._to_provider(request, asked)
        browser = self._cookies.read(request, _BROWSER, _Browser)
        browser = browser or _Browser(secrets.token_urlsafe(16))
        form = _ConsentForm(asked, browser.id, time.time() + _VISIT_S)
        sealed = encoded(self._s.seal.seal(msgspec.json.encode(form), _FORM))
        response = consent_page(client, asked, self._server.provider.issuer, sealed)
        return self._cookies.write(request, response, _BROWSER, browser, _VISIT_S)

    def _is_trusted(self, client: Client, uri: str) -> bool:
        """Whether a redirect URI needs no consent before an error is sent to it: a program on the
        person's own device, or one that the operator allows. Anybody may register other pages, to
        make a link that begins with the gateway's name (RFC 9700, 4.11.2).
        """
        settings = self._server.settings
        named = settings.redirects or client.id == OWN or client.id in settings.clients
        return bool(named) or not uri.startswith("https:")

    async def consent(self, request: web.Request) -> web.Response:
        """`POST /oauth/consent`: handles the buttons of the consent page."""
        if request.headers.get("Origin", "").lower() != self._urls.origin(request):
            return message_page(
                "Not from here", f"Use the buttons of the page itself. {_AGAIN}", 403
            )
        form = await form_of(request)
        sealed = decoded(form.get("request", ""))
        data = None if sealed is None else self._s.seal.open(sealed, _FORM)
        asked = None if data is None else msgspec.json.decode(data, type=_ConsentForm)
        browser = self._cookies.read(request, _BROWSER, _Browser)
        if asked is None or asked.until < time.time():
            return message_page("Too late", f"The page is too old. {_AGAIN}", 400)
        if browser is None or not secrets.compare_digest(browser.id, asked.browser):
            return message_page(
                "Not from here", f"The page was shown in another browser. {_AGAIN}", 403
            )
        if form.get("action") != "allow":
            answer = {"error": "access_denied", "error_description": "the person said no"}
            return _sent(asked.request.back(self._urls.issuer(request), **answer))
        response = await self._to_provider(request, asked.request)
        remember(self._cookies, request, response, asked.request)
        return response

    async def _to_provider(self, request: web.Request, asked: Request) -> web.Response:
        callback = f"{self._urls.issuer(request)}/oauth/callback"
        begun = await self._server.provider.begin_here(callback)
        response = _sent(begun.login_url)
        visit = _Visit(
            asked,
            self._urls.issuer(request),
            msgspec.structs.replace(begun, login_url=""),
            time.time() + _VISIT_S,
        )
        name = _visit_cookie(begun.state)
        self._cookies.write(request, response, name, visit, _VISIT_S)
        if any(len(cookie.value) > _MAX_COOKIE for cookie in response.cookies.values()):
            raise OAuthError("invalid_request", "the client's state and redirect_uri are too long")
        return response

    # -- coming back -------------------------------------------------------------------------

    async def callback(self, request: web.Request) -> web.Response:
        """`GET /oauth/callback`: the browser comes back from the provider."""
        back = each_once(request.query, lambda name: len(request.query.getall(name)))
        state = back.get("state", "")
        name = _visit_cookie(state)
        visit = self._cookies.read(request, name, _Visit)
        if (
            visit is None
            or visit.until < time.time()
            or not secrets.compare_digest(state.encode(), visit.begun.state.encode())
        ):
            return message_page(
                "That did not work",
                f"This browser has begun no such login here, or too long ago. {_AGAIN}",
                400,
            )
        # It goes on if the browser leaves: the code works once. One that comes again waits for it.
        place = await self._finishing.join(state, lambda: self._finish(visit, back))
        if place is None:
            return message_page("That did not work", f"This login was used already. {_AGAIN}", 400)
        response = _sent(place)
        self._cookies.drop(request, response, name)
        return response

    async def _finish(self, visit: _Visit, back: dict[str, str]) -> str | None:
        """The URL to redirect to; None: this login was used already."""
        grant = await self._server.grants.begin(visit.begun.state)
        if grant is None:
            return None
        try:
            login, identity = await self._server.provider.logged_in(visit.begun, back)
        except ArmoryError as error:
            _log.rate_limited("info", "login_refused", reason=error.message)
            answer = {"error": _code_of(error), "error_description": error.message[:300]}
            return visit.request.back(visit.issuer, **answer)
        code = await self._server.grants.code(grant, Grant(visit.request, identity, login))
        return visit.request.back(visit.issuer, code=code)


def _code_of(error: ArmoryError) -> str:
    """The error code for the client: access was denied to the person, or the provider is
    unavailable (RFC 6749, 4.1.2.1).
    """
    refused = isinstance(error, TokenRefused) and error.what == "shown"
    denied = refused or isinstance(error, AuthenticationFailed)
    return "access_denied" if denied else "temporarily_unavailable"


def _visit_cookie(state: str) -> str:
    """The name of a login's cookie; each has its own, since a person may have several
    pages open.
    """
    return f"{_VISIT}_{hashlib.sha256(state.encode()).hexdigest()[:12]}"


def _sent(url: str) -> web.Response:
    headers = {"Location": url, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return web.Response(status=303, headers=headers)
