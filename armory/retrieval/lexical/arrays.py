"""The forward index (terms by tool) and the inverted index (tools by term), as flat arrays.

Owns: `ForwardIndex`, `InvertedIndex`, and making the next state from the last at the cost of what
changed. Never imports anything of Armory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Positions = NDArray[np.int64]
Counts = NDArray[np.uint8 | np.float32]
A = TypeVar("A", bound=NDArray[Any])


@dataclass(frozen=True, slots=True, eq=False)
class ForwardIndex:
    """The distinct terms of n tools, tool by tool; t in all.

    Attributes:
        sizes: the number of distinct terms of each tool, (n,) int64.
        terms: numbers in the vocabulary, (t,) int32.
        counts: occurrences in each field, (t, fields).
        whole: whether the term only joins others of its tool (`readfile` of `read_file`), (t,).
        lengths: terms in each field, (n, fields) float32.
    """

    sizes: Positions
    terms: Ints
    counts: Counts
    whole: NDArray[np.bool_]
    lengths: Floats

    def __len__(self) -> int:
        return len(self.sizes)

    def picked(self, rows: Positions) -> ForwardIndex:
        """These tools, in this order."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(rows))):
            return self
        at = flat(offsets(self.sizes)[rows], self.sizes[rows])
        return ForwardIndex(
            self.sizes[rows], self.terms[at], self.counts[at], self.whole[at], self.lengths[rows]
        )

    def after(self, source: Positions, fresh: ForwardIndex) -> ForwardIndex:
        """The next state. Tool `i` is tool `source[i]` of this one, or, where that is negative,
        tool `-1 - source[i]` of `fresh`. Neighbours that stay neighbours are copied in one piece.
        """
        runs = list(_runs(source)) or [(False, 0, 0)]
        tools = [(fresh if new else self, start, end) for new, start, end in runs]
        starts = {id(forward): offsets(forward.sizes) for forward in (self, fresh)}
        pairs = [
            (forward, *starts[id(forward)][[start, end]].tolist()) for forward, start, end in tools
        ]
        return ForwardIndex(
            np.concatenate([forward.sizes[start:end] for forward, start, end in tools]),
            np.concatenate([forward.terms[start:end] for forward, start, end in pairs]),
            np.concatenate([forward.counts[start:end] for forward, start, end in pairs]),
            np.concatenate([forward.whole[start:end] for forward, start, end in pairs]),
            np.concatenate([forward.lengths[start:end] for forward, start, end in tools]),
        )


def joined(parts: Sequence[ForwardIndex]) -> ForwardIndex:
    """The tools of several indexes, at least one, in order."""
    return ForwardIndex(
        np.concatenate([forward.sizes for forward in parts]),
        np.concatenate([forward.terms for forward in parts]),
        np.concatenate([forward.counts for forward in parts]),
        np.concatenate([forward.whole for forward in parts]),
        np.concatenate([forward.lengths for forward in parts]),
    )


class InvertedIndex(NamedTuple):
    """The e pairs of a tool and a term that it has, ordered by term, then tool; n tools, v terms.

    Attributes:
        rows: tool of each pair, (e,) int32.
        terms: term of each pair, (e,) int32.
        counts, whole: of each pair, as in `ForwardIndex`.
        df: document frequency of each term, (v,) int64.
        starts: where each term's pairs begin, (v + 1,) int64.
        size: the number n of tools.
    """

    rows: Ints
    terms: Ints
    counts: Counts
    whole: NDArray[np.bool_]
    df: Positions
    starts: Positions
    size: int

    @classmethod
    def of(cls, forward: ForwardIndex, width: int) -> InvertedIndex:
        """The pairs of a forward index; `width`: the number v of terms."""
        order = np.argsort(forward.terms, kind="stable")
        rows = np.repeat(np.arange(len(forward), dtype=np.int32), forward.sizes)[order]
        df = np.bincount(forward.terms, minlength=width)
        terms, counts, whole = forward.terms[order], forward.counts[order], forward.whole[order]
        return cls(rows, terms, counts, whole, df, offsets(df), len(forward))

    def after(self, source: Positions, fresh: ForwardIndex, width: int) -> InvertedIndex:
        """The pairs of `ForwardIndex.after`; tools that stay must keep their order."""
        stay = np.flatnonzero(source >= 0)
        renumbered = np.full(self.size, -1, np.int32)
        renumbered[source[stay]] = stay
        rows = renumbered[self.rows]
        gone = np.flatnonzero(rows < 0)
        df = np.zeros(width, np.int64)
        df[: len(self.df)] = self.df
        df -= np.bincount(self.terms[gone], minlength=width)
        added = np.flatnonzero(source < 0)
        new = fresh.picked(-1 - source[added])
        owners = np.repeat(added.astype(np.int32), new.sizes)
        order = np.lexsort((owners, new.terms))
        terms, owners = new.terms[order], owners[order]
        kept = without(rows, gone)
        starts = offsets(df).tolist()
        at = [
            starts[term] + int(kept[starts[term] : starts[term + 1]].searchsorted(owner))
            for term, owner in zip(terms.tolist(), owners, strict=True)
        ]
        df += np.bincount(terms, minlength=width)
        return InvertedIndex(
            inserted(kept, at, owners),
            np.repeat(np.arange(width, dtype=np.int32), df),
            inserted(without(self.counts, gone), at, new.counts[order]),
            inserted(without(self.whole, gone), at, new.whole[order]),
            df,
            offsets(df),
            len(source),
        )

    def pairs(self, terms: Positions) -> Positions:
        """Positions of the pairs of some terms, term by term."""
        return flat(self.starts[terms], self.df[terms])


def offsets(sizes: Positions) -> Positions:
    """(n + 1,) where each of n groups of these sizes begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def flat(starts: Positions, sizes: Positions) -> Positions:
    """All positions in groups with these starts and sizes, group by group."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - sizes), sizes)


def without(values: A, gone: Positions) -> A:
    """`values` without those at the ascending positions `gone`."""
    cuts = [-1, *gone.tolist(), len(values)]
    pieces = [values[a + 1 : b] for a, b in itertools.pairwise(cuts) if b > a + 1]
    return np.concatenate([values[:0], *pieces])  # pyright: ignore[reportReturnType]


def inserted(values: A, at: Sequence[int], fresh: A) -> A:
    """`values` with `fresh[i]` inserted before position `at[i]`; `at` ascends."""
    cuts = [0, *at, len(values)]
    pieces: list[NDArray[Any]] = []
    for i, (a, b) in enumerate(itertools.pairwise(cuts)):
        pieces += [values[a:b], fresh[i : i + 1]]
    return np.concatenate(pieces)  # pyright: ignore[reportReturnType]


def _runs(source: Positions) -> Iterator[tuple[bool, int, int]]:
    """`source` as runs of consecutive rows: (whether fresh, first row, end)."""
    new = source < 0
    rows = np.where(new, -1 - source, source)
    breaks = np.flatnonzero((np.diff(rows) != 1) | (new[1:] != new[:-1])) + 1
    edges = [0, *breaks.tolist(), len(source)]
    for start, end in itertools.pairwise(edges):
        if end > start:
            yield bool(new[start]), int(rows[start]), int(rows[end - 1]) + 1
