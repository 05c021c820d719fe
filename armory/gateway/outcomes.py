"""What came of calls and listings, for those who keep count.

Owns: `Outcomes`. Told after the answer, never before it. Never imports a transport.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from armory.domain.query import Query
from armory.domain.results import Listing, Selection
from armory.domain.tool import ToolRecord
from armory.feedback.attribution import QueryAttribution
from armory.gateway.context import RequestContext
from armory.gateway.ports import ToolEvents
from armory.gateway.query_parsing import own_query
from armory.gateway.views.definitions import Form


class Outcomes:
    """Passes outcomes on.

    Args:
        events: takes them; None: nobody.
        attribution: remembers queries, so that calls name the one before; None: they don't.
    """

    def __init__(self, events: ToolEvents | None, attribution: QueryAttribution | None) -> None:
        self._events = events
        self._attribution = attribution

    def called(
        self,
        context: RequestContext,
        record: ToolRecord,
        started: float,
        *,
        ok: bool,
        searched: bool = False,
    ) -> None:
        """A call ended.

        Args:
            context: the request.
            record: the tool.
            started: `time.perf_counter` when it began.
            ok: whether it went well.
            searched: whether it came by way of `call_tool`.
        """
        if self._events is None:
            return
        latency_ms = (time.perf_counter() - started) * 1_000
        principal, query = context.principal, None
        if ok and self._attribution is not None:
            query = own_query(context) or self._attribution.led_to(
                principal, record.name, context.session_id, searched=searched
            )
        self._events.called(principal, record.name, ok=ok, latency_ms=latency_ms, query=query)

    def listed(
        self,
        context: RequestContext,
        query: Query,
        selection: Selection,
        names: Sequence[str],
        size_bytes: int,
        started: float,
    ) -> None:
        """A query was answered, by a listing or by a meta-tool.

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
            self._attribution.asked(context.principal, query.texts, matches, context.session_id)
        if self._events is None:
            return
        view = context.view
        visible = view.visible(context)
        listing = Listing(
            query,
            visible=len(visible.tools),
            visible_bytes=view.size_of(visible, Form(context.era)),
            returned_bytes=size_bytes,
            top_score=selection.top_score,
            latency_ms=(time.perf_counter() - started) * 1_000,
            selected=tuple(names),
            degraded=selection.degraded,
        )
        self._events.listed(context.principal, listing)
