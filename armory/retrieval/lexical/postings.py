"""Lexical search over a catalog: BM25F, the keyword score, and which fields a query matches.

Owns: immutable postings and the constants of their scores. `bm25` makes them. Never imports
embedders, indexes or rankers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.lexical.arrays import (
    Floats,
    ForwardIndex,
    Ints,
    InvertedIndex,
    Positions,
    flat,
    offsets,
)
from armory.retrieval.lexical.spelling import Spelling
from armory.retrieval.lexical.text import KEPT_CHARS, is_cjk, terms

FIELDS = ("name", "server", "title", "description", "params", "tags")
NAME, SERVER, _DESCRIPTION = 0, 1, 3
#: BM25F: what an occurrence in each field weighs, and how much its length tells against it.
WEIGHTS = np.array([2.0, 1.0, 1.0, 1.0, 0.5, 1.0], np.float32)
LENGTH_B = np.array([0.3, 0.3, 0.3, 0.6, 0.6, 0.3], np.float32)
K1 = 1.2
B = 0.75
_MAX_QUERY_TERMS = 160
_FUZZY_MIN_CHARS = 4
_FUZZY_CACHE = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class TermHits:
    """What a query's terms found: flat arrays over (term, tool) pairs, term by term.

    Attributes:
        rows: tool of each pair, (e,) int64.
        weights: its share of the BM25F score, (e,) float32.
        runs: which of the k terms that were found, (e,) int32.
        slots: which query term each of these is, (k,) int64.
        shifts: from a place among the pairs to that in the postings, by term, (k,) int64.
        idf: of every query term; spelling variants share their term's slot, (t,) float32.
        size: tools in the index.
        alike: how far each term is the query's, (k,) float32 in (0, 1]; None: no spelling variant
            is among them.
    """

    rows: Positions
    weights: Floats
    runs: Ints
    slots: Positions
    shifts: Positions
    idf: Floats
    size: int
    alike: Floats | None = None

    def of(self, row: int) -> set[int]:
        """The query terms that a tool has."""
        return {*self.slots[self.runs[self.rows == row]].tolist()}

    def among(self, rows: NDArray[np.int64] | Ints) -> tuple[Positions, Ints]:
        """The places of the pairs of some tools, and which of those tools each is of."""
        place = np.full(self.size, -1, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        at = place[self.rows]
        kept = np.flatnonzero(at >= 0)
        return kept, at[kept]

    def bm25(self) -> Floats:
        """BM25F of every tool, (n,) float32, at least 0."""
        return self.sums().astype(np.float32)

    def sums(self) -> NDArray[np.float64]:
        """(n,) float64, at least 0: the same scores before rounding."""
        return np.bincount(self.rows, self.weights, self.size).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class FieldHits:
    """How much of a query r tools have, and how much of their fields it has; weighted by idf.

    Attributes:
        covered: (r,) share of the query's terms that the tool has in any field, in [0, 1].
        shares: (r, fields) the same for each field alone.
        said: (r, fields) share of each field's distinct terms that the query says, in [0, 1]; 1
            where it says a compound of it as one word.
    """

    covered: Floats
    shares: Floats
    said: Floats


class Postings:
    """An immutable inverted index; rows follow `keys`.

    The weight of a (term, tool) pair depends on the mean field lengths, and so on every tool. It is
    computed when its term is first searched for. Searching needs no lock: a cached value is written
    whole before it is marked as present, and every thread would compute the same.
    """

    def __init__(
        self,
        keys: tuple[str, ...],
        forward: ForwardIndex,
        vocabulary: Mapping[str, int],
        spelling: Spelling,
        inverted: InvertedIndex | None = None,
    ) -> None:
        self.keys = keys
        self.forward = forward
        self._vocabulary = vocabulary  # grows: numbers from `_width` on came later
        self._width = width = len(vocabulary)
        self._size = size = len(keys)
        self._fuzzy: dict[str, list[tuple[int, float]]] = {}
        self.spelling = spelling
        self.inverted = found = inverted or InvertedIndex.of(forward, width)
        self._idf = self._inverse(found.df).astype(np.float32)
        self._unseen = float(self._inverse(np.zeros(1))[0])
        lengths = forward.lengths
        mean = np.maximum(lengths.mean(0) if size else lengths.sum(0), 1.0)
        self._scale = WEIGHTS / (1 - LENGTH_B + LENGTH_B * lengths / mean)
        length = lengths[:, NAME] + lengths[:, _DESCRIPTION]
        self._flat = K1 * (1 - B + B * length / max(float(length.mean()) if size else 1.0, 1.0))
        self._weights = np.empty(len(found.rows), np.float32)
        self._plain = np.empty(len(found.rows), np.float32)
        self._weighed = np.zeros(width, np.bool_)
        self._starts = offsets(forward.sizes)
        self._mass = np.empty((size, len(FIELDS)), np.float32)
        self._summed = np.zeros(size, np.bool_)

    def __len__(self) -> int:
        return self._size

    def number(self, term: str) -> int | None:
        """The number of a term that a tool has; None: no tool has it."""
        number = self._vocabulary.get(term, self._width)
        return number if number < self._width and self.inverted.df[number] else None

    def _inverse(self, df: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(1 + (self._size - df + 0.5) / (df + 0.5))

    def search(self, query: str, *, forgiving: bool = True) -> TermHits:
        """Match a query's distinct terms; `forgiving` adds spelling variants of unknown ones."""
        df = self.inverted.df
        asked = list(dict.fromkeys(terms(query)))[:_MAX_QUERY_TERMS]
        spans: list[tuple[int, int, float]] = []
        idf = np.empty(len(asked), np.float32)
        literal = True
        for slot, term in enumerate(asked):
            if (known := self.number(term)) is not None:
                idf[slot] = self._idf[known]
                spans.append((slot, known, 1.0))
                continue
            idf[slot] = self._unseen
            if forgiving and len(term) >= _FUZZY_MIN_CHARS and not is_cjk(term):
                for variant, alike in self._variants(term):
                    spans.append((slot, variant, alike))
                    literal = False
        found = np.array([span[1] for span in spans], np.int64)
        self._weigh(found[~self._weighed[found]])
        starts, sizes = self.inverted.starts[found], df[found]
        ends = starts + sizes
        likeness = np.array([span[2] for span in spans], np.float32)
        cuts = [*map(slice, starts.tolist(), ends.tolist()), slice(0)]  # there may be no term
        rows = np.concatenate([self.inverted.rows[cut] for cut in cuts], dtype=np.int64)
        weights = np.concatenate([self._weights[cut] for cut in cuts])
        weights *= np.repeat(likeness * self._idf[found], sizes)
        runs = np.repeat(np.arange(len(found), dtype=np.int32), sizes)
        slots = np.array([span[0] for span in spans], np.int64)
        shifts = ends - np.cumsum(sizes)
        alike = None if literal else likeness
        return TermHits(rows, weights, runs, slots, shifts, idf, self._size, alike)

    def _weigh(self, found: Positions) -> None:
        """What the pairs of some terms weigh, in BM25F and in the keyword score."""
        if not len(found):
            return
        pairs = self.inverted.pairs(found)
        rows, counts = self.inverted.rows[pairs], self.inverted.counts[pairs]
        tf = np.zeros(len(pairs), np.float32)
        for field in range(len(FIELDS)):
            tf += counts[:, field] * self._scale[rows, field]
        self._weights[pairs] = tf * (K1 + 1) / (tf + K1)
        plain = counts[:, NAME].astype(np.float32) + counts[:, _DESCRIPTION]
        self._plain[pairs] = plain * (K1 + 1) / (plain + self._flat[rows])
        self._weighed[found] = True

    def keyword(
        self, query: str, found: TermHits | None = None, of: Positions | None = None
    ) -> Floats:
        """BM25 over name and description ÷ the most that the query could attain; (n,) in [0, 1].

        The most is every distinct term of the query, unknown ones as well, at full saturation.

        Args:
            query: the text.
            found: what `search` gave for the same query, which saves doing it again.
            of: only of these r rows, (r,); None: of all.
        """
        literal = found is not None and found.alike is None
        hits = found if found is not None and literal else self.search(query, forgiving=False)
        best = float(hits.idf.sum()) * (K1 + 1)
        size = self._size if of is None else len(of)
        if best <= 0:
            return np.zeros(size, np.float32)
        if of is None:
            places, at, runs = np.arange(len(hits.rows)), hits.rows, hits.runs
        else:
            places, at = hits.among(of)
            runs = hits.runs[places]
        gained = self._plain[places + hits.shifts[runs]] * hits.idf[hits.slots[runs]]
        return (np.bincount(at, gained, size) / best).astype(np.float32)

    def fields(self, hits: TermHits, rows: NDArray[np.int64] | Ints) -> FieldHits:
        """Where some tools (r rows of the index) were hit by a query."""
        width, count = len(FIELDS), len(rows)
        kept, at = hits.among(rows)
        runs = hits.runs[kept]
        slots, pairs = hits.slots[runs], kept + hits.shifts[runs]
        asked = max(float(hits.idf.sum()), 1e-6)
        matched = np.zeros((count, len(hits.idf)), np.float32)
        present = self.inverted.counts[pairs] > 0
        whole = self.inverted.whole[pairs]
        held = self._idf[self.inverted.terms[pairs]] * ~whole
        if hits.alike is None:
            matched[at, slots] = 1.0
        else:  # a word that only looks like another is not that word
            alike = hits.alike[runs]
            np.maximum.at(matched, (at, slots), alike)
            present, held, whole = present * alike[:, None], held * alike, whole & (alike == 1)
        # three sums for each tool and field: what the query says, of the field, as a compound
        weights = np.empty((len(pairs), 3, width), np.float32)
        np.multiply(present, hits.idf[slots][:, None], out=weights[:, 0])
        np.multiply(present, held[:, None], out=weights[:, 1])
        np.multiply(present, whole[:, None], out=weights[:, 2])
        cells = at[:, None] * (3 * width) + np.arange(3 * width, dtype=np.int32)
        sums = np.bincount(cells.ravel(), weights.ravel(), count * 3 * width)
        gained, said, joined = sums.reshape(count, 3, width).transpose(1, 0, 2)
        with np.errstate(invalid="ignore"):  # BLAS looks at what lies behind so small a matrix
            covered = (matched @ hits.idf) / asked
        # of words that are spelt alike several may be one word of a tool, or the tool has several
        said = np.where(joined > 0, 1, said / np.maximum(self._masses(rows), 1e-6))
        return FieldHits(
            covered=covered,
            shares=np.minimum(gained / asked, 1).astype(np.float32),
            said=np.minimum(said, 1).astype(np.float32),
        )

    def _masses(self, rows: NDArray[np.int64] | Ints) -> Floats:
        """(r, fields) idf of the distinct terms in each field of some tools, summed."""
        new = np.unique(rows[~self._summed[rows]]).astype(np.int64)
        if len(new):
            sizes, width = self.forward.sizes[new], len(FIELDS)
            places = flat(self._starts[new], sizes)
            held = self._idf[self.forward.terms[places]] * ~self.forward.whole[places]
            tools = np.repeat(np.arange(len(new)), sizes)
            pairs, fields = np.nonzero(self.forward.counts[places])
            sums = np.bincount(tools[pairs] * width + fields, held[pairs], len(new) * width)
            self._mass[new] = sums.reshape(len(new), width)
            self._summed[new] = True
        return self._mass[rows]

    def _variants(self, term: str) -> list[tuple[int, float]]:
        known = self._fuzzy.get(term)
        if known is None:
            known = self.spelling.alike(term, self.inverted.df)
            if len(term) <= KEPT_CHARS:
                if len(self._fuzzy) >= _FUZZY_CACHE:
                    self._fuzzy.clear()
                self._fuzzy[term] = known
        return known
