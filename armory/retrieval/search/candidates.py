"""From a scope to the features of its candidates: words, vectors and memory of use, joined.

Owns: `CandidateSearch`, which asks the three, and joining what they say over the same rows. Never
imports rankers, a concrete embedder or index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from armory.domain.results import NO_LOSS, Loss
from armory.domain.tool import ToolRecord
from armory.retrieval.features import NO_MOMENTS, CandidateFeatures, Moments, Subquery
from armory.retrieval.ports import (
    FloatArray,
    IntArray,
    Recalled,
    UsageSource,
    UseMemory,
    VectorHits,
)
from armory.retrieval.search.dense import DenseSide
from armory.retrieval.search.past import Past, past_of, remembered_rows
from armory.retrieval.search.scope import Scope
from armory.retrieval.search.threads import SearchThreads
from armory.retrieval.search.words import Words, words_of


@dataclass(frozen=True, slots=True)
class Experience:
    """What was learned from calls so far.

    Attributes:
        usage: statistics of calls, for `multi_factor`; None: unknown.
        memory: past queries that led to tools; None: nothing is remembered.
    """

    usage: UsageSource | None = None
    memory: UseMemory | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The results of each side of a search, not joined yet.

    Attributes:
        words: the lexical half.
        vectors: (m, d) of the scope's parts; None: they are not embedded.
        hits: the dense half; None: there is none, or it failed.
        recalled: memory of use; None: there is none, or no vectors to ask it with.
        problem: what was lost.
    """

    words: Words
    vectors: FloatArray | None = None
    hits: VectorHits | None = None
    recalled: Recalled | None = None
    problem: Loss = NO_LOSS


class CandidateSearch:
    """Finds the candidates of a query.

    Args:
        dense: embedder and vector store.
        experience: what calls have shown.
        threads: where blocking work is done.
    """

    def __init__(self, dense: DenseSide, experience: Experience, threads: SearchThreads) -> None:
        self._dense = dense
        self._experience = experience
        self._threads = threads

    async def find(self, scope: Scope) -> Findings:
        """Run lexical and dense search concurrently; if the dense side fails, the lexical half
        remains.
        """
        loop = asyncio.get_running_loop()
        words_soon = loop.run_in_executor(self._threads.of(scope.query), words_of, scope)
        try:
            vectors, problem = await self._dense.vectors(scope)
            words = await words_soon
        finally:
            del words_soon  # whose error holds this frame by its trace
        if vectors is None:
            return Findings(words, problem=problem)
        also, recalled = words.best, None
        if self._experience.memory is not None:
            recall = self._experience.memory.recall
            recalled = await asyncio.to_thread(recall, vectors, scope.query.user)
            also = np.union1d(also, remembered_rows(scope, recalled))
        hits, problem = await self._dense.hits(scope, vectors, also)
        return Findings(words, vectors, hits and hits.filled(), recalled, problem)

    def features(self, scope: Scope, findings: Findings) -> CandidateFeatures:
        """Join the findings over the same candidates; blocking."""
        rows, cosine = _rows_and_cosines(scope, findings)
        past = None
        if findings.recalled is not None and findings.hits is not None:
            past = past_of(scope, rows, findings.recalled, findings.hits)
        return self._features(scope, findings, rows, cosine, past, self._sample(scope, findings))

    def _sample(self, scope: Scope, findings: Findings) -> CandidateFeatures | None:
        """What is known of the tools that stand for all, where not all are candidates."""
        if findings.hits is None or (sample := findings.hits.sample) is None:
            return None
        rows = _records_of(scope, sample.rows)
        return self._features(scope, findings, rows, sample.cosine, None, None)

    def _features(
        self,
        scope: Scope,
        findings: Findings,
        rows: IntArray,
        cosine: FloatArray | None,
        past: Past | None,
        sample: CandidateFeatures | None,
    ) -> CandidateFeatures:
        """What is known of some rows, with their (m, r) cosines."""
        words, hits, vectors = findings.words, findings.hits, findings.vectors
        everything = scope.snapshot.records
        whole = len(rows) == len(everything)
        parts = [
            Subquery(
                text=part.text,
                parent=part.parent,
                whole=part.whole,
                cosine=None if cosine is None else cosine[i],
                cosine_moments=_cosine_moments(hits, i),
                bm25=words.bm25[i] if whole else words.bm25[i][rows],
                bm25_moments=words.moments[i],
                hits=words.hits[i],
                used=None if past is None else past.used[i],
                past=None if past is None else past.past[i],
                vector=None if vectors is None or hits is None else vectors[i],
            )
            for i, part in enumerate(scope.parts)
        ]
        count = len(scope.texts)
        return CandidateFeatures(
            subqueries=parts[:count],
            implied=parts[count:],
            records=everything if whole else _Picked(everything, rows),
            rows=rows,
            postings=scope.snapshot.postings,
            visible=scope.size,
            embedder="" if hits is None else self._dense.identity,
            uses=None if past is None else past.uses,
            usage=self._experience.usage,
            user=scope.query.user,
            hour=scope.query.hour,
            last_tool=scope.query.last_tool,
            servers=_servers(scope, rows) if len(rows) == scope.size else None,
            searched=scope.allowed,
            sample=sample,
        )


def _cosine_moments(hits: VectorHits | None, place: int) -> Moments:
    if hits is None:
        return NO_MOMENTS
    return Moments(float(hits.mean[place]), float(hits.std[place]))


def _servers(scope: Scope, rows: IntArray) -> IntArray | None:
    """(r,) a number for the server of each row, its own for a tool of none; None: none has one."""
    codes, names = scope.snapshot.servers
    servers = codes if len(rows) == len(codes) else codes[rows]
    if (none := names.get("")) is None:
        return servers
    if len(names) == 1:
        return None
    return np.where(servers == none, len(names) + np.arange(len(servers)), servers)


def _rows_and_cosines(scope: Scope, findings: Findings) -> tuple[IntArray, FloatArray | None]:
    """(c,) ascending rows and (m, c) cosines; a tool without vectors gets its subquery's mean."""
    snapshot, hits = scope.snapshot, findings.hits
    if hits is None:
        every = np.arange(len(snapshot.records)) if scope.allowed is None else scope.allowed
        return every, None
    if snapshot.dense is None:
        return hits.rows, hits.cosine
    rows = _records_of(scope, hits.rows)
    best = findings.words.best
    bare = best[snapshot.dense[best] < 0]
    filler = np.repeat(hits.mean[:, None], len(bare), axis=1)
    joined = np.concatenate([rows, bare])
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate([hits.cosine, filler], axis=1)[:, order]


def _records_of(scope: Scope, rows: IntArray) -> IntArray:
    """Rows of the view as rows of its snapshot."""
    dense = scope.snapshot.dense
    if dense is None:
        return rows
    back = np.flatnonzero(dense >= 0)
    return back[np.argsort(dense[back], kind="stable")][rows]


class _Picked(Sequence[ToolRecord]):
    """Some of the records; no list is made of thousands of which a few are looked at."""

    def __init__(self, records: Sequence[ToolRecord], rows: IntArray) -> None:
        self._records = records
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> ToolRecord: ...
    @overload
    def __getitem__(self, index: slice) -> _Picked: ...
    def __getitem__(self, index: int | slice) -> ToolRecord | _Picked:
        if isinstance(index, slice):
            return _Picked(self._records, self._rows[index])
        return self._records[self._rows[index]]
