"""Usage, quota and the query log over REST.

Owns: the routes. Shows no tool that policy hides from the caller, and no user's usage to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from pydantic import Field

from armory.accounts.usage.rows import quota_row, tool_rows, user_rows
from armory.accounts.usage.statistics import UsageStatistics
from armory.accounts.usage.store import ToolStatistics
from armory.errors import AccessDenied
from armory.threads import for_callers_if
from armory.web.rest.problems import limit_headers
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape
from armory.web.rest.shapes import Name

_TAG = "status"
_MANY = 1_000
"""Tools whose figures are put together beside the event loop: 15,000 take 0.1 s."""


class UsageParams(Shape):
    """Whose figures; another user's are for administrators."""

    user: Name | None = None


class QueryLogParams(UsageParams):
    """How many of the latest records."""

    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


class UserToolAnswer(Answer):
    """What one user has done with one tool."""

    tool: str
    uses: int
    successes: int
    last_used_at_ms: int


class UserUsage(Answer):
    """What one user has used."""

    user: str
    tools: list[UserToolAnswer]


class ToolUsageAnswer(Answer):
    """One tool over the window."""

    tool: str
    uses: int
    successes: int
    error_rate: float
    uptime: float = Field(description="Share of the time that its server was up, 0 to 1.")
    p50_ms: float
    p99_ms: float
    last_used_at_ms: int


class ToolUsage(Answer):
    """The tools that the caller may see, most used first."""

    tools: list[ToolUsageAnswer]


class QuotaAnswer(Answer):
    """A user's usage and quota of this month."""

    plan: str
    queries_limit: int | None = Field(description="Queries a month; null: without limit.")
    current_month_usage: int
    remaining: int | None
    resets_at_s: int


class QueryAnswer(Answer):
    """One record of the query log."""

    query_id: str
    at_ms: int
    user: str | None
    surface: str
    query: str
    returned: list[str]
    visible: int
    top_score: float
    took_ms: float
    degraded: str | None


class QueryList(Answer):
    """The latest queries, newest first."""

    queries: list[QueryAnswer]


def routes() -> list[Route]:
    """The routes of usage, quota and the query log."""
    return [
        Route("GET", "/v1/usage", usage, "What a user has used", UserUsage, access="user",
              params=UsageParams, tag=_TAG),
        Route("GET", "/v1/usage/tools", tool_usage, "Statistics of tools", ToolUsage, tag=_TAG),
        Route("GET", "/v1/quota", quota, "Queries left this month", QuotaAnswer, access="user",
              params=UsageParams, limit_headers=True, accounts=True, tag=_TAG),
        Route("GET", "/v1/queries", queries, "The query log", QueryList, access="user",
              params=QueryLogParams, tag=_TAG),
    ]  # fmt: skip


def _user_meant(call: RestCall) -> str:
    """The user whose figures are meant: the caller, or any user for an administrator.

    Raises:
        AccessDenied: somebody else's, and the caller is no administrator.
    """
    asked = call.params.user
    if asked is None or (call.principal.user is not None and asked == call.principal.user):
        return call.user
    if not call.admin:
        raise AccessDenied("other users' figures are for the scope `admin`")
    return str(asked)


async def usage(call: RestCall) -> Reply:
    """`GET /v1/usage`."""
    user = _user_meant(call)
    used = await call.services.accounts.usage.of_user(user)
    return Reply({"user": user, "tools": user_rows(used)})


async def tool_usage(call: RestCall) -> Reply:
    """`GET /v1/usage/tools`."""
    visible = call.services.policy().visible_tools(call.services.catalog(), call.principal).names
    usage = call.services.accounts.usage
    used = usage.tools()
    shown = used if call.admin else {n: s for n, s in used.items() if n in visible}
    return Reply(await for_callers_if(len(shown) > _MANY, _tools_json, usage, shown))


def _tools_json(usage: UsageStatistics, shown: Mapping[str, ToolStatistics]) -> bytes:
    return msgspec.json.encode({"tools": tool_rows(usage, shown)})


async def quota(call: RestCall) -> Reply:
    """`GET /v1/quota`."""
    standing = await call.services.accounts.plans.standing(_user_meant(call))
    body = quota_row(standing) | {"resets_at_s": standing.resets_at_s}
    return Reply(body, headers=limit_headers(standing))


async def queries(call: RestCall) -> Reply:
    """`GET /v1/queries`."""
    whole = call.admin and call.params.user is None
    user = None if whole else _user_meant(call)
    log = call.services.accounts.query_log
    return Reply({"queries": await log.recent(user=user, limit=call.params.limit)})
