"""How a retriever searches.

Owns: `RetrieverSettings`. Never imports an embedder, an index or a concrete ranker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from armory.retrieval.options import RANKER, SEARCHES, SEARCHES_PER_CALLER, Limits
from armory.retrieval.rankers.base import RankSettings


@dataclass(frozen=True, slots=True)
class RetrieverSettings:
    """How a retriever searches; a query may override ranker, threshold and number.

    Attributes:
        ranker: name of the default ranker.
        into_english: whether glossaries put queries of other languages into English, for an
            embedder that reads English alone and for words alone.
        limits: threshold and caps; a query's `top_k` replaces `max_tools`.
        rank: passed to rankers.
        candidates: best tools by cosine that an index which does not score everything returns.
        diversity: None, or the weight in (0, 1] of relevance against novelty (MMR) over the best
            50; 1 changes nothing.
        dense_timeout_s: how long a query may wait for its embedding and the vector store before it
            is answered by words alone.
        query_cache: query vectors kept in memory; 0: none.
        searches: searches that run or wait at once, in all.
        searches_per_caller: the same for one caller (`Query.user`).
    """

    ranker: str = RANKER
    into_english: bool = True
    limits: Limits = field(default_factory=Limits)
    rank: RankSettings = field(default_factory=RankSettings)
    candidates: int = 200
    diversity: float | None = None
    dense_timeout_s: float = 5.0
    query_cache: int = 10_000
    searches: int = SEARCHES
    searches_per_caller: int = SEARCHES_PER_CALLER
