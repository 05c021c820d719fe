"""Retrieval over REST: V1, V2 and `/v1/retrieve_tools`.

Owns: the routes and the shapes of their parameters. Never ranks anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal
from uuid import uuid4

import msgspec
from aiohttp import web
from pydantic import Field, create_model

from armory.accounts.query_log import QueryRecord
from armory.agent.findings import AgentResult, Event
from armory.domain.query import Query
from armory.errors import ArmoryError, AuthenticationFailed, GatewayEnds
from armory.logger import Logger
from armory.retrieval.names import RANKERS
from armory.security.expiry import while_valid
from armory.web.rest.problems import Problem, answered_overdue, limit_headers, problem_of
from armory.web.rest.requests import encode
from armory.web.rest.routes import Reply, RestCall, Route, Shape, Text
from armory.web.rest.searching import Searching, SearchOutcome, SearchRequest, record_json
from armory.web.rest.services import Agent, RestLimits
from armory.web.rest.shapes import (
    AGENT_FIELDS,
    Context,
    Digests,
    Filter,
    Hour,
    Name,
    RankedTools,
    Rejected,
    Score,
    Tools,
    digests_of,
)

_log = Logger(__name__)


class RetrieveHandlers:
    """The handlers.

    Args:
        searching: how to search.
        limits: what may be asked for.
        agent: the retrieval agent, where enabled.
    """

    def __init__(self, searching: Searching, limits: RestLimits, agent: Agent | None) -> None:
        self._searching = searching
        self._limits = limits
        self._agent = agent

    def routes(self) -> list[Route]:
        """The routes of retrieval."""
        query, top_k = _limited(self._limits)
        ranker: Any = Literal[tuple(RANKERS)]  # pyright: ignore[reportInvalidTypeForm]
        optional: Any = ranker | None
        simple = create_model("Simple", __base__=Shape, query=query, top_k=top_k)
        params = create_model(
            "RetrieveParams",
            __base__=Shape,
            query=query,
            top_k=top_k,
            ranker=(optional, Field(default=None, description=", ".join(RANKERS))),
            server=(Name | None, None),
            category=(Name | None, None),
            min_score=(Score | None, None),
            mode=(Literal["search", "agent"], "search"),
            debug=(bool, False),
            hour=(Hour | None, None),
            last_tool=(Name | None, None),
            rejected=(Digests, ""),
        )
        body = create_model(
            "Retrieve",
            __base__=Shape,
            query=query,
            top_k=top_k,
            ranker=(ranker, "multi_factor"),
            filter=(Filter, Field(default_factory=Filter)),
            mode=(Literal["search", "agent"], "search"),
            debug=(bool, False),
            context=(Context, Field(default_factory=Context)),
            rejected=(Rejected, Field(default=[])),
        )
        spent: dict[str, Any] = {"problems": (429,), "limit_headers": True}
        return [
            Route("GET", "/retrieve_tools", self.v1, _V1, Tools, params=simple, **spent),
            Route("GET", "/v2/retrieve_tools", self.v2, _V2, Tools, params=simple, **spent),
            Route("GET", "/v1/retrieve_tools", self.ranked_get, _RANKED, RankedTools,
                  params=params, description=_RANKED_TEXT, **spent),
            Route("POST", "/v1/retrieve_tools", self.ranked_post, _RANKED, RankedTools,
                  body=body, streams=True, description=_RANKED_TEXT, **spent),
        ]  # fmt: skip

    # -- handlers ----------------------------------------------------------------------------

    async def v1(self, call: RestCall) -> Reply:
        """`GET /retrieve_tools`: cosine order, without the user's packs."""
        return await self._simple(call, "semantic", "v1")

    async def v2(self, call: RestCall) -> Reply:
        """`GET /v2/retrieve_tools`: hybrid within the user's packs; V1 for callers without one."""
        path = _path_of(call)
        return await self._simple(call, "hybrid" if path == "v2" else "semantic", path)

    async def ranked_get(self, call: RestCall) -> Reply | web.StreamResponse:
        """`GET /v1/retrieve_tools`."""
        given = call.params
        filters = Filter(server=given.server, category=given.category, min_score=given.min_score)
        context = Context(hour=given.hour, last_tool=given.last_tool)
        return await self._ranked(call, given, filters, context)

    async def ranked_post(self, call: RestCall) -> Reply | web.StreamResponse:
        """`POST /v1/retrieve_tools`."""
        return await self._ranked(call, call.body, call.body.filter, call.body.context)

    # -- how ---------------------------------------------------------------------------------

    async def _simple(self, call: RestCall, ranker: str, path: str) -> Reply:
        started = time.perf_counter()
        given = call.params
        query = Query((given.query,), ranker=ranker, source="rest", user=call.principal.owner)
        return await self._found(call, SearchRequest(query, given.top_k), path, started)

    async def _ranked(
        self, call: RestCall, given: Any, filters: Filter, context: Context
    ) -> Reply | web.StreamResponse:
        started = time.perf_counter()
        if given.mode == "agent":
            return await self._run_agent(call, given, started)
        query = Query(
            (given.query,),
            servers=frozenset((filters.server,)) if filters.server else None,
            categories=frozenset((filters.category,)) if filters.category else None,
            ranker=given.ranker or "multi_factor",
            source="rest",
            hour=context.hour,
            last_tool=context.last_tool,
            user=call.principal.owner,
        )
        wanted = SearchRequest(query, given.top_k, filters.min_score, given.debug)
        return await self._found(call, wanted, _path_of(call), started)

    async def _found(
        self, call: RestCall, wanted: SearchRequest, path: str, started: float
    ) -> Reply:
        """The answer to a search; on the path `v2` within the user's packs."""
        standing = await call.spend()
        found = await self._searching.search(call.principal, wanted, packs=path == "v2")
        (text,) = wanted.query.texts
        body = self._body(call, text, found, path, started)
        return Reply(msgspec.json.encode(body), headers=limit_headers(standing))

    def _body(
        self, call: RestCall, text: str, found: SearchOutcome, path: str, started: float
    ) -> dict[str, Any]:
        """The members of an answer; also logs the query."""
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        query_id = uuid4().hex
        self._log(call, query_id, text, found, path, took_ms)
        body: dict[str, Any] = {"tools": msgspec.Raw(found.tools), "query_id": query_id}
        body |= {"took_ms": took_ms, "path": path}
        if found.degraded is not None:
            body["degraded"] = found.degraded
        if found.debug is not None:
            body["debug"] = msgspec.Raw(found.debug)
        return body

    def _log(
        self,
        call: RestCall,
        query_id: str,
        text: str,
        found: SearchOutcome,
        path: str,
        took_ms: float,
    ) -> None:
        if call.services.record_query is not None:
            call.services.record_query(call.principal, (text,), found.names)
        call.services.accounts.query_log.add(
            QueryRecord(
                query_id,
                call.principal.user,
                f"rest:{path}",
                text,
                found.names,
                found.visible,
                found.top_score,
                took_ms,
                found.degraded,
            )
        )

    async def _run_agent(
        self, call: RestCall, given: Any, started: float
    ) -> Reply | web.StreamResponse:
        if self._agent is None:
            raise Problem(
                422,
                "agent_disabled",
                "the retrieval agent is off; see agent.enabled, or take mode `search`",
                parameter="mode",
            )
        for name, field in type(given).model_fields.items():
            usual = field.get_default(call_default_factory=True)
            if name not in _AGENT_TAKES and getattr(given, name) != usual:
                message = f"`{name}` does not go with mode `agent`"
                raise Problem(422, "invalid_request", message, parameter=name)
        standing = await call.spend()
        path = _path_of(call)
        visible = self._searching.visible(call.principal, packs=path == "v2")
        asked: dict[str, Any] = {"visible": visible, "user": call.principal.owner}
        asked["top_k"] = given.top_k
        asked["rejected"] = digests_of(given.rejected)

        def body_of(result: AgentResult) -> bytes:
            return self._agent_body(call, given.query, result, len(visible), path, started)

        headers = limit_headers(standing)
        if "text/event-stream" in call.request.headers.get("Accept", ""):
            events = self._agent.stream(given.query, **asked)
            return await self._stream(call, events, body_of, headers)
        return Reply(body_of(await self._agent.run(given.query, **asked)), headers=headers)

    def _agent_body(
        self,
        call: RestCall,
        text: str,
        result: AgentResult,
        visible: int,
        path: str,
        started: float,
    ) -> bytes:
        """The answer of a run of the agent, logged as any search."""
        tools = [
            record_json(f.tool, score=f.score, relevance=f.match.score, reason=f.reason)
            for f in result.tools
        ]
        names = tuple(tool["name"] for tool in tools)
        top = float(tools[0]["score"]) if tools else 0.0
        found = SearchOutcome(msgspec.json.encode(tools), names, visible, top)
        body = self._body(call, text, found, path, started)
        said = result.as_json()
        return msgspec.json.encode(body | {name: said[name] for name in AGENT_FIELDS})

    async def _stream(
        self,
        call: RestCall,
        run: AsyncGenerator[Event, None],
        body_of: Callable[[AgentResult], bytes],
        limits: Mapping[str, str],
    ) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", **call.cors}
        headers |= {"X-Request-ID": call.request_id, **limits}
        response = web.StreamResponse(headers=headers)

        async def steps() -> None:
            async with aclosing(run) as events:
                async for event in events:
                    if not response.prepared:  # an error before the first event is still a problem
                        await response.prepare(call.request)
                    data = event.as_json()
                    if event.result is not None:
                        data["result"] = msgspec.Raw(body_of(event.result))
                    await response.write(_event(event.kind, data))

        try:
            if not await while_valid(call.principal, steps()):
                raise AuthenticationFailed(_EXPIRED)
        except (Exception, asyncio.CancelledError) as error:
            if not response.prepared or not _can_be_told(error, call.request):
                raise
            await response.write(_event("error", _problem(error)))  # a problem has no place here
        await response.write_eof()
        return response


def _path_of(call: RestCall) -> str:
    """`v2` for callers with a user, whose packs apply; else `v1`."""
    return "v2" if call.principal.user is not None else "v1"


def _can_be_told(error: BaseException, request: web.Request) -> bool:
    """Whether the client is still connected to receive an error."""
    if isinstance(error, asyncio.CancelledError):
        return answered_overdue(request)
    return not isinstance(error, ConnectionError)


def _problem(error: BaseException) -> dict[str, str]:
    """The error that is sent once a stream has begun."""
    if isinstance(error, asyncio.CancelledError):
        problem = problem_of(GatewayEnds())
    elif isinstance(error, ArmoryError):
        problem = problem_of(error)
    else:
        _log.rate_limited("error", "rest_stream_crashed", exc_info=error)
        problem = Problem(500, "internal", "something went wrong inside; see the log")
    return {"code": problem.code, "detail": problem.detail}


def _event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(data))


def _limited(limits: RestLimits) -> tuple[Any, Any]:
    query = Annotated[Text, Field(min_length=1, max_length=limits.query_chars, pattern=r"\S")]
    top_k = Annotated[int, Field(ge=1, le=limits.top_k)]
    return (query, ...), (top_k, min(5, limits.top_k))


_AGENT_TAKES = frozenset(("query", "top_k", "mode", "rejected"))
_EXPIRED = "the credential has expired meanwhile; ask again with a new one"
_V1 = "Tools by meaning alone, over everything that policy allows"
_V2 = "Tools by meaning and words, within the user's active packs and servers"
_RANKED = "Tools ranked by several factors, with filters, reasons and numbers"
_RANKED_TEXT = (
    "`debug` adds the numbers behind the ranking. `mode: agent` lets the retrieval agent search "
    "(POST with `Accept: text/event-stream` streams its steps, the last one with the whole answer; "
    "`rejected` names by digest the `chunks` of earlier answers that were of no use). A caller "
    "with a user searches within its active packs."
)
