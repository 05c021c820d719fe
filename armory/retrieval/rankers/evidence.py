"""What orders the best candidates beside what was learned of each of them.

Owns: `Evidence`, and `ordered`, which puts log-odds in the order of all of it. Never imports
indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.leaning import best_by, kept, leaned, trust
from armory.retrieval.rankers.servers import sided
from armory.retrieval.scoring.calibration import Lean

#: Log-odds by which what is implied stays behind the best.
_BEHIND = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Of one query's k best candidates.

    Attributes:
        plain: formula -> (k,) values, which the learned order may lean on.
        near: (k,) how near the server of each is, see `rankers.servers`; None: it does not count.
        implied: places of those that do what the query implies: as likely as not to be wanted.
    """

    plain: Mapping[str, FloatArray]
    near: FloatArray | None
    implied: Sequence[int] = ()


def ordered(
    odds: FloatArray,
    evidence: Evidence,
    lean: Lean | None,
    query: Mapping[str, float],
    tools: int,
) -> FloatArray:
    """Log-odds in the order of what was learned, plain formulas and servers.

    Args:
        odds: (k,) as learned.
        evidence: of the same candidates.
        lean: when to lean on which formulas; None: never.
        query: signals of the query.
        tools: how many are searched.
    """
    first: list[int] = []
    if lean is not None and evidence.plain:
        share = trust(lean, query, tools)
        odds = leaned(odds, evidence.plain, lean.onto, share)
        if share < 1.0:
            onto = {name: v for name, v in evidence.plain.items() if name in lean.onto}
            first = best_by(onto)
    if evidence.near is not None:
        odds = sided(odds, evidence.near, tools)
    return _raised(kept(odds, first), evidence.implied)


def _raised(odds: FloatArray, places: Sequence[int]) -> FloatArray:
    """Log-odds in which some candidates have about 0 at least, but less than the best of all."""
    if not places:
        return odds
    least = np.float32(min(float(odds.max()), 0.0) - _BEHIND)
    raised = odds.copy()
    raised[list(places)] = np.maximum(odds[list(places)], least)
    return raised
