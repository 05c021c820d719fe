"""Diversity by maximal marginal relevance: different tools instead of copies of one.

Owns: MMR (Carbonell and Goldstein, SIGIR 1998). Pure. Never imports anything of Armory but types.
"""

from __future__ import annotations

import numpy as np

from armory.retrieval.ports import FloatArray


def mmr(score: FloatArray, vectors: FloatArray, weight: float) -> list[int]:
    """Greedy order by `weight * score - (1 - weight) * highest cosine with what is picked`.

    Args:
        score: (r,) relevance in [0, 1].
        vectors: (r, d) unit rows.
        weight: of relevance, in [0, 1]; 1 is plain order by score.

    Returns:
        Every position once, best first.
    """
    left = list(range(len(score)))
    closest = np.zeros(len(score), np.float32)
    picked: list[int] = []
    while left:
        values = weight * score[left] - (1 - weight) * closest[left]
        chosen = left.pop(int(np.argmax(values)))
        picked.append(chosen)
        np.maximum(closest, vectors @ vectors[chosen], out=closest)
    return picked
