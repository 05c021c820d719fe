"""The caller, and what this gateway offers to it.

Owns: the route. Shows an administrator more than others, and nobody a secret.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from armory.retrieval.names import RANKERS
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.routes import Answer, Reply, RestCall, Route
from armory.web.rest.services import RetrievalOff


class Features(Answer):
    """What can be used here."""

    search: bool = Field(description="Whether tools can be searched for (`tool_rag.enabled`).")
    accounts: bool = Field(description="Whether packs and plans hold (`accounts.enabled`).")
    api_keys: bool
    agent: bool
    labels: bool = Field(description="Whether queries can be labelled, which is for `admin`.")
    restart: bool = Field(description="Whether upstreams can be restarted, which is for `admin`.")
    replicas: bool = Field(description="Whether others share `storage.redis` with this gateway.")
    anonymous: bool = Field(description="Whether requests without a credential are served.")


class MeAnswer(Answer):
    """The caller, and the gateway as it may use it."""

    subject: str
    user: str | None
    method: str
    scopes: list[str]
    admin: bool
    title: str
    version: str
    endpoints: list[str] = Field(description="Paths below `/mcp`; the empty one is `/mcp` itself.")
    rankers: list[str]
    threshold: float | None = Field(
        description="The configured threshold; null where nothing is searched."
    )
    ranker: str | None = Field(description="The configured ranker; null where nothing is searched.")
    max_tools: int | None = Field(
        description="The configured number of tools; null where nothing is searched."
    )
    principals: list[str] = Field(
        description="Names of static tokens through whose eyes an administrator may look."
    )
    features: Features


def route(live: LiveGateway) -> Route:
    """The route."""

    async def me(call: RestCall) -> Reply:
        services, who = call.services, call.principal
        limits = services.search_defaults()
        body: dict[str, Any] = {
            "subject": who.subject,
            "user": who.user,
            "method": who.method,
            "scopes": sorted(who.scopes),
            "admin": call.admin,
            "title": services.info["title"],
            "version": str(services.info["version"]),
            "endpoints": live.endpoints(who, everything=call.admin),
            "rankers": list(RANKERS),
            **limits,
            "principals": sorted(live.tokens()) if call.admin else [],
            "features": {
                "search": not isinstance(services.engine, RetrievalOff),
                "accounts": services.accounts.enabled,
                "api_keys": services.api_keys,
                "agent": services.agent is not None,
                "labels": live.marks is not None and call.admin,
                "restart": call.admin,
                "replicas": live.replicas,
                "anonymous": services.authenticator.everybody,
            },
        }
        return Reply(body)

    return Route("GET", "/v1/me", me, "The caller, and what it may use", MeAnswer, tag="gateway")
