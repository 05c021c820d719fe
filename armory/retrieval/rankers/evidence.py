"""Further evidence that orders the best candidates, in addition to their learned log-odds.

Owns: `Evidence`, and `ordered`, which applies it. Never imports indexes, embedders or the
retriever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.leaning import best_by_each, blended, kept_near_top, learned_share
from armory.retrieval.rankers.servers import reordered_by_server
from armory.retrieval.scoring.calibration import Lean

#: Log-odds by which an implied tool stays behind the best one, and one that is named before it.
_BEHIND = _AHEAD = 0.01
#: Log-odds between two implied tools that are raised alike.
_APART = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Of one query's k best candidates.

    Attributes:
        plain: formula -> (k,) values, which the learned order may lean on.
        near: (k,) mean score of the server of each, see `rankers.servers`; None: it does not count.
        implied: positions of those that do what the query implies (`lexical.implied`): their
            probability is raised to about 0.5.
        named: positions of those whose name a text is: none is before them.
        instead: positions of those that count as implied if the query would be refused.
    """

    plain: Mapping[str, FloatArray]
    near: FloatArray | None
    implied: Sequence[int] = ()
    named: Sequence[int] = ()
    instead: Sequence[int] = ()


def ordered(
    odds: FloatArray,
    evidence: Evidence,
    lean: Lean | None,
    query: Mapping[str, float],
    tools: int,
) -> FloatArray:
    """Log-odds in the order of the learned ones, plain formulas and servers together.

    Args:
        odds: (k,) learned log-odds.
        evidence: of the same candidates.
        lean: when to lean on which formulas; None: never.
        query: signals of the query.
        tools: how many are searched.
    """
    first: list[int] = []
    if lean is not None and evidence.plain:
        share = learned_share(lean, query, tools)
        odds = blended(odds, evidence.plain, lean.onto, share)
        if share < 1.0:
            onto = {name: v for name, v in evidence.plain.items() if name in lean.onto}
            first = best_by_each(onto)
    if evidence.near is not None:
        odds = reordered_by_server(odds, evidence.near, tools)
    return _first(_raised(kept_near_top(odds, first), evidence.implied), evidence.named)


def _raised(odds: FloatArray, places: Sequence[int]) -> FloatArray:
    """Log-odds with some candidates raised to about 0, but never to the best of all."""
    if not places:
        return odds
    least = min(float(odds.max()), 0.0) - _BEHIND
    raised = odds.copy()
    for place in sorted(places, key=lambda place: (-odds[place], place)):
        raised[place] = max(odds[place], np.float32(least))
        least -= _APART  # in the order of their own odds, not in that of the catalog
    return raised


def _first(odds: FloatArray, places: Sequence[int]) -> FloatArray:
    """Log-odds with some candidates raised above all others, and to 0 at least, in their order."""
    if not places:
        return odds
    level = max(float(odds.max()), 0.0)
    raised = odds.copy()
    for place in sorted(places, key=lambda place: (odds[place], -place)):
        level += _AHEAD
        raised[place] = level
    return raised
