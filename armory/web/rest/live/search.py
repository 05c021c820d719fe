"""A search as a listing would run it, with all the numbers behind it.

Owns: the route. Searches as the request path does; reads policy once more to say what hides what.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from armory.domain.principal import Principal
from armory.domain.query import MAX_QUERY_CHARS, MAX_TEXTS, MAX_TOP_K, Query
from armory.domain.results import BYTES_PER_TOKEN, Listing, Match, Selection
from armory.errors import AccessDenied, InvalidRequest
from armory.gateway.context import RequestContext
from armory.gateway.settings import GatewaySettings
from armory.gateway.views.definitions import Form
from armory.retrieval.names import RANKERS
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.problems import limit_headers
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape, Text
from armory.web.rest.services import retrieval_off
from armory.web.rest.shapes import Name

_DESCRIBED = 400
_FORM = Form("modern")
_Intent = Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARS, pattern=r"\S")]


class SearchPrincipal(Shape):
    """Through whose eyes to look; for administrators. A token's name, or a user and scopes."""

    token: Name | None = Field(default=None, description="Name of a static token.")
    user: Name | None = None
    scopes: Annotated[list[Name], Field(max_length=50)] = Field(default=[])


class SearchBody(Shape):
    """A query and how to answer it; what is left out is as configured."""

    queries: Annotated[list[_Intent], Field(min_length=1, max_length=MAX_TEXTS)] = Field(
        description="The intents; each is searched for."
    )
    endpoint: Annotated[str, Field(max_length=200)] = Field(
        default="", description="Path below `/mcp`: nothing, a server, or `set/NAME`."
    )
    ranker: Literal[tuple(RANKERS)] | None = None  # pyright: ignore[reportInvalidTypeForm]
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K)] | None = None
    servers: Annotated[list[Name], Field(max_length=100)] | None = None
    categories: Annotated[list[Name], Field(max_length=100)] | None = None
    candidates: Annotated[int, Field(ge=0, le=MAX_TOP_K)] = Field(
        default=50, description="How many of the ranked tools are described, listed or not."
    )
    principal: SearchPrincipal | None = Field(
        default=None, description="Through whose eyes to search. For administrators."
    )


class Candidate(Answer):
    """One ranked tool."""

    name: str
    server: str
    title: str
    description: str
    score: float = Field(description="Calibrated, in [0, 1]; the threshold is compared with it.")
    probability: float
    raw_score: float = Field(description="The ranker's own formula.")
    signals: dict[str, float]
    reason: str
    withheld: str | None = Field(description="Why the listing lacks it; null: it is listed.")
    tokens: int


class HiddenCounts(Answer):
    """Tools of the catalog that were not searched, by what hides them."""

    endpoint: int
    policy: int
    packs: int
    apps: int = Field(description="Tools for apps alone, which models may not call.")


class SearchAnswer(Answer):
    """What a listing would show, and why."""

    listed: list[str] = Field(description="Exposed names, pinned ones included.")
    pinned: list[str]
    candidates: list[Candidate]
    ranked: int = Field(description="Tools that were ranked.")
    visible: int
    threshold: float
    refused: bool = Field(description="Whether the query was judged to need no tool.")
    degraded: str | None
    hidden: HiddenCounts | None = Field(
        description="Tools that were not searched, by what hides them. For administrators."
    )
    tokens: dict[str, int] = Field(description="Estimates: `all` definitions, those `listed`.")
    ms: dict[str, float] = Field(description="Milliseconds by stage.")


def route(live: LiveGateway) -> Route:
    """The route."""
    return Route(
        "POST",
        "/v1/search",
        partial(_search, live),
        "What a listing with a query shows, and why",
        SearchAnswer,
        tag="gateway",
        body=SearchBody,
        limit_headers=True,
        problems=(429,),
        description="Counts as a query; nothing is learned from it.",
    )


async def _search(live: LiveGateway, call: RestCall) -> Reply:
    given: SearchBody = call.body
    _check_size(given, live.gateway.view.settings)
    who = await _principal(live, call)
    if not live.gateway.tool_lists.filters(live.gateway.view.settings):
        raise retrieval_off()
    standing = await call.spend()
    started = time.perf_counter()
    endpoint = live.endpoint(given.endpoint, None if call.admin else who)
    context = await live.context(who, endpoint)
    view = context.view
    visible = view.visible(context)
    decided = time.perf_counter()
    for text in given.queries:
        await call.services.engine.embedding(text)
    embedded = time.perf_counter()
    query = _query(given, context.user)
    filtered = await live.gateway.tool_lists.choose(context, query, explain=True)
    ended = time.perf_counter()
    selection = filtered.selection
    whole = len(view.listed.all_tools(visible, _FORM))
    listing = Listing(
        query,
        visible=len(visible.tools),
        visible_bytes=whole,
        returned_bytes=len(filtered.body),
        top_score=selection.top_score,
        latency_ms=(ended - started) * 1_000,
        selected=tuple(filtered.names),
        degraded=selection.degraded,
    )
    live.activity.listed(call.principal, listing)
    body = {
        **_described(context, selection, filtered.names, given.candidates),
        "hidden": _hidden(context) if call.admin else None,
        "tokens": {
            "all": whole // BYTES_PER_TOKEN,
            "listed": len(filtered.body) // BYTES_PER_TOKEN,
        },
        "ms": {
            "visibility": _ms(started, decided),
            "embedding": _ms(decided, embedded),
            "ranking": round(selection.took_ms, 3),
            "listing": round(max(0.0, (ended - embedded) * 1_000 - selection.took_ms), 3),
            "total": _ms(started, ended),
        },
    }
    return Reply(body, headers=limit_headers(standing))


def _check_size(given: SearchBody, settings: GatewaySettings) -> None:
    """Refuse what a listing would refuse, too."""
    length = sum(map(len, given.queries))
    if length > settings.query_chars:
        raise InvalidRequest(
            f"the queries have {length:,} characters together; server.limits.query_chars allows "
            f"{settings.query_chars:,}",
            parameter="queries",
        )
    if given.top_k is not None and given.top_k > settings.query_top_k:
        raise InvalidRequest(
            f"top_k is {given.top_k}; server.limits.query_top_k allows {settings.query_top_k}",
            parameter="top_k",
        )


def _described(
    context: RequestContext, selection: Selection, names: list[str], count: int
) -> dict[str, object]:
    visible = context.view.visible(context)
    return {
        "listed": names,
        "pinned": list(context.view.pinned(visible)),
        "candidates": _candidates(context, selection, count),
        "ranked": len(selection.ranking),
        "visible": len(visible.tools),
        "threshold": selection.threshold,
        "refused": selection.refused,
        "degraded": selection.degraded,
    }


def _query(given: SearchBody, user: str) -> Query:
    return Query(
        tuple(given.queries),
        threshold=given.threshold,
        top_k=given.top_k,
        servers=None if given.servers is None else frozenset(given.servers),
        categories=None if given.categories is None else frozenset(given.categories),
        ranker=given.ranker,
        source="rest",
        user=user,
    )


async def _principal(live: LiveGateway, call: RestCall) -> Principal:
    eyes: SearchPrincipal | None = call.body.principal
    if eyes is None:
        return call.principal
    if not call.admin:
        raise AccessDenied("looking through the eyes of others is for the scope `admin`")
    if eyes.token is not None:
        if eyes.user is not None or eyes.scopes:
            raise InvalidRequest("give a token, or a user and scopes", parameter="principal.token")
        known = live.tokens().get(eyes.token)
        if known is None:
            message = f"no static token is called {eyes.token!r}"
            raise InvalidRequest(message, parameter="principal.token")
        who = known
    else:
        scopes = frozenset(eyes.scopes)
        who = Principal(eyes.user or "somebody", eyes.user, scopes, "internal")
    await live.admit(who)
    return who


def _candidates(
    context: RequestContext, selection: Selection, count: int
) -> list[dict[str, object]]:
    view = context.view
    matched = {match.tool.name for match in selection.matches}
    rest = (match for match in selection.ranking if match.tool.name not in matched)
    shown: list[dict[str, object]] = []
    for match in (*selection.matches, *rest):
        if len(shown) >= count:
            break
        if match.tool.name in view.tables.positions:
            size = len(view.listed.tool(match.tool.name, _FORM))
            withheld = None
            if match.tool.name not in matched:
                withheld = selection.withheld.get(match.tool.name, "below threshold")
            shown.append(_candidate(match, withheld, -(-size // BYTES_PER_TOKEN)))
    return shown


def _candidate(match: Match, withheld: str | None, tokens: int) -> dict[str, object]:
    tool = match.tool
    return {
        "name": tool.name,
        "server": tool.server,
        "title": tool.title,
        "description": tool.description[:_DESCRIBED],
        "score": round(match.score, 4),
        "probability": round(match.probability, 4),
        "raw_score": round(match.raw_score, 4),
        "signals": {name: round(float(value), 4) for name, value in match.signals.items()},
        "reason": match.reason,
        "withheld": withheld,
        "tokens": tokens,
    }


def _hidden(context: RequestContext) -> Mapping[str, int]:
    view, who, scope = context.view, context.principal, context.endpoint.scope
    counts = {"endpoint": 0, "policy": 0, "packs": 0, "apps": 0}
    visible = view.visible(context)
    searched = view.searchable(visible).names
    for name, tool in view.catalog.tools.items():
        if name in searched:
            continue
        if not scope.has_tool(tool.server, name):
            counts["endpoint"] += 1
        elif not view.policy.allows(who, name, packs=False):
            counts["policy"] += 1
        elif name not in visible.tools.names:
            counts["packs"] += 1
        else:
            counts["apps"] += 1
    return counts


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1_000, 3)
