"""Everything that is known of one query, put side by side for the ranker.

Owns: legs, candidate rows, the lexical half, joining it with the dense half. Blocking NumPy work,
run in a thread by the retriever. Never imports rankers, embedders or indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from armory.domain.query import MAX_QUERY_CHARS, Query
from armory.domain.tool import ToolRecord
from armory.errors import InvalidRequest
from armory.retrieval.intents import clauses
from armory.retrieval.lexical.postings import Hits as LexicalHits
from armory.retrieval.ports import (
    CandidateFeatures,
    FloatArray,
    Hits,
    IntArray,
    Passage,
    Recalled,
    Subquery,
    UsageSource,
)
from armory.retrieval.snapshot import Snapshot

MAX_LEGS = 12
#: Best lexical rows of a leg whose cosine is wanted even from an index that returns only the best.
_LEXICAL_CANDIDATES = 100
#: The same for tools that similar queries led to.
_PAST_CANDIDATES = 20
#: Where past queries of unrelated tools lie: so many standard deviations of the descriptions'
#: cosines above their mean, for the best and for the mean of a tool's queries. Counts as so many
#: tools beside the remembered ones, which alone say little while they are few.
_PAST_ABOVE = (1.0, 0.4)
_PAST_TOOLS = 20
_LEAST_STD = 0.06


@dataclass(frozen=True, slots=True)
class LegText:
    """One text to search for; see `ports.Subquery`. `passage` is what of the query is embedded."""

    text: str
    parent: int
    whole: bool
    passage: Passage


def check_query(query: Query) -> None:
    """Refuse texts that cannot be searched for.

    Raises:
        InvalidRequest: none, not strings, blank, or longer than 8,000 characters together.
    """
    if not query.texts:
        raise InvalidRequest("the query has no text", parameter="query")
    for text in query.texts:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(
                f"the query is {type(text).__name__}, expected text", parameter="query"
            )
        if not text.strip():
            raise InvalidRequest("the query is blank", parameter="query")
    length = sum(map(len, query.texts))
    if length > MAX_QUERY_CHARS:
        raise InvalidRequest(
            f"the query has {length} characters, at most {MAX_QUERY_CHARS} are allowed",
            parameter="query",
        )


def legs_of(texts: Sequence[str]) -> list[LegText]:
    """The whole texts in order, then their clauses; at most twelve."""
    legs = [LegText(text, i, True, Passage(text)) for i, text in enumerate(texts)]
    for i, text in enumerate(texts):
        legs += [LegText(text[slice(*s)], i, False, Passage(text, s)) for s in clauses(text)]
    return legs[: max(MAX_LEGS, len(texts))]


def allowed_rows(snapshot: Snapshot, names: frozenset[str] | None) -> IntArray | None:
    """Ascending rows of the named tools; None for no restriction."""
    if names is None:
        return None
    found = [snapshot.row_of[name] for name in names if name in snapshot.row_of]
    if len(found) == len(snapshot.records):
        return None
    return np.array(sorted(found), np.int64)


def filtered(snapshot: Snapshot, allowed: IntArray | None, query: Query) -> IntArray | None:
    """`allowed` narrowed to the query's servers and categories."""
    for wanted, (codes, names) in (
        (query.servers, snapshot.servers),
        (query.categories, snapshot.categories),
    ):
        if wanted is None:
            continue
        chosen = np.array([names[n] for n in sorted(wanted) if n in names], np.int64)
        if allowed is None:
            allowed = np.flatnonzero(np.isin(codes, chosen))
        else:
            allowed = allowed[np.isin(codes[allowed], chosen)]
    return allowed


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The lexical half of the legs.

    Attributes:
        hits: one a leg.
        bm25: (m, n) float32 over all rows.
        mean, std: (m,) over the allowed rows.
        best: ascending allowed rows that are lexically best for some leg.
    """

    hits: list[LexicalHits]
    bm25: FloatArray
    mean: FloatArray
    std: FloatArray
    best: IntArray


def words_of(snapshot: Snapshot, legs: Sequence[LegText], allowed: IntArray | None) -> Words:
    """Score the words of every leg."""
    hits = [snapshot.postings.search(leg.text) for leg in legs]
    bm25 = np.empty((len(hits), len(snapshot.records)), np.float32)
    spread: list[tuple[float, float]] = []
    chosen: list[IntArray] = []
    for hit, row in zip(hits, bm25, strict=True):
        row[:] = sums = hit.sums()
        inside = sums if allowed is None else sums[allowed]
        mean = float(inside.mean())
        square = float(inside @ inside) / len(inside) - mean**2
        spread.append((mean, max(square, 0.0) ** 0.5))
        found = np.flatnonzero(inside)
        if allowed is not None:
            found = allowed[found]
        if len(found) > _LEXICAL_CANDIDATES:
            part = np.argpartition(-row[found], _LEXICAL_CANDIDATES)[:_LEXICAL_CANDIDATES]
            found = found[part]
        chosen.append(found)
    mean, std = np.array(spread, np.float32).T
    return Words(hits, bm25, mean, std, np.unique(np.concatenate(chosen)))


def to_dense(snapshot: Snapshot, rows: IntArray | None) -> IntArray | None:
    """Rows of the snapshot as rows of its view; tools without vectors are left out."""
    if snapshot.dense is None:
        return rows
    found = snapshot.dense if rows is None else snapshot.dense[rows]
    return np.sort(found[found >= 0])


def _candidates(
    snapshot: Snapshot, allowed: IntArray | None, words: Words, hits: Hits | None
) -> tuple[IntArray, FloatArray | None]:
    """(c,) ascending rows and (m, c) cosines; a tool without vectors gets its leg's mean."""
    if hits is None:
        return (np.arange(len(snapshot.records)) if allowed is None else allowed), None
    if snapshot.dense is None:
        return hits.rows, hits.cosine
    back = np.flatnonzero(snapshot.dense >= 0)
    rows = back[np.argsort(snapshot.dense[back], kind="stable")][hits.rows]
    bare = words.best[snapshot.dense[words.best] < 0]
    filler = np.repeat(hits.mean[:, None], len(bare), axis=1)
    joined = np.concatenate([rows, bare])
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate([hits.cosine, filler], axis=1)[:, order]


def remembered(snapshot: Snapshot, allowed: IntArray | None, recalled: Recalled) -> IntArray:
    """Ascending allowed rows of the tools that the most similar past queries led to."""
    chosen: set[int] = set()
    for cosine in recalled.cosine:
        best = np.argsort(-cosine, kind="stable")[:_PAST_CANDIDATES]
        rows = (snapshot.row_of.get(recalled.names[int(i)]) for i in best.tolist())
        chosen.update(row for row in rows if row is not None)
    found = np.array(sorted(chosen), np.int64)
    return found if allowed is None else np.intersect1d(found, allowed, assume_unique=True)


class Picked(Sequence[ToolRecord]):
    """Some of the records; no list is made of thousands of which a few are looked at."""

    def __init__(self, records: Sequence[ToolRecord], rows: IntArray) -> None:
        self._records = records
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> ToolRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Picked: ...
    def __getitem__(self, index: int | slice) -> ToolRecord | Picked:
        if isinstance(index, slice):
            return Picked(self._records, self._rows[index])
        return self._records[self._rows[index]]


def _standard(values: FloatArray, above: float, mean: FloatArray, std: FloatArray) -> FloatArray:
    """(m, t) standard scores of cosines with past queries, against those of all tools."""
    count, beside = values.shape[1], _PAST_TOOLS
    std = np.maximum(std, _LEAST_STD)
    prior = mean + above * std
    middle = (values.sum(1) + beside * prior) / (count + beside)
    square = ((values - middle[:, None]) ** 2).sum(1) + beside * (std**2 + (prior - middle) ** 2)
    return (values - middle[:, None]) / np.sqrt(square / (count + beside))[:, None]


def _past(
    snapshot: Snapshot, rows: IntArray, recalled: Recalled, hits: Hits
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(m, c) best cosine with a past query, (m, c) standard scores, (c,) uses behind them."""
    known = [(t, snapshot.row_of[n]) for t, n in enumerate(recalled.names) if n in snapshot.row_of]
    used = np.zeros((len(recalled.cosine), len(rows)), np.float32)
    past, counts = np.zeros_like(used), np.zeros(len(rows), np.float32)
    if known and len(rows):
        found, places = np.array(known, np.int64).T
        at = np.minimum(np.searchsorted(rows, places), len(rows) - 1)
        inside = rows[at] == places
        to, of = at[inside], found[inside]
        both = zip((recalled.cosine, recalled.centre), _PAST_ABOVE, strict=True)
        scores = [_standard(values, above, hits.mean, hits.std)[:, of] for values, above in both]
        used[:, to], past[:, to] = recalled.cosine[:, of], (scores[0] + scores[1]) / 2
        counts[to] = recalled.uses[of]
    return used, past, counts


def gather(
    snapshot: Snapshot,
    query: Query,
    legs: Sequence[LegText],
    allowed: IntArray | None,
    words: Words,
    hits: Hits | None,
    vectors: FloatArray | None,
    recalled: Recalled | None,
    embedder: str,
    usage: UsageSource | None,
) -> CandidateFeatures:
    """Join both halves over the same candidates."""
    rows, cosine = _candidates(snapshot, allowed, words, hits)
    whole = len(rows) == len(snapshot.records)
    records = snapshot.records if whole else Picked(snapshot.records, rows)
    used = past = counts = None
    if recalled is not None and hits is not None:
        used, past, counts = _past(snapshot, rows, recalled, hits)
    joined = [
        Subquery(
            text=leg.text,
            parent=leg.parent,
            whole=leg.whole,
            cosine=None if cosine is None else cosine[i],
            cosine_mean=0.0 if hits is None else float(hits.mean[i]),
            cosine_std=0.0 if hits is None else float(hits.std[i]),
            bm25=words.bm25[i] if whole else words.bm25[i][rows],
            bm25_mean=float(words.mean[i]),
            bm25_std=float(words.std[i]),
            hits=words.hits[i],
            used=None if used is None else used[i],
            past=None if past is None else past[i],
            vector=None if vectors is None or hits is None else vectors[i],
        )
        for i, leg in enumerate(legs)
    ]
    return CandidateFeatures(
        legs=joined,
        records=records,
        rows=rows,
        postings=snapshot.postings,
        visible=len(snapshot.records) if allowed is None else len(allowed),
        embedder=embedder if hits is not None else "",
        uses=counts,
        usage=usage,
        user=query.user,
        hour=query.hour,
        last_tool=query.last_tool,
    )
