"""The lexical index of tools that come and go; searching its snapshots is `postings`' work.

Owns: tokenizing tools, the vocabulary, making immutable postings. Never imports embedders, indexes
or rankers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.lexical.arrays import ForwardIndex, joined
from armory.retrieval.lexical.postings import FIELDS, Postings
from armory.retrieval.lexical.spelling import Spelling
from armory.retrieval.lexical.text import KEPT_CHARS, chunks, compounds, spellings, terms

_FIELD_TERMS = 200
#: Occurrences that count in one field; more only add to its length.
_MOST_COUNTED = 3
_ALL_TERMS = 100_000
#: Words that are told apart, 0.5 KB each: so many, and so many more for each tool. Of definitions
#: that people wrote there are ever fewer new ones; of made-up ones there would be hundreds in each.
_WORDS, _WORDS_EACH = 100_000, 20
#: Words whose spelling was looked at, which need not be looked at again.
_SEEN = 100_000
#: Up to this many tools, or one in this many, may differ for postings to be updated, not rebuilt.
_FEW = 32
#: Tools that are kept as arrays of their own, 1.4 KB each, before they are joined.
_LOOSE = 500


@dataclass(frozen=True, slots=True)
class Fields:
    """The lexical fields of one tool, plain text each."""

    name: str
    server: str = ""
    title: str = ""
    description: str = ""
    params: str = ""
    tags: str = ""


class LexicalIndex:
    """Tokenizes what is new, and makes immutable postings.

    Not thread-safe; one owner adds, removes and freezes. Postings may be searched anywhere.

    Args:
        field_terms: terms of a field that count, each at most three times, so that stuffing does
            not pay; None: all.

    Attributes:
        left_out: whether a word had no room.
    """

    def __init__(self, field_terms: int | None = _FIELD_TERMS) -> None:
        self.left_out = False
        self._field_terms = field_terms
        self._counted = np.float32 if field_terms is None else np.uint8
        self._vocabulary: dict[str, int] = {}
        self._spelling = Spelling()
        self._seen: set[str] = set()
        self._forward = self._stack([])
        self._rows: dict[str, int] = {}  # in `_forward`; -1 - i: the i-th that was added since
        self._added = 0
        self._stacks: list[ForwardIndex] = []
        self._loose: list[ForwardIndex] = []
        self._frozen: Postings | None = None
        self._changed = False

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    @property
    def full(self) -> bool:
        """Whether new words have no room any more: those of tools that are gone keep theirs."""
        return len(self._vocabulary) >= _WORDS + _WORDS_EACH * len(self._rows)

    def add(self, key: str, fields: Fields) -> None:
        """Add a tool under its key, replacing what was there."""
        self._added += 1
        self._rows[key] = -self._added  # first: there is room for words of its own
        self._loose.append(self._read(fields))
        self._changed = True
        if len(self._loose) >= _LOOSE:
            self._stacks.append(self._stack(self._loose))
            self._loose = []

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        if self._rows.pop(key, None) is not None:
            self._changed = True

    def freeze(self, order: Iterable[str] | None = None) -> Postings:
        """Postings of everything known, rows in `order` (default: order of adding).

        Where few tools changed, it costs those and copying the rest; else it is linear in the
        postings, about 10 µs a tool. Where nothing changed, it is the same object again.

        Raises:
            KeyError: `order` names a tool that was not added.
        """
        keys = tuple(self._rows if order is None else order)
        if self._changed or self._frozen is None or self._frozen.keys != keys:
            self._frozen, self._changed = self._next(keys), False
        return self._frozen

    def _next(self, keys: tuple[str, ...]) -> Postings:
        """The postings of these keys, from the last ones where that is less work."""
        width = len(self._vocabulary)
        source = np.fromiter(map(self._rows.__getitem__, keys), np.int64, len(keys))
        before, forward, inverted = self._frozen, self._forward, None
        if before is not None and before.forward is forward and self._few(source):
            fresh = joined([*self._stacks, self._stack(self._loose)])
            forward = forward.after(source, fresh)
            inverted = before.inverted.after(source, fresh, width)
        else:
            if self._added:
                forward = joined([forward, *self._stacks, self._stack(self._loose)])
            forward = forward.picked(np.where(source < 0, len(self._forward) - 1 - source, source))
        if len(keys) == len(self._rows):  # else the others would be lost
            self._forward, self._added, self._stacks, self._loose = forward, 0, [], []
            self._rows.update(zip(keys, range(len(keys)), strict=True))
        return Postings(keys, forward, self._vocabulary, self._spelling, inverted)

    def _few(self, source: NDArray[np.int64]) -> bool:
        """Whether few tools differ from those of `_forward`, and the others keep their order."""
        stay = source[source >= 0]
        differ = len(source) + len(self._forward) - 2 * len(stay)
        return differ <= max(_FEW, len(source) // _FEW) and bool((np.diff(stay) > 0).all())

    def _stack(self, parts: Sequence[ForwardIndex]) -> ForwardIndex:
        width = len(FIELDS)
        nothing = ForwardIndex(
            np.zeros(0, np.int64),
            np.zeros(0, np.int32),
            np.zeros((0, width), self._counted),
            np.zeros(0, np.bool_),
            np.zeros((0, width), np.float32),
        )
        return joined([nothing, *parts])

    def _number(self, word: str) -> int | None:
        """The number of a word; None: it is new, and there is no room for it, or longer than any
        that is one.
        """
        number = self._vocabulary.get(word)
        if number is None and len(word) <= KEPT_CHARS:
            if self.full:
                self.left_out = True
                return None
            number = len(self._vocabulary)
            self._spelling.add_term(word, number)  # first: who finds the number finds it there
            self._vocabulary[word] = number
        return number

    def _read(self, fields: Fields) -> ForwardIndex:
        counted: dict[int, list[int]] = {}
        lengths = np.zeros((1, len(FIELDS)), np.float32)
        most = _ALL_TERMS if self._field_terms is None else _MOST_COUNTED
        for position, field in enumerate(FIELDS):
            words = terms(getattr(fields, field), self._field_terms or _ALL_TERMS)
            lengths[0, position] = len(words)
            for word, count in Counter(words).items():
                if (number := self._number(word)) is None:
                    continue
                row = counted.setdefault(number, [0] * len(FIELDS))
                row[position] = min(count, most)
        found = np.fromiter(counted, np.int32, len(counted))
        counts = np.array(list(counted.values()), self._counted).reshape(-1, len(FIELDS))
        everything = " ".join(getattr(fields, field) for field in FIELDS)
        self._spell(everything)
        parts = compounds(everything)
        numbers = {self._vocabulary[word] for word in parts if word in self._vocabulary}
        whole = np.array([number in numbers for number in counted], np.bool_)
        return ForwardIndex(np.array([len(counted)]), found, counts, whole, lengths)

    def _spell(self, text: str) -> None:
        """Remember how the terms of a text are spelt in it."""
        for chunk in chunks(text):
            if chunk in self._seen:
                continue
            spelt = spellings(chunk)
            known = [(word, term) for word, term in spelt if term in self._vocabulary]
            for word, term in known:
                self._spelling.add_word(word, self._vocabulary[term])
            # of what is left out here, as too much in one field, another tool may have the term
            if len(known) == len(spelt) and len(chunk) <= KEPT_CHARS:
                if len(self._seen) >= _SEEN:
                    self._seen.clear()
                self._seen.add(chunk)
