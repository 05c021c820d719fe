"""Answers calls of `search_tools` and `find_tools`.

Owns: `MetaTools`: answering them, and letting what they found enter a session's list. Never imports
a chat library or retrieval.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from typing import Any

from msgspec import Raw

from armory.domain.query import Query
from armory.domain.results import Match, Selection
from armory.gateway.changes.changes import Changes
from armory.gateway.context import RequestContext
from armory.gateway.lists.tool_lists import ToolLists
from armory.gateway.metatools import answers as shapes
from armory.gateway.metatools.arguments import read_search
from armory.gateway.metatools.definitions import CALL, FIND, SEARCH, servers_shown
from armory.gateway.outcomes import Outcomes
from armory.gateway.ports import Finder, Limiter
from armory.gateway.queries.carriers import check_size, meta_explain
from armory.gateway.results.answers import Answers, unknown
from armory.gateway.views.definitions import ui_meta
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.methods import TOOLS_CHANGED

CALL_METHOD = "tools/call"
_MOST_CANDIDATES = 1_000
_DEFAULT_TOP_K = 10


class MetaTools:
    """Answers calls of the gateway's own tools.

    Args:
        lists: search what a caller sees.
        finder: gives the retrieval agent; None while there is none.
        limiter: asked before anything is searched.
        answers: put results in the form that was asked for.
        changes: told when a session's list grows.
        outcomes: records answered queries.
    """

    def __init__(
        self,
        lists: ToolLists,
        finder: Callable[[], Finder | None],
        limiter: Limiter,
        answers: Answers,
        changes: Changes,
        outcomes: Outcomes,
    ) -> None:
        self._lists = lists
        self._finder = finder
        self._limiter = limiter
        self._answers = answers
        self._changes = changes
        self._outcomes = outcomes

    def offered(self, context: RequestContext, name: str) -> bool:
        """Whether a meta-tool exists at this endpoint (listed or not)."""
        if context.endpoint.transparent:
            return False
        settings = context.view.settings
        if name == FIND:
            return settings.find_tools and self._finder() is not None
        return {SEARCH: settings.search_tools, CALL: settings.call_tool}.get(name, False)

    async def search(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer a call of `search_tools`.

        Raises:
            RpcError: an argument is missing or out of range.
            RateLimited: the caller has exceeded a limit.
        """
        started = time.perf_counter()
        arguments = read_search(params)
        query = arguments.as_query(context)
        check_size(query, context.view.settings)
        explain = meta_explain(context)
        await self._limiter.acquire(context.principal, CALL_METHOD, SEARCH)
        selection, skills = await self._found(context, query, explain=explain)
        structure = shapes.found_structure(
            selection,
            lambda: _servers(context),
            ui_meta,
            skills,
            lambda: _missing(context, query.servers),
        )
        if explain:
            structure["threshold"] = selection.threshold
            structure["refused"] = selection.refused
            structure["candidates"] = selection.candidates(_MOST_CANDIDATES)
        if selection.degraded:
            structure["degraded"] = selection.degraded
        names = [match.tool.name for match in selection.matches]
        self._reveal(context, names)
        result = shapes.result_of(structure, names, context.client.capabilities)
        reply = await self._answers.own(context, SEARCH, result)
        size = len(memoryview(reply.result or b""))
        self._outcomes.listed(context, query, selection, names, size, started)
        return reply

    async def find(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer a call of `find_tools`.

        Raises:
            RpcError: an argument is missing or out of range.
            RateLimited: the caller has exceeded a limit.
            BackendError: the model failed before anything was found.
        """
        started = time.perf_counter()
        finder = self._finder()
        if finder is None:
            raise unknown("tool", FIND)
        arguments = read_search(params)
        if len(arguments.texts) != 1:
            raise RpcError(
                INVALID_PARAMS,
                "arguments.query is a list; find_tools takes one text, the whole task",
                {"parameter": "arguments.query"},
            )
        query = replace(arguments.as_query(context), source="agent")
        check_size(query, context.view.settings)
        await self._limiter.acquire(context.principal, CALL_METHOD, FIND)
        view = context.view
        visible = view.common(view.visible(context))
        result = await finder.run(
            arguments.texts[0],
            visible=visible,
            user=context.user,
            rejected=arguments.rejected,
            top_k=query.top_k or _DEFAULT_TOP_K,
        )
        names = [finding.tool.name for finding in result.tools]
        self._reveal(context, names)
        structure = shapes.finding_structure(result)
        raw = shapes.result_of(structure, names, context.client.capabilities)
        reply = await self._answers.own(context, FIND, raw)
        matches = tuple(finding.match for finding in result.tools)
        best = max((match.score for match in matches), default=0.0)
        selection = Selection(matches, len(visible), 0.0, top_score=best)
        size = len(memoryview(reply.result or b""))
        self._outcomes.listed(context, query, selection, names, size, started)
        return reply

    async def _found(
        self, context: RequestContext, query: Query, *, explain: bool
    ) -> tuple[Selection, tuple[Match, ...]]:
        """The tools that a query finds, and the skills: none takes the place of a tool."""
        view = context.view
        skills = view.visible(context).skills
        if not skills:
            return await self._lists.search(context, query, explain=explain), ()
        most = view.settings.max_tools if query.top_k is None else query.top_k
        wide = replace(query, top_k=most + len(skills))
        found = await self._lists.search(context, wide, explain=explain, skills=True)
        found = replace(found, visible=_tools_among(context, query))
        return _without_skills(context, found, most)

    def _reveal(self, context: RequestContext, names: Iterable[str]) -> None:
        """Add the tools that a legacy session searched for to its list."""
        session = context.session
        if session is None or context.view.settings.reveal != "session":
            return
        new = set(names) - session.revealed
        if new:
            session.revealed.update(new)
            self._changes.tell_session(session.id, TOOLS_CHANGED)


def _tools_among(context: RequestContext, query: Query) -> int:
    """How many tools a query may find, without the skills."""
    view = context.view
    names, tools = view.searchable(view.visible(context)).names, view.catalog.tools
    if query.servers is None and query.categories is None:
        return len(names)
    fits = (tools[name] for name in names if name in tools)
    return sum(
        (query.servers is None or tool.server in query.servers)
        and (query.categories is None or tool.category in query.categories)
        for tool in fits
    )


def _without_skills(
    context: RequestContext, found: Selection, most: int
) -> tuple[Selection, tuple[Match, ...]]:
    """What was found, split into tools and skills, at most `most` of each."""
    known = context.view.catalog.skills
    tools = tuple(match for match in found.matches if match.tool.name not in known)
    skills = tuple(match for match in found.matches if match.tool.name in known)
    nearest = tuple(match for match in found.nearest if match.tool.name not in known)
    return replace(found, matches=tools[:most], nearest=nearest), skills[:most]


def _servers(context: RequestContext) -> tuple[list[dict[str, Any]], int]:
    """The servers with tools that the caller may call, and what each is for."""
    view = context.view
    visible, tables = view.visible(context), view.tables
    names = visible.tools.names - tables.apps
    counts = Counter({s: sum(map(names.__contains__, of)) for s, of in tables.by_server.items()})
    return shapes.about_servers(servers_shown(view.catalog, visible, tables.by_server), counts)


def _missing(context: RequestContext, servers: Set[str] | None) -> list[str]:
    """Those of the given servers of which the caller may call nothing, whether they
    exist or not.
    """
    if servers is None:
        return []
    view = context.view
    names = view.visible(context).tools.names - view.tables.apps
    by_server = view.tables.by_server
    return sorted(server for server in servers if names.isdisjoint(by_server.get(server, ())))
