"""The dependencies of the routes that look at the running gateway, provided by the runtime.

Owns: the seam. Never makes any of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from armory.audit.reading import RecordFilter
from armory.domain.principal import Principal
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError, UnknownTool
from armory.evaluation.marks import MarkedQueries
from armory.gateway.context import RequestContext
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.gateway import Gateway
from armory.gateway.requests import ClientRequest
from armory.observability.activity import Activity
from armory.protocol.link import Answer, ClientGone, Params
from armory.protocol.versions import MODERN_VERSIONS
from armory.security.pinning import Changed, Pinning
from armory.web.rest.live.config_file import ConfigurationFile
from armory.web.rest.live.sign_in import SignIn
from armory.web.rest.problems import Problem


class RestClient:
    """A REST caller as an upstream sees it: it takes no notifications and answers no questions."""

    capabilities: Mapping[str, Any] = {}
    log_level: str | None = None
    progress_token: Raw | None = None

    async def notify(self, method: str, params: Params) -> None:
        """Does nothing: a REST caller takes no notifications."""

    async def ask(self, method: str, params: Params) -> Answer:
        """As `ClientChannel.ask`.

        Raises:
            ClientGone: always.
        """
        raise ClientGone(f"{method} cannot be put to a caller over REST")


async def _admitted(_principal: Principal) -> None:
    return


async def _done() -> None:
    return


async def _untold(_change: Changed) -> None:
    return


async def _unknown(server: str) -> None:
    raise UnknownTool(f"there is no upstream {server!r}")


async def _no_file(_dry_run: bool) -> Mapping[str, list[str]]:
    raise ConfigError("this gateway was not started from a file; there is nothing to read again")


def _nobody() -> Mapping[str, Principal]:
    return {}


@dataclass(frozen=True, slots=True, eq=False)
class LiveGateway:
    """The running gateway, as far as these routes use it.

    Attributes:
        gateway: the request path.
        activity: the latest calls and queries.
        marks: queries that people have labelled; None: there is no place for them.
        admit: has what policy needs of a principal's account in memory.
        tokens: the principals of the static tokens by name, for administrators to look through
            their eyes.
        replicas: whether there may be others beside this one.
        restart: connects an upstream anew, at all replicas; raises `UnknownTool` where there is
            none.
        pinning: knows the definitions that are withheld; None: nothing is.
        rebuild: builds and serves a new snapshot.
        tell_approved: tells other replicas of a definition that was approved.
        reload: reads the configuration again and puts it in force, at all replicas, or, for a dry
            run, only says what would become of it; raises `ConfigError` where it does not hold.
        audit: the latest so many of the audit's records that are wanted; None: none can be read.
        configuration: the file that it was started from; None: there is none.
        sign_in: the gateway as a client of its issuer; None: there is none, or it is no client.
        marking: held while a label is written.
    """

    gateway: Gateway
    activity: Activity = field(default_factory=Activity)
    marks: MarkedQueries | None = None
    admit: Callable[[Principal], Awaitable[None]] = _admitted
    tokens: Callable[[], Mapping[str, Principal]] = _nobody
    replicas: bool = False
    restart: Callable[[str], Awaitable[None]] = _unknown
    pinning: Callable[[], Pinning | None] = lambda: None
    rebuild: Callable[[], Awaitable[None]] = _done
    tell_approved: Callable[[Changed], Awaitable[None]] = _untold
    reload: Callable[[bool], Awaitable[Mapping[str, list[str]]]] = _no_file
    audit: Callable[[RecordFilter, int], Awaitable[list[dict[str, object]]]] | None = None
    configuration: ConfigurationFile | None = None
    sign_in: SignIn | None = None
    marking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def context(
        self, principal: Principal, endpoint: Endpoint = ALL, *, current: bool = False
    ) -> RequestContext:
        """The context of a request of `principal` at an endpoint."""
        version = MODERN_VERSIONS[-1]
        request = ClientRequest(
            principal, RestClient(), "modern", version, endpoint, everything=True
        )
        return await self.gateway.context(request, own_lists="current" if current else "known")

    def endpoint(self, path: str, principal: Principal | None) -> Endpoint:
        """The endpoint of a path below `/mcp`: "", `set/NAME` or `SERVER`.

        Args:
            path: where.
            principal: who asks; None: an administrator, who knows of all.

        Raises:
            Problem: there is none, or none of which the caller may see anything.
        """
        kind, name = "all", ""
        if path:
            kind, name = "server", path
            if path.startswith("set/"):
                kind, name = "set", path.removeprefix("set/")
        view = self.gateway.view
        found = (
            view.endpoint(kind, name)
            if principal is None
            else view.endpoint_for(principal, kind, name)
        )
        if found is None:
            raise Problem(
                422,
                "invalid_request",
                f"there is no endpoint {path[:80]!r}; expected nothing, a server or set/NAME",
                parameter="endpoint",
            )
        return found

    def endpoints(self, principal: Principal, *, everything: bool = False) -> list[str]:
        """Paths of the endpoints below `/mcp` at which `principal` sees anything, or of all."""
        view = self.gateway.view
        sets = list(view.settings.sets) if everything else view.sets_for(principal)
        servers = list(view.catalog.servers) if everything else view.servers.seen_by(principal)
        return ["", *(f"set/{name}" for name in sets), *servers]


def tool_of(context: RequestContext, name: str) -> ToolRecord:
    """The tool of that name, if the caller sees it.

    Raises:
        Problem: the caller sees no such tool.
    """
    record = context.view.tool(context, name)
    if record is None:
        raise Problem(404, "unknown_tool", f"there is no tool {name[:200]!r}")
    return record
