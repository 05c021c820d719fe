"""Forwards one request to one upstream, and maps its answer to the client's names.

Owns: `Forwarder`, for everything but tools/call, and `located`, whose a URI is. Never imports a
transport.
"""

from __future__ import annotations

from msgspec import Raw

from armory.domain.naming import expose_uri, split_uri
from armory.errors import ArmoryError, UpstreamUnavailable
from armory.gateway.context import RequestContext
from armory.gateway.ports import Limiter, Pool
from armory.gateway.results.answers import Answers, missing, not_known, with_nearest
from armory.gateway.results.channels import exposed_channel
from armory.gateway.tasks.ownership import TaskOwnership, names_task
from armory.protocol.codes import INVALID_PARAMS, RESOURCE_NOT_FOUND
from armory.protocol.errors import RpcError
from armory.protocol.link import Call, Reply


class Forwarder:
    """Forwards requests.

    Args:
        pool: the upstream sessions.
        limiter: asked before a request is forwarded.
        answers: put results in the client's names.
        tasks: whose tasks are.
    """

    def __init__(
        self, pool: Pool, limiter: Limiter, answers: Answers, tasks: TaskOwnership
    ) -> None:
        self._pool = pool
        self._limiter = limiter
        self._answers = answers
        self._tasks = tasks

    async def send(
        self,
        context: RequestContext,
        server: str,
        method: str,
        params: dict[str, Raw],
        name: str | None = None,
        *,
        safe_to_retry: bool = False,
    ) -> Reply:
        """Send one request.

        Args:
            context: the client's request.
            server: the upstream.
            method: what it is asked.
            params: in its own names.
            name: what `Mcp-Name` is to say; None: nothing.
            safe_to_retry: whether sending it twice is harmless.

        Raises:
            RateLimited: the caller has exceeded its rate.
            BackendError: the store that replicas share cannot tell whose a task is.
            UpstreamUnavailable: the upstream cannot answer.
        """
        if names_task(params):
            params = await self._tasks.related(context, server, params)
        hold = await self._limiter.acquire(context.principal, method, name or server)
        call = Call(
            method=method,
            params=params,
            client=exposed_channel(context, server),
            name_header=name,
            safe_to_retry=safe_to_retry,
        )
        try:
            reply = await self._pool.request(server, context.owner, call)
        finally:
            if hold is not None:
                hold()
        return await self._answers.exposed(context, server, reply)

    async def located(self, context: RequestContext, uri: str) -> tuple[str, str]:
        """As the function `located`; an unknown URI counts against the caller's rate.

        Raises:
            RateLimited: the caller has exceeded its rate.
            RpcError, UpstreamUnavailable: as of `located`.
        """
        try:
            return located(self._pool, context, uri)
        except (RpcError, UpstreamUnavailable):
            await self._limiter.take(context.principal)
            raise

    async def missing(self, context: RequestContext, kind: str, name: str) -> ArmoryError:
        """As `results.answers.missing`; counts against the caller's rate.

        Raises:
            RateLimited: the caller has exceeded its rate.
        """
        await self._limiter.take(context.principal)
        return missing(self._pool, context, kind, name)


def place_of(context: RequestContext, uri: str) -> tuple[str, str] | None:
    """(server, original URI) of a URI as the client knows it; None: unknown to this caller."""
    endpoint = context.endpoint
    place = (endpoint.name, uri) if endpoint.transparent else split_uri(uri)
    return place if place is not None and context.view.may_read(context, *place) else None


def located(pool: Pool, context: RequestContext, uri: str) -> tuple[str, str]:
    """As `place_of`, but an unknown URI is an error.

    Raises:
        RpcError: nothing there for this caller.
        UpstreamUnavailable: its upstream is down, and has never said what it has.
    """
    place = place_of(context, uri)
    if place is None:
        server, _ = split_uri(uri) or ("", "")
        if server and not context.endpoint.transparent:
            error = not_known(pool, context, "resource", server, uri)
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # which holds this frame by its trace
        raise unknown_resource(context, uri)
    return place


def unknown_resource(context: RequestContext, uri: str) -> RpcError:
    """The error for an unknown resource, in the client's era."""
    code = RESOURCE_NOT_FOUND if context.era == "legacy" else INVALID_PARAMS
    nearest = () if context.endpoint.transparent else _exposed(context, uri)
    data = {"uri": uri, "nearest": nearest} if nearest else {"uri": uri}
    return RpcError(code, with_nearest(f"unknown resource: {uri[:200]}", nearest), data)


def _exposed(context: RequestContext, uri: str) -> list[str]:
    """The listed URIs of a resource by the URI that its upstream calls it, as texts of tools do."""
    listed = context.view.visible(context).resources
    exposed = (expose_uri(server, uri) for server in context.view.catalog.servers)
    return [each for each in exposed if each in listed]
