"""The audit, read over REST by administrators.

Owns: the route. Never writes a record.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from armory.audit.reading import RecordFilter
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape, Text
from armory.web.rest.shapes import MOMENT

_Pattern = Annotated[Text, Field(max_length=200)]


def _is_time(text: str) -> str:
    """Whether the text is a valid time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such time") from None
    return text


class AuditQuery(Shape):
    """Which records."""

    who: _Pattern | None = Field(default=None, description="Glob pattern.")
    tool: _Pattern | None = Field(default=None, description="Glob pattern.")
    since: Annotated[str, Field(pattern=MOMENT), AfterValidator(_is_time)] | None = Field(
        default=None, description="The oldest time, UTC, e.g. `2026-01-31T12:00`."
    )
    limit: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100, description="The latest so many."
    )


class AuditAnswer(Answer):
    """Records of `observability.audit` as they were written, oldest first."""

    records: list[dict[str, Any]]


def route(live: LiveGateway) -> Route:
    """The route."""
    return Route(
        "GET",
        "/v1/audit",
        partial(_audit, live),
        "Who asked what",
        AuditAnswer,
        tag="gateway",
        access="admin",
        params=AuditQuery,
        problems=(404,),
        description="What was asked a quarter of a second ago may not be written yet.",
    )


async def _audit(live: LiveGateway, call: RestCall) -> Reply:
    given: AuditQuery = call.params
    if live.audit is None:
        raise Problem(
            404,
            "audit_not_kept",
            "this gateway keeps no audit that it could read; see observability.audit.to",
        )
    wanted = RecordFilter(given.who, given.tool, given.since)
    return Reply({"records": await live.audit(wanted, given.limit)})
