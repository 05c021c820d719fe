"""Logging in to the console at the issuer of `security.oauth`, with a code and PKCE.

Owns: the routes. Keeps nothing: what a login needs while its person is away is with the
browser tab that began it, sealed; the access token goes there and nowhere else.
"""

from __future__ import annotations

from functools import partial

from pydantic import Field

from armory.errors import UpstreamUnavailable
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.live.sign_in import SignIn
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape, Text

_CONSOLE = "/console/"
_LONG = 8_192


class SignInAnswer(Answer):
    """How people log in beside pasting a credential."""

    issuer: str | None = Field(
        description="The issuer whose page people are sent to; null: there is none."
    )


class SignInBegun(Answer):
    """A login that has begun."""

    url: str = Field(description="Where the person logs in.")
    kept: str = Field(description="To be kept by whoever began, and given back.")


class SignInReturn(Shape):
    """What a person came back with."""

    kept: Text = Field(min_length=1, max_length=_LONG)
    code: Text | None = Field(default=None, max_length=_LONG)
    state: Text = Field(min_length=1, max_length=_LONG)
    iss: Text | None = Field(default=None, max_length=_LONG)
    error: Text | None = Field(default=None, max_length=_LONG)
    error_description: Text | None = Field(default=None, max_length=_LONG)


class TokenAnswer(Answer):
    """An access token for this gateway."""

    token: str
    expires_at: float | None = Field(description="Seconds since 1970; null: not known.")


def routes(live: LiveGateway) -> list[Route]:
    """The routes."""
    return [
        Route("GET", "/v1/login", partial(_issuer, live), "How people log in to the console",
              SignInAnswer, access="public", tag="gateway"),
        Route("POST", "/v1/login/begin", partial(_begin, live), "Begin a login at the issuer",
              SignInBegun, access="public", tag="gateway", problems=(404,),
              description="The person is sent back to `/console/`."),
        Route("POST", "/v1/login/finish", partial(_finish, live), "Finish a login",
              TokenAnswer, access="public", tag="gateway", body=SignInReturn, problems=(404,)),
    ]  # fmt: skip


def _resource(call: RestCall) -> str | None:
    resources = call.services.resources
    return None if resources is None else resources.whole(call.request)


async def _issuer(live: LiveGateway, call: RestCall) -> Reply:
    offered = live.sign_in is not None and _resource(call) is not None
    return Reply({"issuer": live.sign_in.issuer if live.sign_in and offered else None})


def _offered(live: LiveGateway, call: RestCall) -> tuple[SignIn, str]:
    resource = _resource(call)
    if live.sign_in is None or resource is None:
        raise Problem(
            404, "no_login", "nobody logs in here at an issuer; use a token or an API key"
        )
    return live.sign_in, resource


async def _begin(live: LiveGateway, call: RestCall) -> Reply:
    sign_in, resource = _offered(live, call)
    try:
        url, kept = await sign_in.begin(resource, resource.removesuffix("/mcp") + _CONSOLE)
    except UpstreamUnavailable as error:
        raise Problem(503, "login_failed", error.message) from None
    return Reply({"url": url, "kept": kept})


async def _finish(live: LiveGateway, call: RestCall) -> Reply:
    sign_in, _ = _offered(live, call)
    body: SignInReturn = call.body
    back = {
        name: value
        for name in ("code", "state", "iss", "error", "error_description")
        if (value := getattr(body, name)) is not None
    }
    try:
        done = await sign_in.finish(body.kept, back)
    except UpstreamUnavailable as error:
        raise Problem(503, "login_failed", error.message) from None
    if done is None:
        message = "this login was not begun here, or too long ago; begin again"
        raise Problem(422, "invalid_request", message, parameter="kept")
    return Reply({"token": done[0], "expires_at": done[1]})
