"""Queries that administrators label, as a set that `armory eval` and `armory tune` take.

Owns: the routes. Never knows the files.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from pydantic import Field

from armory.domain.query import MAX_QUERY_CHARS
from armory.evaluation.marks import Marked
from armory.web.rest.live.access import LiveGateway, tool_of
from armory.web.rest.problems import not_found
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape, Text
from armory.web.rest.shapes import Name


class Label(Shape):
    """A judgement of a tool for a query."""

    query: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARS, pattern=r"\S")]
    tool: Name | None = Field(
        default=None, description="Exposed name; null with `right: false`: no tool fits."
    )
    right: bool | None = Field(
        description="Whether the tool was right; null takes back what was said."
    )


class LabelAnswer(Answer):
    """A labelled query."""

    query: str
    right: list[str]
    wrong: list[str]
    none: bool = Field(description="Whether no tool fits.")


class Labels(Answer):
    """The labelled queries."""

    folder: str = Field(description="What `armory eval` and `armory tune` take, on the gateway.")
    labels: list[LabelAnswer]


def routes(live: LiveGateway) -> list[Route]:
    """The routes of labels."""
    return [
        Route("GET", "/v1/labels", partial(_list, live), "Labelled queries", Labels,
              access="admin", tag="gateway", problems=(404,)),
        Route("POST", "/v1/labels", partial(_mark, live), "Label a query", LabelAnswer,
              access="admin", tag="gateway", body=Label, problems=(404,)),
    ]  # fmt: skip


async def _list(live: LiveGateway, call: RestCall) -> Reply:
    if live.marks is None:
        raise not_found("folder of labels")
    found = await asyncio.to_thread(live.marks.all)
    return Reply({"folder": str(live.marks.folder), "labels": [_shown(m) for m in found]})


async def _mark(live: LiveGateway, call: RestCall) -> Reply:
    if live.marks is None:
        raise not_found("folder of labels")
    given: Label = call.body
    context = await live.context(call.principal)
    if given.tool is not None:
        tool_of(context, given.tool)
    tools = list(context.view.catalog.tools.values())
    async with live.marking:
        marked = await asyncio.to_thread(
            live.marks.mark, given.query, given.tool, given.right, tools
        )
    return Reply(_shown(marked))


def _shown(marked: Marked) -> dict[str, object]:
    return {
        "query": marked.query,
        "right": list(marked.right),
        "wrong": list(marked.wrong),
        "none": marked.none,
    }
