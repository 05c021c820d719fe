"""The vocabulary of the tools that a search may find, and correcting unknown words of a query.

Owns: which words of a text are misspelt and what was meant, which identifiers are names of tools.
Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.lexical.arrays import Positions
from armory.retrieval.lexical.postings import NAME, SERVER, Postings
from armory.retrieval.lexical.spelling import (
    LEAST_CHARS,
    english_meant,
    is_foreign,
    is_nearly_english,
    may_be_misspelt,
)
from armory.retrieval.lexical.text import STANDALONE, STOP_WORDS, fold, stem

#: Of two words or more, most must be spelt rightly for the others to be suspect.
_FOREIGN_WORDS = 2
#: A text of at most 12 words may be misspelt throughout: if more than 3 of its words are near a
#: tool's or small English ones, for each that is neither; more than one, if it has 3 words or less.
_SHORT_WORDS, _OWN_WORDS, _FEW_WORDS = 12, 3, 3
_MOST_CORRECTED = 24


class KnownWords:
    """Of the tools that a search may find: what others say is no business of the caller's.

    Args:
        postings: the words of all tools.
        among: ascending rows of the tools that may be found, (r,); None: all.
    """

    def __init__(self, postings: Postings, among: Positions | None = None) -> None:
        self._postings = postings
        self._among = among

    def has(self, term: str) -> bool:
        """Whether a tool has this term."""
        return bool(self.tools(term))

    def tools(self, term: str) -> int:
        """How many tools have this term."""
        return self._tools(self._postings.number(term))

    def names(self, term: str) -> bool:
        """Whether a tool or a server is called by this term."""
        pairs = self._pairs(self._postings.number(term))
        return bool((self._postings.inverted.counts[pairs, [[NAME], [SERVER]]] > 0).any())

    def called(self, *terms: str) -> int:
        """How many tools are called by all of these terms, one at least, their servers aside."""
        found = [self._called(term) for term in terms]
        return len(found[0].intersection(*found[1:]))

    def _called(self, term: str) -> set[int]:
        """Rows of the tools that are called by a term."""
        inverted = self._postings.inverted
        pairs = self._pairs(self._postings.number(term))
        return set(inverted.rows[pairs[inverted.counts[pairs, NAME] > 0]].tolist())

    def serves(self, term: str) -> bool:
        """Whether a server is called by this term."""
        pairs = self._pairs(self._postings.number(term))
        return bool((self._postings.inverted.counts[pairs, SERVER] > 0).any())

    def is_name(self, word: str) -> bool:
        """Whether an identifier of several words joins those of a tool's name: `ReadFile`."""
        pairs = self._pairs(self._postings.number(stem(fold(word))))
        inverted = self._postings.inverted
        return bool((inverted.whole[pairs] & (inverted.counts[pairs, NAME] > 0)).any())

    def corrected(self, text: str) -> str:
        """The text with each misspelt word replaced by the word of a tool that was meant, or by the
        English one if no tool's is near.

        Capitalised words within a text are names and stay as they are; so do paths, addresses and
        identifiers, and a text that is mostly not English, which is in another language.
        """
        found = list(STANDALONE.finditer(text))
        suspects = [word for word in found if self._may_be_typo(word)]
        most = len(found) >= _FOREIGN_WORDS and 2 * len(suspects) > len(found)
        if not suspects or (most and not self._are_typos(found)):
            return text
        parts: list[str] = []
        at = 0
        for word in suspects[:_MOST_CORRECTED]:
            parts += [text[at : word.start()], self._correction(fold(word[0])) or word[0]]
            at = word.end()
        return "".join([*parts, text[at:]])

    def _are_typos(self, found: list[re.Match[str]]) -> bool:
        """Whether a text of mostly unknown words is misspelt, rather than in another language."""
        if len(found) > _SHORT_WORDS:
            return False
        own = strange = 0
        for match in found:
            word = fold(match[0])
            if self._may_be_typo(match):
                mine = self._correction(word) is not None
            elif len(word) < LEAST_CHARS:
                mine = word in STOP_WORDS
            else:
                continue
            own += mine
            strange += not (mine or self.has(stem(word)) or is_nearly_english(word))
        return own > strange * (_OWN_WORDS if len(found) > _FEW_WORDS else 1)

    def _correction(self, word: str) -> str | None:
        if is_foreign(word):
            return None
        number = self._postings.number(stem(word))
        meant = self._postings.spelling.meant(word, number, self._tools)
        if meant is None and not self._tools(number):
            return english_meant(word)
        if meant is not None and stem(meant) != stem(word):
            pairs = self._pairs(number)
            if (self._postings.inverted.counts[pairs, NAME] > 0).any():
                return None  # whoever wrote the name of a tool meant the tool
        return meant

    def _may_be_typo(self, found: re.Match[str]) -> bool:
        word = found[0]
        capital = not word.islower() and (found.start() or not word[1:].islower())
        if capital and not found.string.isupper():  # where all are capitals, none means anything
            return False
        return may_be_misspelt(fold(word))

    @cached_property
    def _seen(self) -> NDArray[np.bool_] | None:
        """(n,) whether each tool may be found; None: all may."""
        if self._among is None:
            return None
        seen = np.zeros(len(self._postings), np.bool_)
        seen[self._among] = True
        return seen

    def _tools(self, number: int | None) -> int:
        """How many tools have a term."""
        df = self._postings.inverted.df
        if number is None or number >= len(df):  # which came later
            return 0
        return int(df[number]) if self._among is None else len(self._pairs(number))

    def _pairs(self, number: int | None) -> Positions:
        """Where the pairs of a term and a tool stand."""
        if number is None:
            return np.zeros(0, np.int64)
        inverted = self._postings.inverted
        start, end = inverted.starts[number : number + 2].tolist()
        pairs = np.arange(start, end, dtype=np.int64)
        return pairs if self._seen is None else pairs[self._seen[inverted.rows[pairs]]]
