"""The seams inside retrieval: what an embedder, an index, the words and a ranker are to each other.

Owns: the Protocols and the values that cross them. Never imports an embedder, an index or a
ranker.

One query becomes *legs* (each text that the caller sent, and each clause of it), each leg is
scored by the dense and the lexical side over the same candidate rows, and a ranker, a pure NumPy
function, turns the `CandidateFeatures` into a `Ranked`. A row is a tool's position in the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.lexical.postings import Hits as LexicalHits
from armory.retrieval.lexical.postings import Postings
from armory.retrieval.tables import Spread

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
        """Let connections and threads go."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """What is embedded of a query: a text, or the characters of a span of it (start, end)."""

    text: str
    span: tuple[int, int] | None = None

    @property
    def words(self) -> str:
        """The text by itself."""
        return self.text if self.span is None else self.text[slice(*self.span)]


@runtime_checkable
class ClauseReader(Protocol):
    """What an embedder also is whose model reads a text once for all of its clauses."""

    async def embed_clauses(self, text: str, spans: Sequence[tuple[int, int]]) -> FloatArray:
        """(1 + s, d) float32 unit rows: the query, then each span of it, read in its context."""
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
class Hits:
    """What the dense side found for m query vectors.

    Attributes:
        rows: (c,) candidate rows, ascending.
        cosine: (m, c) float32, best cosine of each candidate over its vectors, in [-1, 1].
        mean, std: (m,) float32, of the best cosine over all allowed rows (estimated on a sample
            of at most 4,096 tools where the index does not score them all).
    """

    rows: IntArray
    cosine: FloatArray
    mean: FloatArray
    std: FloatArray


class VectorView(Protocol):
    """One immutable state of an index."""

    async def search(
        self,
        queries: FloatArray,
        k: int,
        allowed: IntArray | None = None,
        also: IntArray | None = None,
    ) -> Hits:
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


class VectorIndex(Protocol):
    """Where vectors live. Several vectors a tool; the best one counts."""

    async def stored(self) -> Mapping[str, str]:
        """Digest by key of what is in the store already."""
        ...

    async def update(self, rows: Sequence[Row], changed: Mapping[str, FloatArray]) -> VectorView:
        """Make the store hold exactly `rows`; returns the view whose row numbers they are.

        Args:
            rows: the whole new state, in row order.
            changed: (v, d) float32 unit rows of every key whose digest is not `stored()`.

        Raises:
            BackendError: the store failed; earlier views keep working as far as the store does.
        """
        ...

    async def aclose(self) -> None:
        """Let files and connections go."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Subquery:
    """One text that is searched for.

    Attributes:
        text: a text of the query, or a clause of one.
        parent: position in `Query.texts` of the text that it is or belongs to.
        whole: whether it is the caller's whole text, not a clause.
        cosine: (c,) best cosine of each candidate; None: no dense side.
        cosine_mean, cosine_std: over the visible set.
        used: (c,) best cosine with a past query that led to this tool, 0 without one; None: no
            memory of use.
        past: (c,) how like the queries that led to this tool the text is, in standard scores
            against other tools' queries, 0 without any; None: no memory of use.
        bm25: (c,) BM25F over all fields, at least 0.
        bm25_mean, bm25_std: over the visible set.
        hits: the same words as pairs, for `CandidateFeatures.postings.fields`; its rows are those
            of the snapshot.
        vector: (d,) of the text, of unit length; None: no dense side.
    """

    text: str
    parent: int
    whole: bool
    cosine: FloatArray | None
    cosine_mean: float
    cosine_std: float
    bm25: FloatArray
    bm25_mean: float
    bm25_std: float
    hits: LexicalHits
    used: FloatArray | None = None
    past: FloatArray | None = None
    vector: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UsageArrays:
    """(r,) float32 in [0, 1] each: what calls of r tools have shown."""

    popularity: FloatArray
    history: FloatArray
    performance: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class CandidateFeatures:
    """Everything known of one query over its candidate tools.

    Attributes:
        legs: never empty; the whole texts first in the caller's order, then clauses.
        records: (c,) the candidate tools.
        rows: (c,) their rows in the snapshot, ascending.
        postings: the words of the whole snapshot: `postings.keyword(leg.text)[rows]`,
            `postings.fields(leg.hits, rows)`.
        visible: number of tools searched (>= c).
        embedder: identity of the embedder, "" without dense side.
        uses: (c,) float32, how many past uses stand behind `Subquery.used`; None: no memory of use.
        usage: statistics of calls, asked only for the tools that a ranker looks at; None: unknown.
        user, hour, last_tool: context of the query, see `Query`.
    """

    legs: Sequence[Subquery]
    records: Sequence[ToolRecord]
    rows: IntArray
    postings: Postings
    visible: int
    embedder: str
    uses: FloatArray | None = None
    usage: UsageSource | None = None
    user: str | None = None
    hour: int | None = None
    last_tool: str | None = None

    @property
    def dense(self) -> bool:
        """Whether the legs carry cosines."""
        return self.legs[0].cosine is not None


@dataclass(frozen=True, slots=True)
class RankSettings:
    """What configuration says to a ranker.

    Attributes:
        miss_cost: c of the score, > 0; None: the calibration's own.
        weights: of `multi_factor`, by signal.
        tag_boosts: factor on the raw score's probability odds by tag.
        context_boosts: whether hour and last tool count.
        calibration: parsed calibration that overrides the shipped one; None: shipped.
    """

    miss_cost: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    tag_boosts: Mapping[str, float] = field(default_factory=dict[str, float])
    context_boosts: bool = False
    calibration: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A ranker's verdict over the c candidates of an CandidateFeatures.

    Attributes:
        order: (r,) int64 positions into the candidates, best first; r < c only for a ranker that
            re-ranks a few (`multi_factor`).
        raw: (c,) the ranker's formula, higher is better.
        probability: (c,) calibrated P(wanted) in [0, 1].
        score: (c,) c*P / (c*P + 1 - P), in [0, 1].
        refused: the query needs no tool.
        signals: named (c,) arrays for explanations; of one tool, `signals_at`.
    """

    order: IntArray
    raw: FloatArray
    probability: FloatArray
    score: FloatArray
    refused: bool = False
    signals: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])

    def signals_at(self, position: int) -> dict[str, float]:
        """Every signal of one candidate."""
        if isinstance(self.signals, Spread):
            return self.signals.at(position)
        return {name: float(values[position]) for name, values in self.signals.items()}


class Ranker(Protocol):
    """Evidence in, verdict out; no I/O, no state."""

    @property
    def name(self) -> str:
        """As in `tool_rag.ranker`."""
        ...

    @property
    def needs_dense(self) -> bool:
        """Whether it cannot work without cosines; the retriever then falls back to `lexical`."""
        ...

    def rank(self, evidence: CandidateFeatures, settings: RankSettings) -> Ranked:
        """Judge every candidate."""
        ...

    def reason(self, evidence: CandidateFeatures, ranked: Ranked, position: int) -> str:
        """One readable sentence made of the signals that decided for this candidate."""
        ...


class UsageSource(Protocol):
    """Statistics of real calls, kept elsewhere; must answer from memory."""

    def statistics(self, user: str | None, names: Sequence[str]) -> UsageArrays:
        """Popularity over all, history of this user, performance of each named tool."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Recalled:
    """What memory of use says to m query vectors.

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
