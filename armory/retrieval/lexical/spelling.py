"""Spelling correction: which words of a catalog a misspelt word may have meant.

Owns: the words of a growing vocabulary as they are spelt, how far apart two of them are, what
counts as misspelt. Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

import gzip
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from heapq import nsmallest
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import OSA, Hamming
from rapidfuzz.process import extract

from armory.retrieval.lexical.intents import VERB
from armory.retrieval.lexical.text import STOP_WORDS, is_cjk, trigrams

#: Shorter words are too near to too many others.
LEAST_CHARS = 4
#: Characters from which on two edits are forgiven; in shorter words one.
_TWO_EDITS = 9
#: Characters from which on a replaced letter is forgiven: `toml` is no `tool`, `docx` no `docs`.
_REPLACED = 5
_SIMILARITY = 0.5
_VARIANTS = 4
#: Letters from which on a word that no tool's is near may be a misspelt English one, and up to
#: which; of shorter ones only what asks for an act and small words.
_ENGLISH_FROM, _ENGLISH_TO = 6, 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: Another form of an English word is none of its misspellings: limiter, unplaced.
_PREFIXES = ("co", "de", "dis", "mis", "non", "pre", "re", "sub", "un")
_SUFFIXES = ("s", "es", "r", "rs", "er", "ers", "or", "ors", "ed", "ing", "y", "ly", "us", "is")
_SHORT = STOP_WORDS.union(VERB.split("|"))
#: Tools that must have a word for it to be preferred to one that is not English and that a single
#: tool has: that may be a misspelling in the tool's description.
_COMMONER = 10
_WORDS = Path(__file__).with_name("english.txt.gz")
#: German, French, Spanish, Portuguese, Italian and Hungarian words for what tools do, folded, that
#: an English word of another meaning may be near (Datei, date). One that means the same (lista,
#: list) is none of them: it is better read as the English word.
_FOREIGN = Path(__file__).with_name("foreign.txt")


@cache
def _english() -> dict[str, str]:
    """Some 70,000 English words, names and terms of the trade of at least four letters, see
    `training/english`.

    By their first three letters, in one text each, every word between two line ends: a tenth of
    the memory that a set of them takes.
    """
    words = gzip.decompress(_WORDS.read_bytes()).decode("ascii").split()  # in order there
    by_start = groupby(words, key=lambda word: word[:3])
    return {start: "\n".join(("", *group, "")) for start, group in by_start}


def is_english(word: str) -> bool:
    """Whether a folded word of at least four letters is an English word, a name or a term."""
    return f"\n{word}\n" in _english().get(word[:3], "")


@cache
def _foreign() -> frozenset[str]:
    return frozenset(_FOREIGN.read_text(encoding="ascii").split())


def is_foreign(word: str) -> bool:
    """Whether a folded word is one of another language that only looks like an English one."""
    return word in _foreign()


def is_nearly_english(word: str) -> bool:
    """Whether one edit behind its third letter makes a folded word English: `tomorow`."""
    near = _english().get(word[:3], "").split()
    return not is_foreign(word) and bool(_within(word, near, 1))


def english_meant(word: str) -> str | None:
    """The only English word that a folded one of four letters or more is spelt like, but for two
    letters that are swapped or, within longer words, one that is left out or put in: `shwo`,
    `apointments`. None: there is none, or several.

    The first letter is taken to be right. An end that is another makes another form of a word.
    """
    if len(word) > _ENGLISH_TO or is_foreign(word):
        return None
    if len(word) < _ENGLISH_FROM:
        swaps = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(1, len(word) - 1)}
        found = [one for one in swaps & _SHORT if is_english(one)]
    elif _is_derived(word):
        return None
    else:
        english = _english()
        starts = {word[:2] + letter for letter in _LETTERS} | {word[0] + word[2] + word[1]}
        words = "".join([english.get(start, "") for start in starts]).split()
        found = [one for one, _, _ in _within(word, words, 1) if _is_slip(word, one)]
    return found[0] if len(found) == 1 else None


def _is_derived(word: str) -> bool:
    """Whether a word begins or ends as if it were made of an English one."""
    stems = [word[: -len(suffix)] for suffix in _SUFFIXES if word.endswith(suffix)]
    stems += [word[len(prefix) :] for prefix in _PREFIXES if word.startswith(prefix)]
    return any(is_english(stem) for stem in stems if len(stem) >= LEAST_CHARS)


def _is_slip(word: str, other: str) -> bool:
    """Whether words one edit apart differ within by a letter more or less, or by two swapped."""
    if len(word) == len(other):
        return Hamming.distance(word, other) > 1
    return not (word.startswith(other) or other.startswith(word))


def may_be_misspelt(word: str) -> bool:
    """Whether a folded word is long enough, all letters of an alphabet, and no common English."""
    if len(word) < LEAST_CHARS or not word.isalpha() or is_cjk(word):
        return False
    return not is_english(word)


class Spelling:
    """The words of a vocabulary, and which of them are spelt like an unknown one.

    Words differ by edits: a character inserted, left out or replaced, or two neighbours swapped.
    Words of up to eight letters may differ by one, longer ones by two, and they begin with the same
    letter, or with the same two swapped. What no edit reaches is compared by character trigrams,
    which find other forms of a word (transcribe, transcription).

    Only ever grows; postings that were frozen earlier pass over what came after them.
    """

    def __init__(self) -> None:
        self._trigrams: dict[str, array[int]] = {}
        self._sizes = array("i")
        self._terms: list[str] = []
        #: By first letter: words as they are spelt, and the number of the term of each.
        self._spelt: dict[str, tuple[list[str], array[int]]] = {}
        self._known: dict[str, int] = {}

    def add_term(self, term: str, number: int) -> None:
        """Take in a new term; numbers come in order, without gaps."""
        if not number:
            # with the first tools, in their thread: the first query is not to wait
            _english()
            _foreign()
        grams = trigrams(term) if len(term) >= 3 and not is_cjk(term) else frozenset[str]()
        self._sizes.append(max(len(grams), 1))
        self._terms.append(term)
        for gram in grams:
            self._trigrams.setdefault(gram, array("i")).append(number)

    def add_word(self, word: str, number: int) -> None:
        """Take in how a term is spelt in some text; `number` is the term's."""
        if len(word) < LEAST_CHARS or word in self._known or not word.isalpha() or is_cjk(word):
            return
        words, numbers = self._spelt.setdefault(word[0], ([], array("i")))
        numbers.append(number)  # first: who finds the word finds its number
        words.append(word)
        self._known[word] = number

    def alike(self, term: str, df: NDArray[np.int64]) -> list[tuple[int, float]]:
        """Up to four terms in use with a Dice coefficient of at least 0.5, best first.

        Not those that only rhyme with it: `book` is no form of `look`.
        """
        grams = trigrams(term)
        # copies, made without letting another thread run: a term may be added at any time
        lists = [self._trigrams[gram].tobytes() for gram in grams if gram in self._trigrams]
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
        near = dice >= _SIMILARITY
        near[near] = [not _rhymes(term, self._terms[i]) for i in numbers[near].tolist()]
        numbers, dice = numbers[near], dice[near]
        # of equals the commoner, then by the alphabet: not by which came first
        terms = [self._terms[i] for i in numbers.tolist()]
        found = zip((-dice).tolist(), (-df[numbers]).tolist(), terms, numbers.tolist(), strict=True)
        return [(number, -negative) for negative, _, _, number in nsmallest(_VARIANTS, found)]

    def meant(
        self, word: str, number: int | None, tools: Callable[[int | None], int]
    ) -> str | None:
        """The word of the vocabulary that a misspelt one was meant to be; None: none is near.

        Another form of a term that tools have is only spelt as that term is: `mcps` is no `maps`.

        Args:
            word: folded, and one that `may_be_misspelt`.
            number: of its term; None: it is in no vocabulary.
            tools: tells how many tools have a term; 0 for one that came later.
        """
        own = tools(number)
        if own > 1 and word in self._known:
            return None
        near = self._near(word, tools)
        if own and word in self._known:
            near = [one for one in near if tools(one[1]) > _COMMONER]
        elif own:
            near = [one for one in near if one[1] == number]
        least = min((edits for _, _, edits in near), default=0)
        best = [(edits, -tools(term), spelt) for spelt, term, edits in near if edits == least]
        return min(best)[2] if best else None

    def _near(self, word: str, tools: Callable[[int | None], int]) -> list[tuple[str, int, int]]:
        """(word, term, edits) of the words in use that are few enough edits away."""
        most = 2 if len(word) >= _TWO_EDITS else 1
        found: list[tuple[str, int, int]] = []
        for first in {word[0], word[1]}:
            words, numbers = self._spelt.get(first, ((), ()))
            for spelt, edits, place in _within(word, words, most):
                number = numbers[place]
                swapped = first == word[0] or spelt[:2] == word[1::-1]
                near = edits and swapped and not _is_another(word, spelt, edits)
                if near and tools(number):
                    found.append((spelt, number, edits))
        return found


def _is_another(word: str, spelt: str, edits: int) -> bool:
    """Whether words so near are two words: nothing but letters were replaced, two of them or one
    of four, which is seldom a slip of the hand.
    """
    if len(word) != len(spelt) or Hamming.distance(word, spelt) != edits:
        return False  # something was left out, put in or swapped
    return edits > 1 or len(word) < _REPLACED


def _rhymes(term: str, other: str) -> bool:
    """Whether but one letter differs, and makes another word: the first one, or one of four."""
    if len(term) != len(other) or Hamming.distance(term, other) != 1:
        return False
    return term[0] != other[0] or len(term) < _REPLACED


def _within(word: str, words: Sequence[str], most: int) -> list[tuple[str, int, int]]:
    """(word, edits, place) of the words at most so many edits away."""
    return extract(word, words[:], scorer=OSA.distance, score_cutoff=most, limit=None)
