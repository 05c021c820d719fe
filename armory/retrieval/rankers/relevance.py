"""The default ranker: everything that retrieval knows, weighed by what was learned.

Owns: the `relevance` ranker. Never imports indexes, embedders or the retriever.
"""

from __future__ import annotations

from armory.retrieval.ports import Evidence, Ranked, RankSettings
from armory.retrieval.rankers.base import explain, verdict
from armory.retrieval.rankers.signals import candidate_signals, fuse, query_signals


class RelevanceRanker:
    """Raw score: log-odds of being wanted."""

    name = "relevance"
    needs_dense = True

    def rank(self, evidence: Evidence, settings: RankSettings) -> Ranked:
        """Fuse the legs, weigh the signals of the best hundred, calibrate."""
        fusion = fuse(evidence)
        signals = candidate_signals(evidence, fusion)
        query = query_signals(evidence, signals)
        return verdict(
            self.name, evidence, settings, values=fusion.total, raw=None, best=fusion.best,
            signals=signals, query=query,
        )  # fmt: skip

    def reason(self, evidence: Evidence, ranked: Ranked, position: int) -> str:
        """See `Ranker.reason`."""
        return explain(evidence, ranked, position)
