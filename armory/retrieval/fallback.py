"""What a search does while it has words and no vectors.

Owns: which ranker stands in, how sure words alone are, how long a failed dense side is left in
peace. Never imports an embedder, an index or a concrete ranker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import structlog

from armory.retrieval.lexical.postings import K1
from armory.retrieval.ports import CandidateFeatures, FloatArray, IntArray, Ranker

_log = structlog.get_logger(__name__)

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
#: Tools up to which `relevance` judges by words alone. Among more its probabilities, learned with
#: vectors, come out too small, and `lexical` finds more at the same threshold.
_RELEVANCE_UP_TO = 5_000
#: A plain hit has so much of what the query's words could give, and of what the best tool has.
_PLAIN = 0.2
_PLAIN_OF_BEST = 0.6
_PLAIN_HITS = 5
#: Failures in a row after which the tools are indexed again.
_LOST = 3


def stand_in(ranker: Ranker, rankers: Mapping[str, Ranker], tools: int) -> Ranker:
    """Who ranks `tools` visible tools without cosines when `ranker` was asked for."""
    if not ranker.needs_dense or (ranker.name == "relevance" and tools <= _RELEVANCE_UP_TO):
        return ranker
    return rankers["lexical"]


def word_share(evidence: CandidateFeatures) -> FloatArray:
    """(c,) best BM25F of each candidate over the caller's texts ÷ the most that the text's terms
    can attain, in [0, 1].
    """
    shares = [
        leg.bm25 / max(float(leg.hits.idf.sum()) * (K1 + 1), 1e-6)
        for leg in evidence.legs
        if leg.whole
    ]
    return np.max(shares, axis=0)


def plain_hits(share: FloatArray, order: IntArray) -> IntArray:
    """Places in `order` (at most the first five) of tools that the words name plainly.

    A probability is divided among equals: of a hundred copies of the one fitting tool none passes
    a threshold. And whether a query needs a tool is judged less surely by words alone.
    """
    first = share[order[:_PLAIN_HITS]]
    least = max(_PLAIN, _PLAIN_OF_BEST * float(first.max(initial=0.0)))
    return np.flatnonzero(first >= least)


class Backoff:
    """When a dense side that failed may be asked again: ever later, at most every 30 seconds."""

    def __init__(self) -> None:
        self._failures = 0
        self._retry_at = 0.0

    @property
    def waiting(self) -> bool:
        """Whether it is too early to ask again."""
        return time.monotonic() < self._retry_at

    @property
    def lost(self) -> bool:
        """Whether it failed so often that what was stored may be gone."""
        return self._failures >= _LOST

    def failed(self, error: Exception, timeout_s: float) -> str:
        """Count a failure; what the answer says of it."""
        wait = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._retry_at = time.monotonic() + wait
        why = str(error) or f"no answer within {timeout_s} s"
        _log.warning("dense_search_failed", error=why, retry_in_s=wait)
        return f"lexical only: {why}"

    def succeeded(self) -> None:
        """All is well again."""
        self._failures, self._retry_at = 0, 0.0
