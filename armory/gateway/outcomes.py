"""Reports the outcomes of calls and listings to statistics, audit and learning.

Owns: `Outcomes`, which is called after the answer, never before it. Never imports a transport.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from cachetools import TTLCache
from msgspec import Raw

from armory.domain.query import Query
from armory.domain.results import CallOutcome, Exchanged, Listing, Selection
from armory.domain.tool import ToolRecord
from armory.feedback.attribution import QueryAttribution
from armory.gateway.context import RequestContext
from armory.gateway.ports import ToolEvents
from armory.gateway.queries.carriers import own_query
from armory.gateway.views.definitions import Form
from armory.protocol.link import Reply

_CONTENTS = 8_192
"""Bytes of arguments and of a result that observers get."""
_CALLERS = 10_000
_LAST_S = 3_600.0
"""How long a call counts as its caller's last one."""


class Outcomes:
    """Reports outcomes to the listeners.

    Args:
        events: takes the outcomes; None: nobody does.
        attribution: remembers queries, so that a call names the query before it; None: off.
        contents: whether outcomes include arguments and results.
    """

    def __init__(
        self,
        events: ToolEvents | None,
        attribution: QueryAttribution | None,
        *,
        contents: bool = False,
    ) -> None:
        self._events = events
        self._attribution = attribution
        self._contents = contents
        self._last: TTLCache[str, str] = TTLCache(_CALLERS, _LAST_S, time.monotonic)

    def last_tool(self, context: RequestContext) -> str | None:
        """The last tool that the request's session (or, without one, its principal) called; None:
        none lately, or `context_boosts` is off.
        """
        if not context.view.settings.context_boosts:
            return None
        return self._last.get(_caller_key(context))

    def called(
        self,
        context: RequestContext,
        record: ToolRecord,
        started: float,
        *,
        ok: bool | None,
        exchange: tuple[Mapping[str, Raw], Reply | None],
        searched: bool = False,
        sent: bool = True,
    ) -> None:
        """A call ended.

        Args:
            context: the request.
            record: the tool.
            started: `time.perf_counter` when it began.
            ok: whether it succeeded; None: it was cancelled.
            exchange: the client's parameters, and the result; None: the call was given up.
            searched: whether it was made through `call_tool`.
            sent: whether it was forwarded; else it was refused here.
        """
        if context.view.settings.context_boosts:
            self._last[_caller_key(context)] = record.name
        if self._events is None:
            return
        latency_ms = (time.perf_counter() - started) * 1_000
        principal, query = context.principal, None
        if ok and self._attribution is not None:
            query = own_query(context) or self._attribution.led_to(
                principal, record.name, context.session_id, searched=searched
            )
        exchanged = _exchanged(*exchange) if self._contents else None
        outcome = CallOutcome(record.name, ok, latency_ms, query, exchanged, sent)
        self._events.called(principal, outcome)

    def listed(
        self,
        context: RequestContext,
        query: Query,
        selection: Selection,
        names: Sequence[str],
        size_bytes: int,
        started: float,
    ) -> None:
        """A query was answered, by a listing or a meta-tool.

        Args:
            context: the request.
            query: what was asked.
            selection: what was found.
            names: exposed names of the tools that were returned.
            size_bytes: of the answer.
            started: `time.perf_counter` when it began.
        """
        if self._attribution is not None:
            matches = (match.tool.name for match in selection.matches)
            self._attribution.record_query(
                context.principal, query.texts, matches, context.session_id
            )
        top_score, degraded = selection.top_score, selection.degraded
        self._tell(context, query, names, size_bytes, started, top_score, degraded)

    def cut(
        self, context: RequestContext, names: Sequence[str], size_bytes: int, started: float
    ) -> None:
        """A listing without a query left tools out. Parameters as for `listed`."""
        self._tell(context, None, names, size_bytes, started)

    def _tell(
        self,
        context: RequestContext,
        query: Query | None,
        names: Sequence[str],
        size_bytes: int,
        started: float,
        top_score: float = 0.0,
        degraded: str | None = None,
    ) -> None:
        if self._events is None:
            return
        view = context.view
        visible, form = view.visible(context), Form(context.era)
        listing = Listing(
            query,
            visible=len(visible.tools),
            visible_bytes=view.listed.size_of(visible, form, estimated=query is None),
            returned_bytes=size_bytes,
            top_score=top_score,
            latency_ms=(time.perf_counter() - started) * 1_000,
            selected=tuple(names),
            degraded=degraded,
        )
        self._events.listed(context.principal, listing)


def _caller_key(context: RequestContext) -> str:
    return context.session_id or context.principal.key


def _exchanged(params: Mapping[str, Raw], reply: Reply | None) -> Exchanged:
    arguments = params.get("arguments")
    sent = None if arguments is None else bytes(memoryview(arguments)[:_CONTENTS])
    if reply is None:
        return Exchanged(sent, None)
    parts = reply.parts if reply.error is None else (memoryview(reply.error),)
    return Exchanged(sent, b"".join(memoryview(part)[:_CONTENTS] for part in parts)[:_CONTENTS])
