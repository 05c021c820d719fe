"""The full ranking of a query, of which a cut is shown.

Owns: `Ranking`, the one answer that MCP lists, REST, the library, the agent and evaluation read.
Never imports a concrete ranker, an embedder or an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from armory.domain.results import Match, Selection
from armory.domain.tool import ToolRecord
from armory.retrieval.features import CandidateFeatures, nothing
from armory.retrieval.options import Limits
from armory.retrieval.rankers.base import Ranker, Scores, no_scores
from armory.retrieval.ranking.cut import BELOW, REFUSED, Cut, capped, passing, refused
from armory.retrieval.ranking.tokens import TokenCounts
from armory.retrieval.scoring.ordering import Order

_NEAREST = 5
"""Tools that an answer without matches names as the nearest."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The full ranking of a query, before the cut. It is empty if nothing was searched.

    Attributes:
        features: what is known of the query's candidates.
        scores: the ranker's scores over them.
        order: (r,) positions of the candidates, best first, re-ranking and diversity applied.
        ranker: the ranker that scored; not the one asked for, where that needs vectors and there
            are none.
        tokens: what definitions cost, for cuts under a budget.
        degraded: what was lost, or None.
    """

    features: CandidateFeatures
    scores: Scores
    order: Order
    ranker: Ranker
    tokens: TokenCounts
    degraded: str | None = None

    @classmethod
    def empty(cls, ranker: Ranker, degraded: str | None = None) -> Ranking:
        """The ranking of a query without anything to search."""
        scores = no_scores()
        return cls(nothing(), scores, Order.of(scores.order), ranker, TokenCounts(), degraded)

    @property
    def top_score(self) -> float:
        """The best score of any candidate, 0 without one."""
        return float(self.scores.score.max(initial=0.0))

    def record(self, position: int) -> ToolRecord:
        """The tool of one candidate."""
        return self.features.records[position]

    def cut(self, limits: Limits, *, explain: bool = False) -> Cut:
        """The part of the ranking that may be shown under some limits.

        Args:
            limits: threshold and caps.
            explain: say of every other ranked candidate why it is not shown.
        """
        may = passing(self.features, self.scores, self.order, limits)
        every = explain or limits.token_budget is not None  # what costs too much is passed over
        shown = capped(
            self.order.among(may, None if every else limits.max_tools),
            limits,
            lambda position: self.tokens.of(self.record(position)),
            explain=explain,
        )
        if not explain:
            return shown
        why = REFUSED if refused(self.scores, limits) else BELOW
        return replace(
            shown, withheld=dict.fromkeys(self.order.among(~may).tolist(), why) | shown.withheld
        )

    def match(self, position: int) -> Match:
        """One candidate as a result for callers."""
        scores = self.scores
        return Match(
            tool=self.record(position),
            score=float(scores.score[position]),
            probability=float(scores.probability[position]),
            raw_score=float(scores.raw[position]),
            explanation=_Explained(self, position),
        )

    def select(self, limits: Limits, *, explain: bool = False) -> Selection:
        """The cut with its tools.

        Args:
            limits: threshold and caps.
            explain: fill `ranking` and `withheld` as well.
        """
        cut = self.cut(limits, explain=explain)
        everything = self.order.tolist() if explain else []
        return Selection(
            matches=tuple(self.match(i) for i in cut.shown),
            visible=self.features.visible,
            threshold=limits.threshold or 0.0,
            refused=self.scores.refused and limits.threshold_on != "raw",
            degraded=self.degraded,
            top_score=self.top_score,
            ranking=tuple(self.match(i) for i in everything),
            nearest=()
            if cut.shown
            else tuple(self.match(i) for i in self.order[:_NEAREST].tolist()),
            withheld={self.record(i).name: why for i, why in cut.withheld.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Explained:
    """The explanation of one candidate, computed when it is read: a listing shows none.

    Attributes:
        ranking: the candidate's.
        position: the candidate.
    """

    ranking: Ranking
    position: int

    @property
    def signals(self) -> Mapping[str, float]:
        """As `Explanation.signals`."""
        return self.ranking.scores.signals_at(self.position)

    @property
    def reason(self) -> str:
        """As `Explanation.reason`."""
        ranking = self.ranking
        return ranking.ranker.reason(ranking.features, ranking.scores, self.position)
