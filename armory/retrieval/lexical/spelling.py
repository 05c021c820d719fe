"""Which known terms are spelt like an unknown one, by character trigrams.

Owns: the trigrams of a growing vocabulary. Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.lexical.text import is_cjk, trigrams

_SIMILARITY = 0.5
_VARIANTS = 4


class Spelling:
    """Character trigrams of a vocabulary: which known terms are spelt like an unknown one.

    Only ever grows; postings that were frozen earlier pass over what came after them.
    """

    def __init__(self) -> None:
        self._terms: dict[str, array[int]] = {}
        self._sizes = array("i")

    def add(self, term: str, number: int) -> None:
        """Take in a new term; numbers come in order, without gaps."""
        grams = trigrams(term) if len(term) >= 3 and not is_cjk(term) else frozenset[str]()
        self._sizes.append(max(len(grams), 1))
        for gram in grams:
            self._terms.setdefault(gram, array("i")).append(number)

    def alike(self, term: str, df: NDArray[np.int64]) -> list[tuple[int, float]]:
        """Up to four terms in use with a Dice coefficient of at least 0.5, best first."""
        grams = trigrams(term)
        # copies, made without letting another thread run: a term may be added at any time
        lists = [self._terms[gram].tobytes() for gram in grams if gram in self._terms]
        if not lists:
            return []
        numbers, shared = np.unique(np.frombuffer(b"".join(lists), np.int32), return_counts=True)
        # others share too little whatever their size: they have no fewer trigrams than they share
        close = shared * (2 / _SIMILARITY - 1) >= len(grams)
        numbers, shared = numbers[close], shared[close]
        known = numbers < len(df)
        numbers, shared = numbers[known], shared[known]
        used = df[numbers] > 0
        numbers, shared = numbers[used], shared[used]
        sizes = np.array([self._sizes[i] for i in numbers.tolist()], np.float64)
        dice = 2 * shared / (sizes + len(grams))
        best = np.argsort(-dice, kind="stable")[:_VARIANTS]
        return [(int(numbers[i]), float(dice[i])) for i in best if dice[i] >= _SIMILARITY]
