"""Words against words: BM25 over the fields of tools, in NumPy, with forgiveness for spelling.

Owns: the inverted index (incremental on the outside, immutable postings for searching), BM25F,
the absolute keyword score, spelling variants by character trigrams. Never imports embedders,
indexes or rankers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.document import Fields
from armory.retrieval.text import compounds, is_cjk, terms, trigrams

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

FIELDS = ("name", "server", "title", "description", "params", "tags")
_NAME, _SERVER, _TITLE, _DESCRIPTION = 0, 1, 2, 3
#: BM25F: what an occurrence in each field weighs, and how much its length tells against it.
WEIGHTS = np.array([2.0, 1.0, 1.0, 1.0, 0.5, 1.0], np.float32)
LENGTH_B = np.array([0.3, 0.3, 0.3, 0.6, 0.6, 0.3], np.float32)
K1 = 1.2
B = 0.75
_FIELD_TERMS = 200
#: More occurrences in one field say nothing more; their length still tells against them.
_MOST_COUNTED = 3
_ALL_TERMS = 100_000
_MAX_QUERY_TERMS = 160
_FUZZY_MIN_CHARS = 4
_FUZZY_SIMILARITY = 0.5
_FUZZY_VARIANTS = 4
_FUZZY_CACHE = 20_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tool, tokenized.

    Attributes:
        terms: (t,) numbers in the vocabulary.
        counts: (t, fields) occurrences, each at most 3.
        lengths: (fields,) terms in each field.
        whole: (t,) whether the term only joins others of this tool (`readfile` of `read_file`).
    """

    terms: Ints
    counts: Floats
    lengths: Floats
    whole: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """What a query's terms found: flat arrays over (term, tool) pairs.

    Attributes:
        rows: tool of each pair, (e,) int32.
        weights: its share of the BM25F score, (e,) float32.
        slots: which query term, (e,) int32.
        pairs: position in the postings, (e,) int64.
        idf: of every query term; spelling variants share their term's slot, (t,) float32.
        size: tools in the index.
    """

    rows: Ints
    weights: Floats
    slots: Ints
    pairs: NDArray[np.int64]
    idf: Floats
    size: int

    def bm25(self) -> Floats:
        """BM25F of every tool, (n,) float32, at least 0."""
        return np.bincount(self.rows, self.weights, self.size).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class FieldHits:
    """What of a query r tools have, and what of the tools the query says; all idf-weighted.

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

    Searching needs no lock. The variants' cache is the only thing that changes, by whole entries.
    """

    def __init__(
        self,
        keys: tuple[str, ...],
        vocabulary: Mapping[str, int],
        entries: Sequence[_Entry],
        grams: _Grams,
    ) -> None:
        self.keys = keys
        self._vocabulary = vocabulary
        self._size = len(keys)
        self._fuzzy: dict[str, list[tuple[int, float]]] = {}
        self._grams = grams
        sizes = np.array([len(e.terms) for e in entries], np.int64)
        rows = np.repeat(np.arange(self._size, dtype=np.int32), sizes)
        empty = np.zeros((0, len(FIELDS)), np.float32)
        found = np.concatenate([np.zeros(0, np.int32), *(e.terms for e in entries)])
        counts = np.concatenate([empty, *(e.counts for e in entries)])
        lengths = np.stack([e.lengths for e in entries]) if entries else empty
        order = np.argsort(found, kind="stable")
        self._rows = rows[order]
        self._terms = found[order]
        self._counts = counts = counts[order]
        self._width = max(vocabulary.values(), default=-1) + 1
        self._df = np.bincount(found, minlength=self._width)
        self._offsets = np.concatenate([[0], np.cumsum(self._df)])
        self._idf = self._inverse(self._df).astype(np.float32)
        self._unseen = float(self._inverse(np.zeros(1))[0])
        mean = np.maximum(lengths.mean(0) if self._size else lengths.sum(0), 1.0)
        wholes = np.concatenate([np.zeros(0, np.bool_), *(e.whole for e in entries)])
        self._whole = wholes[order]
        held = (counts > 0) * (self._idf[self._terms] * ~self._whole)[:, None]
        self._mass = np.stack(
            [np.bincount(self._rows, held[:, f], self._size) for f in range(len(FIELDS))], axis=1
        ).astype(np.float32)
        norm = 1 - LENGTH_B + LENGTH_B * lengths / mean
        tf = np.einsum("ef,f,ef->e", counts, WEIGHTS, 1 / norm[self._rows])
        self._weights = (tf * (K1 + 1) / (tf + K1)).astype(np.float32)
        two = [_NAME, _DESCRIPTION]
        length = lengths[:, two].sum(1)
        flat = K1 * (1 - B + B * length / max(float(length.mean()) if self._size else 1.0, 1.0))
        plain = counts[:, two].sum(1)
        self._plain = (plain * (K1 + 1) / (plain + flat[self._rows])).astype(np.float32)

    def __len__(self) -> int:
        return self._size

    def _inverse(self, df: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(1 + (self._size - df + 0.5) / (df + 0.5))

    def search(self, query: str, *, forgiving: bool = True) -> Hits:
        """Match a query's distinct terms; `forgiving` adds spelling variants of unknown ones."""
        asked = list(dict.fromkeys(terms(query)))[:_MAX_QUERY_TERMS]
        spans: list[tuple[int, int, int, float]] = []
        idf = np.empty(len(asked), np.float32)
        for slot, term in enumerate(asked):
            known = self._vocabulary.get(term, self._width)
            if known < self._width and self._df[known]:
                idf[slot] = self._idf[known]
                spans.append((slot, known, int(self._df[known]), float(self._idf[known])))
                continue
            idf[slot] = self._unseen
            if forgiving and len(term) >= _FUZZY_MIN_CHARS and not is_cjk(term):
                for variant, alike in self._variants(term):
                    weight = alike * float(self._idf[variant])
                    spans.append((slot, variant, int(self._df[variant]), weight))
        sizes = np.array([s[2] for s in spans], np.int64)
        starts = self._offsets[[s[1] for s in spans]] if spans else np.zeros(0, np.int64)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if spans else 0
        pairs = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
        scale = np.repeat(np.array([s[3] for s in spans], np.float32), sizes)
        slots = np.repeat(np.array([s[0] for s in spans], np.int32), sizes)
        return Hits(self._rows[pairs], self._weights[pairs] * scale, slots, pairs, idf, self._size)

    def keyword(self, query: str) -> Floats:
        """BM25 over name and description ÷ the most that the query could attain; (n,) in [0, 1].

        The most is every distinct term of the query, unknown ones as well, at full saturation.
        """
        hits = self.search(query, forgiving=False)
        best = float(hits.idf.sum()) * (K1 + 1)
        if best <= 0:
            return np.zeros(self._size, np.float32)
        gained = self._plain[hits.pairs] * hits.idf[hits.slots]
        return (np.bincount(hits.rows, gained, self._size) / best).astype(np.float32)

    def fields(self, hits: Hits, rows: NDArray[np.int64] | Ints) -> FieldHits:
        """Where some tools (r rows of the index) were hit by a query."""
        place = np.full(self._size, -1, np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        at = place[hits.rows]
        kept = at >= 0
        at, slots, pairs = at[kept], hits.slots[kept], hits.pairs[kept]
        asked = max(float(hits.idf.sum()), 1e-6)
        matched = np.zeros((len(rows), len(hits.idf)), np.float32)
        matched[at, slots] = 1.0
        present = self._counts[pairs] > 0
        width = len(FIELDS)
        cells = (at[:, None] * width + np.arange(width)).ravel()
        gained = np.bincount(
            cells, (present * hits.idf[slots][:, None]).ravel(), len(rows) * width
        ).reshape(-1, width)
        whole = self._whole[pairs]
        mass = (present * (self._idf[self._terms[pairs]] * ~whole)[:, None]).ravel()
        said = np.bincount(cells, mass, len(rows) * width).reshape(-1, width)
        joined = np.bincount(cells, (present & whole[:, None]).ravel(), len(rows) * width)
        return FieldHits(
            covered=(matched @ hits.idf) / asked,
            shares=(gained / asked).astype(np.float32),
            said=np.where(
                joined.reshape(-1, width) > 0, 1, said / np.maximum(self._mass[rows], 1e-6)
            ).astype(np.float32),
        )

    def _variants(self, term: str) -> list[tuple[int, float]]:
        known = self._fuzzy.get(term)
        if known is None:
            known = self._grams.alike(term, self._df)
            if len(self._fuzzy) >= _FUZZY_CACHE:
                self._fuzzy.clear()
            self._fuzzy[term] = known
        return known


class _Grams:
    """Character trigrams of a vocabulary: which known terms are spelt like an unknown one.

    Only ever grows; postings that were frozen earlier pass over what came after them.
    """

    def __init__(self) -> None:
        self._terms: dict[str, list[int]] = {}
        self._sizes: list[int] = []

    def add(self, term: str, number: int) -> None:
        """Take in a new term; numbers come in order, without gaps."""
        grams = trigrams(term) if len(term) >= 3 and not is_cjk(term) else frozenset[str]()
        self._sizes.append(max(len(grams), 1))
        for gram in grams:
            self._terms.setdefault(gram, []).append(number)

    def alike(self, term: str, df: NDArray[np.int64]) -> list[tuple[int, float]]:
        """Up to four terms in use with a Dice coefficient of at least 0.5, best first."""
        grams = trigrams(term)
        lists = [np.array(self._terms[gram], np.int64) for gram in grams if gram in self._terms]
        if not lists:
            return []
        numbers, shared = np.unique(np.concatenate(lists), return_counts=True)
        known = numbers < len(df)
        numbers, shared = numbers[known], shared[known]
        used = df[numbers] > 0
        numbers, shared = numbers[used], shared[used]
        sizes = np.array([self._sizes[i] for i in numbers.tolist()], np.float64)
        dice = 2 * shared / (sizes + len(grams))
        best = np.argsort(-dice, kind="stable")[:_FUZZY_VARIANTS]
        return [(int(numbers[i]), float(dice[i])) for i in best if dice[i] >= _FUZZY_SIMILARITY]


class LexicalIndex:
    """The incremental side: tokenizes what is new, hands out immutable postings.

    Not thread-safe; one owner adds, removes and freezes. Postings may be searched anywhere.

    Args:
        field_terms: only so many terms of a field count, and each at most three times, so that
            stuffing buys nothing; None: all.
    """

    def __init__(self, field_terms: int | None = _FIELD_TERMS) -> None:
        self._field_terms = field_terms
        self._vocabulary: dict[str, int] = {}
        self._grams = _Grams()
        self._entries: dict[str, _Entry] = {}
        self._frozen: Postings | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: str, fields: Fields) -> None:
        """Add a tool under its key, replacing what was there."""
        self._entries[key] = self._entry(fields)
        self._frozen = None

    def remove(self, key: str) -> None:
        """Forget a tool; an unknown key is no error."""
        if self._entries.pop(key, None) is not None:
            self._frozen = None

    def freeze(self, order: Iterable[str] | None = None) -> Postings:
        """Postings of everything known, rows in `order` (default: order of adding).

        Linear in the postings: about 5 µs a tool. Nothing changed: the same object again.

        Raises:
            KeyError: `order` names a tool that was not added.
        """
        keys = tuple(self._entries if order is None else order)
        if self._frozen is None or self._frozen.keys != keys:
            entries = [self._entries[key] for key in keys]
            self._frozen = Postings(keys, dict(self._vocabulary), entries, self._grams)
        return self._frozen

    def _number(self, word: str) -> int:
        number = self._vocabulary.get(word)
        if number is None:
            number = self._vocabulary[word] = len(self._vocabulary)
            self._grams.add(word, number)
        return number

    def _entry(self, fields: Fields) -> _Entry:
        counted: dict[int, list[float]] = {}
        lengths = np.zeros(len(FIELDS), np.float32)
        most = _ALL_TERMS if self._field_terms is None else _MOST_COUNTED
        for position, field in enumerate(FIELDS):
            words = terms(getattr(fields, field), self._field_terms or _ALL_TERMS)
            lengths[position] = len(words)
            for word, count in Counter(words).items():
                number = self._number(word)
                row = counted.setdefault(number, [0.0] * len(FIELDS))
                row[position] = float(min(count, most))
        found = np.fromiter(counted, np.int32, len(counted))
        counts = np.array(list(counted.values()), np.float32).reshape(-1, len(FIELDS))
        joined = compounds(" ".join(getattr(fields, field) for field in FIELDS))
        numbers = {self._vocabulary[word] for word in joined if word in self._vocabulary}
        whole = np.array([int(n) in numbers for n in found], np.bool_)
        return _Entry(found, counts, lengths, whole)
