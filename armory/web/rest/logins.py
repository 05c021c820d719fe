"""The caller's accounts at upstreams over REST: which are connected, and disconnecting one.

Owns: the routes. Never shows a token; accounts are connected on the pages below `/connect`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armory.domain.naming import LOG_IN
from armory.domain.principal import Principal
from armory.errors import AccessDenied
from armory.web.rest.problems import not_found
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape


class LoginParams(Shape):
    """Of whom."""

    user: Annotated[str, Field(min_length=1, max_length=220)] | None = Field(
        default=None,
        description="Whose login: a user, or token:NAME of a token without. For administrators.",
    )


class LoginAnswer(Answer):
    """The state of the caller's login at one upstream."""

    server: str
    connected: bool
    issuer: str | None = Field(description="The authorization server.")
    scopes: list[str]
    connect_url: str = Field(description="The page, below this gateway, to connect it on.")


class LoginList(Answer):
    """Upstreams at which the caller has an account of its own, or may have one."""

    logins: list[LoginAnswer]


def routes() -> list[Route]:
    """The routes."""
    return [
        Route("GET", "/v1/logins", list_logins, "Own accounts at upstreams", LoginList,
              tag="logins", params=LoginParams),
        Route("DELETE", "/v1/logins/{server}", disconnect, "Disconnect an own account", None,
              tag="logins", params=LoginParams, status=204,
              path_params={"server": "The upstream."}),
    ]  # fmt: skip


async def list_logins(call: RestCall) -> Reply:
    """Own accounts, by upstream."""
    services, who = call.services, _principal_meant(call)
    allows = services.policy().allows
    found: list[LoginAnswer] = []
    for server, upstream in services.own_accounts().items():
        login = await upstream.kept_login(who)
        shown = who is not call.principal or allows(who, f"{server}__{LOG_IN}")
        if login is None and not shown:
            continue  # nothing of it is for the caller
        found.append(
            LoginAnswer(
                server=server,
                connected=login is not None,
                issuer=None if login is None else login.issuer,
                scopes=[] if login is None else list(login.scopes),
                connect_url=f"{services.base_path}/connect/{server}",
            )
        )
    return Reply(LoginList(logins=found))


async def disconnect(call: RestCall) -> Reply:
    """Delete the login at an upstream, and revoke its tokens if possible."""
    server, who = call.path["server"], _principal_meant(call)
    upstream = call.services.own_accounts().get(server)
    tokens = None if upstream is None else upstream.login_of(who)
    if tokens is None or not await tokens.log_out():
        raise not_found("login")
    return Reply(None, 204)


def _principal_meant(call: RestCall) -> Principal:
    """The principal whose accounts are meant.

    Raises:
        AccessDenied: somebody else's, and the caller is no administrator.
    """
    user: str | None = call.params.user
    if user is None:
        return call.principal
    if not call.admin:
        raise AccessDenied("accounts of others are for the scope `admin`")
    if user.startswith("token:"):
        return Principal(user.removeprefix("token:"))
    return Principal(user, user)
