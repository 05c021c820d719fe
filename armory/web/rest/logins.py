"""The caller's own accounts at upstreams over REST: which are connected, and disconnecting one.

Owns: the routes. Never shows a token; accounts are connected on the pages below `/connect`.
"""

from __future__ import annotations

from pydantic import Field

from armory.protocol.methods import LOG_IN
from armory.upstreams.oauth.people import PersonTokens
from armory.web.rest.problems import not_found
from armory.web.rest.routes import Answer, Reply, RestCall, Route
from armory.web.rest.services import RestServices


class LoginAnswer(Answer):
    """Where the caller stands at one upstream."""

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
              tag="logins"),
        Route("DELETE", "/v1/logins/{server}", disconnect, "Disconnect an own account", None,
              tag="logins", status=204, path_params={"server": "The upstream."}),
    ]  # fmt: skip


async def list_logins(call: RestCall) -> Reply:
    """Own accounts, by upstream."""
    services = call.services
    allows = services.policy().allows
    found: list[LoginAnswer] = []
    for server in services.own_accounts():
        login = await _tokens(services, call, server).kept()
        if login is None and not allows(call.principal, f"{server}__{LOG_IN}"):
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
    """Forget an own account, and give its tokens back where that can be done."""
    server = call.path["server"]
    if server not in call.services.own_accounts():
        raise not_found("login")
    if not await _tokens(call.services, call, server).log_out():
        raise not_found("login")
    return Reply(None, 204)


def _tokens(services: RestServices, call: RestCall, server: str) -> PersonTokens:
    tokens = services.own_accounts()[server].login_of(call.principal)
    assert tokens is not None
    return tokens
