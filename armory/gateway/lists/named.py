"""Tools that a query names exactly: by their own name, or by their server's.

Owns: putting them before what else was found, under the same caps. Never searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from armory.domain.query import Query
from armory.domain.results import BYTES_PER_TOKEN, KnownExplanation, Match, Selection
from armory.domain.visibility import VisibleCatalog
from armory.gateway.views.definitions import Form, for_models
from armory.gateway.views.names import NEAREST
from armory.gateway.views.view import View

_CALLED = 20
"""Tools that a query finds by being their name, or their server's."""
_CAP, _BUDGET = "cap", "token budget"


def with_named(
    view: View, form: Form, query: Query, visible: VisibleCatalog, found: Selection
) -> Selection:
    """The search result, with the tools first whose own or whose server's name the query is.

    Args:
        view: whose names and caps count.
        form: of the definitions that a token budget counts.
        query: what was searched for.
        visible: what the caller may see.
        found: within the caps.
    """
    named = _named(view, query, visible)
    if not named:
        return found
    place = {match.tool.name: number for number, match in enumerate(found.matches)}
    best = sorted(named, key=lambda name: place.get(name, len(place)))[:_CALLED]
    signals = {match.tool.name: match.signals for match in found.ranking}
    first = [
        Match(
            view.catalog.tools[n],
            1.0,
            1.0,
            1.0,
            KnownExplanation({**signals.get(n, {}), "name": 1.0}, named[n]),
        )
        for n in best
    ]
    matches, left_out = _capped(view, form, query, [*first, *_others(best, found.matches)])
    return replace(
        found,
        matches=tuple(matches),
        ranking=(*first, *_others(best, found.ranking)) if found.ranking else (),
        withheld={**found.withheld, **left_out} if found.ranking else found.withheld,
        nearest=() if matches else tuple(first[:NEAREST]),
        refused=False,
        top_score=1.0,
    )


def _named(view: View, query: Query, visible: VisibleCatalog) -> dict[str, str]:
    """The tools that the query names, with the reason."""
    named: dict[str, str] = {}
    for text in query.texts:
        for name, why in view.names.called(text).items():
            tool = view.catalog.tools[name]
            wanted = query.servers is None or tool.server in query.servers
            wanted &= query.categories is None or tool.category in query.categories
            if wanted and name in visible.tools.names and for_models(tool):
                named.setdefault(name, why)
    return named


def _others(named: Iterable[str], matches: Iterable[Match]) -> list[Match]:
    taken = frozenset(named)
    return [match for match in matches if match.tool.name not in taken]


def _capped(
    view: View, form: Form, query: Query, matches: Iterable[Match]
) -> tuple[list[Match], Mapping[str, str]]:
    """The matches within the caps on number and tokens, and the reason why each other
    one is not.
    """
    settings = view.settings
    most = settings.max_tools if query.top_k is None else query.top_k
    budget = settings.token_budget
    left = 0 if budget is None else budget * BYTES_PER_TOKEN
    kept: list[Match] = []
    left_out: dict[str, str] = {}
    for match in matches:
        name = match.tool.name
        if len(kept) >= most:
            left_out[name] = _CAP
            continue
        # skills are no definitions of tools
        if budget is not None and name in view.tables.positions:
            size = len(view.listed.tool(name, form))
            if size > left:
                left_out[name] = _BUDGET
                continue
            left -= size
        kept.append(match)
    return kept, left_out
