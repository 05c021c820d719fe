"""Reordering the head of a ranking: a cross-encoder's order, then diversity.

Owns: when each applies, to how many. Never imports indexes or rankers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armory.retrieval.features import CandidateFeatures
from armory.retrieval.indexing.document import Document
from armory.retrieval.rankers.base import Scores
from armory.retrieval.ranking.diversity import mmr
from armory.retrieval.ranking.rerank import Reranker, reranked
from armory.retrieval.scoring.ordering import Order
from armory.retrieval.search.scope import Scope

_RERANKED = 30
_DIVERSE = 50


class Reorder:
    """Changes the order of a ranking's head; scores and threshold stay those of the ranker.

    Args:
        reranker: cross-encoder over the best 30; None: none.
        document: what is searched of a tool, by exposed name.
    """

    def __init__(self, reranker: Reranker | None, document: Callable[[str], Document]) -> None:
        self._reranker = reranker
        self._document = document

    async def order(
        self, scope: Scope, features: CandidateFeatures, scores: Scores, diversity: float | None
    ) -> Order:
        """(r,) positions of the candidates, best first.

        Args:
            scope: what was searched.
            features: its candidates.
            scores: theirs.
            diversity: weight in (0, 1] of relevance against novelty; None: relevance alone.
        """
        order = Order.of(scores.order)
        if self._reranker is not None:
            names = [features.records[i].name for i in order[:_RERANKED].tolist()]
            texts = [self._document(name).texts[0] for name in names]
            order = Order.of(await reranked(self._reranker, scope.query.texts, texts, order.whole))
        snapshot = scope.snapshot
        if diversity is None or not features.dense or snapshot.dense is not None:
            return order
        if snapshot.view is None:
            return order
        first = order[:_DIVERSE]
        vectors = await snapshot.view.vectors(features.rows[first])
        relevance = np.sort(scores.score[first])[::-1]  # as the order has it, a cross-encoder's too
        picked = mmr(relevance, vectors, diversity)
        return Order.of(np.concatenate([first[picked], order[_DIVERSE:]]))
