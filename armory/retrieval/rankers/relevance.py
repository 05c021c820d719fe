"""The default ranker: everything that retrieval knows, weighed by what was learned.

Owns: the `relevance` ranker. Never imports indexes, embedders or the retriever.
"""

from __future__ import annotations

from armory.retrieval.ports import CandidateFeatures, Ranked, RankSettings
from armory.retrieval.rankers.base import explain, verdict
from armory.retrieval.rankers.remembered import with_uses
from armory.retrieval.rankers.signals import candidate_signals, fuse, greatest, query_signals


class RelevanceRanker:
    """Raw score: log-odds of being wanted."""

    name = "relevance"
    needs_dense = True

    def rank(self, evidence: CandidateFeatures, settings: RankSettings) -> Ranked:
        """Fuse the legs, weigh the signals of the best hundred, calibrate.

        Memory of use says which tool; whether any is needed is judged by the descriptions.
        """
        learnt = with_uses(evidence)
        fusion = fuse(learnt)
        signals = candidate_signals(learnt, fusion)
        told = None
        if learnt is not evidence:
            cosines = [leg.cosine[fusion.best] for leg in evidence.legs if leg.cosine is not None]
            told = greatest(cosines) if cosines else None
        query = query_signals(learnt, signals, told)
        return verdict(
            self.name, evidence, settings, values=fusion.total, raw=None, best=fusion.best,
            signals=signals, query=query,
        )  # fmt: skip

    def reason(self, evidence: CandidateFeatures, ranked: Ranked, position: int) -> str:
        """See `Ranker.reason`."""
        return explain(evidence, ranked, position)
