"""tools/call, one straight line, read top-down.

Owns: resolving a tool, and forwarding its call. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Raw

from armory.domain.naming import LOG_IN
from armory.domain.tool import ToolRecord
from armory.errors import (
    BackendError,
    LoginNeeded,
    RateLimited,
    UnknownTool,
    UpstreamOverloaded,
    UpstreamPaused,
    UpstreamUnavailable,
)
from armory.gateway.calls.meta_tools import CALL_METHOD, MetaTools
from armory.gateway.calls.mirrored import mirrored_headers
from armory.gateway.calls.task_tools import drive, needs_task
from armory.gateway.context import RequestContext
from armory.gateway.metatools.arguments import reading_call
from armory.gateway.metatools.definitions import CALL, META_TOOLS, SEARCH
from armory.gateway.outcomes import Outcomes
from armory.gateway.ports import Limiter, Pool
from armory.gateway.results.answers import (
    Answers,
    failed_call,
    look_through,
    missing,
    succeeded,
    takes_long,
    unknown_call,
    with_nearest,
)
from armory.gateway.results.channels import exposed_channel
from armory.gateway.tasks.ownership import TaskOwnership, names_task
from armory.gateway.views.definitions import for_models
from armory.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import Call, Reply
from armory.protocol.rawjson import EMPTY_OBJECT, NULL, brief, need_text, pack, says_nothing
from armory.tasks import step_by_step

_FAILED = (UpstreamUnavailable, RateLimited, BackendError)
_UNSENT = (UpstreamPaused, UpstreamOverloaded, RateLimited, BackendError)
"""Failures in the gateway, before the call was sent."""
Renewed = Callable[[RequestContext, str], Awaitable[RequestContext]]


class ToolCalls:
    """Calls tools.

    Args:
        pool: the upstream sessions.
        limiter: asked before a call is forwarded.
        answers: maps names in results to those that the client knows.
        tasks: limits the tasks that calls may create.
        meta_tools: answers calls of the gateway's own tools.
        outcomes: records every call.
        renewed: fetches the lists of one upstream anew; returns the request's context with the view
            that has them.
    """

    def __init__(
        self,
        pool: Pool,
        limiter: Limiter,
        answers: Answers,
        tasks: TaskOwnership,
        meta_tools: MetaTools,
        outcomes: Outcomes,
        renewed: Renewed,
    ) -> None:
        self._pool = pool
        self._limiter = limiter
        self._answers = answers
        self._tasks = tasks
        self._meta_tools = meta_tools
        self._outcomes = outcomes
        self._renewed = renewed

    async def call(
        self, context: RequestContext, params: dict[str, Raw], *, raising: bool = False
    ) -> Reply:
        """Answer `tools/call`.

        Args:
            context: the request.
            params: its parameters.
            raising: whether a failure without an answer of the tool is raised; otherwise it becomes
                a result with `isError`.

        Raises:
            UnknownTool: the caller has no such tool: it is hidden, or does not exist.
            RpcError: the parameters are invalid.
            UpstreamUnavailable, RateLimited, BackendError: only with `raising`.
        """
        name = need_text(params, "name")
        searched = False
        if name in META_TOOLS and self._meta_tools.offered(context, name):
            if name != CALL:
                return await self._own(context, name, params)
            params = await step_by_step(reading_call(params))
            name = need_text(params, "name")
            searched = True
        record = context.view.tool(context, name)
        if record is None or (searched and not for_models(record)):
            try:  # else names could be guessed without limit
                await self._limiter.take(context.principal)
            except RateLimited as error:
                if raising:
                    raise
                return failed_call(error)
            if server := _login_at(context, name):
                return await self._pool.request(server, context.owner, _login(context))
            return self._missing(context, name, searched=searched)
        params = _with_an_object(params)
        params = self._meant_for(record.server, context, params)
        if names_task(params):
            params = await self._tasks.related(context, record.server, params)
        try:
            with self._tasks.room(context, params):
                return await self._forwarded(
                    context, record, params, searched=searched, raising=raising
                )
        except (RateLimited, BackendError) as error:  # refused by the gateway, not by the tool
            if raising:
                raise
            return failed_call(error)

    def _meant_for(
        self, server: str, context: RequestContext, params: dict[str, Raw]
    ) -> dict[str, Raw]:
        """The parameters as the server's era allows them: a modern call cannot ask for a task, and
        its client would not understand a handshake-era task.
        """
        modern = context.era == "modern"
        if "task" in params and modern and self._pool.era(server) == "legacy":
            params = {name: raw for name, raw in params.items() if name != "task"}
        return params

    async def _forwarded(
        self,
        context: RequestContext,
        record: ToolRecord,
        params: dict[str, Raw],
        *,
        searched: bool,
        raising: bool,
    ) -> Reply:
        hold = await self._limiter.acquire(context.principal, CALL_METHOD, record.name)
        started = time.perf_counter()
        ok: bool | None = False
        answered: Reply | None = None
        sent = True
        try:
            if needs_task(record, params):
                reply = await self._as_task(context, record, params)
            else:
                reply = await self._send(context, record, params)
                if _refuses_headers(reply, params):
                    reply = await self._again(context, record, params, reply)
            if takes_long(reply):
                await look_through(reply)
            ok, answered = succeeded(reply), reply
        except _FAILED as error:
            sent = not isinstance(error, _UNSENT)
            reply = answered = failed_call(error)
            if raising:
                raise
        except LoginNeeded:
            sent = False
            raise
        except asyncio.CancelledError:
            ok = None
            raise
        finally:
            if hold is not None:
                hold()
            self._outcomes.called(
                context, record, started,
                ok=ok, exchange=(params, answered), searched=searched, sent=sent,
            )  # fmt: skip
        return await self._answers.exposed(context, record.server, reply)

    def _missing(self, context: RequestContext, name: str, *, searched: bool) -> Reply:
        error = missing(self._pool, context, "tool", name)
        if isinstance(error, UpstreamUnavailable):
            return failed_call(error)
        if context.endpoint.transparent:
            try:
                raise error
            finally:
                del error  # which holds this frame by its trace
        own = [own for own in META_TOOLS if self._meta_tools.offered(context, own)]
        if searched and name in own:
            return unknown_call(f"{name} is called directly, not by {CALL}", (), search=False)
        nearest = context.view.nearest(context, name, own)
        if searched:
            return unknown_call(error.message, nearest, search=SEARCH in own)
        raise UnknownTool(with_nearest(error.message, nearest), nearest=nearest)

    async def _own(self, context: RequestContext, name: str, params: dict[str, Raw]) -> Reply:
        try:
            if name == SEARCH:
                return await self._meta_tools.search(context, params)
            return await self._meta_tools.find(context, params)
        except _FAILED as error:
            return failed_call(error)

    def _send(
        self, context: RequestContext, record: ToolRecord, params: dict[str, Raw]
    ) -> Awaitable[Reply]:
        return self._pool.request(
            record.server,
            context.owner,
            Call(
                method=CALL_METHOD,
                params={**params, "name": pack(record.original_name)},
                client=exposed_channel(context, record.server),
                name_header=record.original_name,
                param_headers=mirrored_headers(context.view.headers_of(record), params),
                safe_to_retry=_safe(record),
            ),
        )

    async def _again(
        self, context: RequestContext, record: ToolRecord, params: dict[str, Raw], refused: Reply
    ) -> Reply:
        """Handle an upstream's refusal of our headers, perhaps because the tool has changed: list
        again, and retry once if the headers differ then; otherwise return the refusal.
        """
        before = mirrored_headers(context.view.headers_of(record), params)
        context = await self._renewed(context, record.server)
        newer = context.view.catalog.tools.get(record.name)
        if newer is None or mirrored_headers(context.view.headers_of(newer), params) == before:
            return refused
        return await self._send(context, newer, params)

    async def _as_task(
        self, context: RequestContext, record: ToolRecord, params: dict[str, Raw]
    ) -> Reply:
        client = exposed_channel(context, record.server)

        async def send(method: str, sent: dict[str, Raw]) -> Reply:
            call = Call(method, sent, client, safe_to_retry=method == "tasks/get")
            return await self._pool.request(record.server, context.owner, call)

        return await drive(record.server, {**params, "name": pack(record.original_name)}, send)


def _login_at(context: RequestContext, name: str) -> str | None:
    """The upstream whose `log_in` tool a call names; None: it is another call.

    A retry counts even when the tool is not listed any more because the login was completed
    meanwhile.
    """
    endpoint = context.endpoint
    if endpoint.transparent:
        server = endpoint.name if name == LOG_IN else ""
    else:
        server = name.removesuffix(f"__{LOG_IN}")
    exposed = f"{server}__{LOG_IN}"
    if server == name or server not in context.view.settings.own_accounts:
        return None
    allowed = context.view.policy.allows(context.principal, exposed)
    return server if allowed and endpoint.scope.has_tool(server, exposed) else None


def _login(context: RequestContext) -> Call:
    return Call(CALL_METHOD, {"name": pack(LOG_IN)}, context.client, name_header=LOG_IN)


def _refuses_headers(reply: Reply, params: Mapping[str, Raw]) -> bool:
    """Whether the upstream refused the headers of a first attempt; a retry has the same ones."""
    if reply.error is None or code_of(reply.error) != HEADER_MISMATCH:
        return False
    return "inputResponses" not in params and "requestState" not in params


def _safe(record: ToolRecord) -> bool:
    hints = record.annotations
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


def _with_an_object(params: dict[str, Raw]) -> dict[str, Raw]:
    """The parameters with arguments that are an object, or none; a new dict where changed."""
    raw = params.get("arguments")
    if raw is None or bytes(memoryview(raw)[:1]) == b"{" or raw == NULL:
        return params
    if says_nothing(raw):
        return {**params, "arguments": EMPTY_OBJECT}
    raise RpcError(
        INVALID_PARAMS,
        f"params.arguments is {brief(raw)}; expected an object",
        {"parameter": "params.arguments"},
    )
