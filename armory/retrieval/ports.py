"""The interfaces within retrieval: embedder, index, statistics and memory of use.

Owns: their Protocols and the values that cross them. Never imports anything of retrieval.

A row is a tool's position in the snapshot that is searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


class Embedder(Protocol):
    """Text to unit vectors. Raises `BackendError` when the model or API behind it fails."""

    @property
    def identity(self) -> str:
        """Names the vectors: equal identity, comparable vectors. Stored with every vector."""
        ...

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows, one a text."""
        ...

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows, one a text."""
        ...

    async def aclose(self) -> None:
        """Close connections and threads."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to embed: a whole query, or the characters of a span of it (start, end)."""

    text: str
    span: tuple[int, int] | None = None

    @property
    def words(self) -> str:
        """The text by itself."""
        return self.text if self.span is None else self.text[slice(*self.span)]


@runtime_checkable
class ClauseReader(Protocol):
    """An embedder whose model reads a text once for all of its clauses."""

    async def embed_clauses(self, text: str, spans: Sequence[tuple[int, int]]) -> FloatArray:
        """(1 + s, d) float32 unit rows: the query, then each span of it, read in its context."""
        ...


@runtime_checkable
class LanguageBound(Protocol):
    """An embedder that states which languages its model reads."""

    @property
    def english_only(self) -> bool:
        """Whether it reads English alone, so that queries are put into English for it."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One tool in an index.

    Attributes:
        key: exposed name, unique.
        digest: hash over the embedder's identity and the tool's texts; equal digest, equal vectors.
        server, category: what filters look at.
    """

    key: str
    digest: str
    server: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Cosines of tools that stand for all of them, where not every tool is scored.

    Attributes:
        rows: (s,) ascending rows.
        cosine: (m, s) float32, best cosine of each over its vectors.
        complete: they are all of the allowed rows, though by quantized vectors.
    """

    rows: IntArray
    cosine: FloatArray
    complete: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class VectorHits:
    """The dense hits for m query vectors.

    Attributes:
        rows: (c,) candidate rows, ascending.
        cosine: (m, c) float32, best cosine of each candidate over its vectors, in [-1, 1].
        mean, std: (m,) float32, of the best cosine over all allowed rows (of more than 16,384
            tools estimated on a sample of so many, where the index does not score them all).
        lost: how many of the rows the store has lost; their cosine is the mean.
        sample: of the allowed rows; None where every one of them is among `rows`.
    """

    rows: IntArray
    cosine: FloatArray
    mean: FloatArray
    std: FloatArray
    lost: int = 0
    sample: Sample | None = None

    def filled(self) -> VectorHits:
        """With every allowed row as a candidate, where something is known of each.

        A formula of meaning and words may hold a tool for good that is among the best by neither.
        """
        if self.sample is None or not self.sample.complete:
            return self
        return replace(self, rows=self.sample.rows, cosine=self.sample.cosine, sample=None)


class VectorView(Protocol):
    """One immutable state of an index."""

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> VectorHits:
        """Candidates within `allowed`, at least the best `k` of every query.

        Args:
            queries: (m, d) float32 unit rows.
            k: how many candidates a query; an index that scores everything may return more.
            allowed: ascending rows to search in; None: all.
            also: further allowed rows whose cosine is wanted whatever it is.

        Raises:
            BackendError: the store behind the index failed.
        """
        ...

    async def vectors(self, rows: IntArray) -> FloatArray:
        """(r, d) float32: the first vector of each row (the tool's own text)."""
        ...


@runtime_checkable
class Probed(Protocol):
    """A view whose store is outside this process, and can be probed."""

    async def probe(self) -> bool:
        """Whether the store holds what this view needs; cheap.

        Raises:
            BackendError: the store does not answer.
        """
        ...


@runtime_checkable
class Sampling(Protocol):
    """An index that keeps the vectors of some tools in memory beside those in its store."""

    def wanted(self, rows: Sequence[Row]) -> list[str]:
        """Keys of these rows whose vectors `update` would else have to fetch."""
        ...


class VectorIndex(Protocol):
    """A vector store. A tool may have several vectors; the best one counts."""

    async def stored(self, rows: Sequence[Row]) -> Mapping[str, str]:
        """Digest by key of what is in the store already; at least of those of `rows` that are."""
        ...

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> VectorView:
        """Make `rows` searchable; returns the view whose row numbers they are, and no others.

        A store that others share keeps what is theirs.

        Args:
            rows: the whole new state, in row order.
            changed: (v, d) float32 unit rows of every key whose digest is not `stored`, and of
                others where they are at hand.

        Raises:
            BackendError: the store failed; earlier views keep working as far as the store does.
        """
        ...

    async def aclose(self) -> None:
        """Close files and connections."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class UsageArrays:
    """Usage statistics of r tools; (r,) float32 in [0, 1] each."""

    popularity: FloatArray
    history: FloatArray
    performance: FloatArray


class UsageSource(Protocol):
    """Statistics of real calls, kept elsewhere."""

    async def recall(self, user: str) -> None:
        """Have what this user has used in memory, for `statistics`; never fails, nor takes long."""
        ...

    def statistics(self, user: str | None, names: Sequence[str]) -> UsageArrays:
        """Popularity over all, history of this user, performance of each named tool;
        from memory.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Recalled:
    """What memory of use knows about m query vectors.

    Attributes:
        names: exposed names of the t tools that have enough past queries.
        cosine: (m, t) float32, best cosine with a past query of each, in [0, 1].
        centre: (m, t) float32, cosine with the mean of the past queries of each.
        uses: (t,) float32, how many uses stand behind it, older ones counting less.
    """

    names: Sequence[str]
    cosine: FloatArray
    centre: FloatArray
    uses: FloatArray


class UseMemory(Protocol):
    """Past queries that led to a tool, as vectors of this embedder; must answer from memory."""

    def recall(self, queries: FloatArray, user: str | None) -> Recalled:
        """Which tools similar queries led to; `user`'s own successes weigh more."""
        ...
