"""One evaluation: every labelled query through a retriever, figures out.

Owns: the measuring loop and what the figures are over. Never imports a concrete embedder, index
or ranker; the retriever comes ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from armory.domain.query import Query
from armory.domain.query import Ranker as RankerName
from armory.evaluation.dataset import Dataset, LabelledQuery
from armory.evaluation.metrics import (
    AtThreshold,
    Shown,
    at_threshold,
    calibration_error,
    complete_at,
    mean,
    ndcg_at,
    percentile,
    recall_at,
    reciprocal_rank,
)
from armory.retrieval.retriever import Retriever, Verdict
from armory.retrieval.tokens import definition_tokens

THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_CALIBRATION_TOP = 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tool as a failure shows it."""

    tool: str
    rank: int
    score: float
    signals: dict[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """A query whose listing missed a wanted tool, or showed tools though none fits.

    Attributes:
        missed: wanted tools that were not shown, with their rank in the full ranking.
        came: what was shown, best first, five at most.
        refused: whether the query was judged to need no tool.
    """

    id: str
    query: str
    wanted: tuple[str, ...]
    missed: tuple[Candidate, ...]
    came: tuple[Candidate, ...]
    refused: bool


@dataclass(frozen=True, slots=True)
class Result:
    """All figures; `armory.evaluation.report.to_json` names them.

    `ranks` has, for every query that wants a tool, the ranks of its relevant tools in the full
    ranking and how many there are.
    """

    tools: int
    queries: int
    recall: dict[int, float]
    complete: dict[int, float]
    ndcg10: float
    mrr: float
    threshold: AtThreshold
    thresholds: tuple[AtThreshold, ...]
    abstention_accuracy: float | None
    tokens_all: int
    tokens_returned_mean: float
    latency_p50_ms: float
    latency_p95_ms: float
    ece: float
    embedder: str
    ranker: str
    index: str
    failures: tuple[Failure, ...] = ()
    ranks: tuple[tuple[tuple[int, ...], int], ...] = ()
    degraded: str | None = None


@dataclass(slots=True)
class _Tally:
    """What the loop collects."""

    ranks: list[tuple[list[int], int]] = field(default_factory=list[tuple[list[int], int]])
    shown: list[Shown] = field(default_factory=list[Shown])
    sweep: dict[float, list[Shown]] = field(
        default_factory=lambda: {value: list[Shown]() for value in THRESHOLDS}
    )
    tokens: list[float] = field(default_factory=list[float])
    latency_ms: list[float] = field(default_factory=list[float])
    probability: list[float] = field(default_factory=list[float])
    wanted: list[float] = field(default_factory=list[float])
    failures: list[Failure] = field(default_factory=list[Failure])
    degraded: str | None = None


async def evaluate(
    dataset: Dataset,
    retriever: Retriever,
    *,
    embedder: str,
    index: str,
    ranker: RankerName | None = None,
    threshold: float | None = None,
    failures: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Index the set's tools and ask its queries, one after the other.

    Args:
        dataset: tools and labelled queries.
        retriever: its settings apply; the visible set is everything.
        embedder: name for the report.
        index: name for the report.
        ranker: instead of the retriever's own.
        threshold: instead of the retriever's own.
        failures: how many failing queries to keep.
        on_progress: called with (queries done, queries).
    """
    await retriever.index(dataset.tools)
    tally = _Tally()
    costs = {tool.name: definition_tokens(tool.definition) for tool in dataset.tools}
    for done, labelled in enumerate(dataset.queries, start=1):
        query = Query((labelled.text[:8_000],), threshold=threshold, ranker=ranker)
        started = time.perf_counter()
        verdict = await retriever.judge(query)
        shown = retriever.shown(query, verdict)
        tally.latency_ms.append((time.perf_counter() - started) * 1000)
        _count(tally, retriever, query, labelled, verdict, shown, costs, failures)
        if on_progress is not None:
            on_progress(done, len(dataset.queries))
    limits = retriever.settings.limits
    value = limits.threshold if threshold is None else threshold
    name = ranker or retriever.settings.ranker
    return _result(dataset, tally, value, costs, (embedder, name, index))


def _count(
    tally: _Tally,
    retriever: Retriever,
    query: Query,
    labelled: LabelledQuery,
    verdict: Verdict,
    shown: Sequence[int],
    costs: dict[str, int],
    failures: int,
) -> None:
    evidence, ranked = verdict.evidence, verdict.ranked
    assert evidence is not None, "a data set has at least one tool"
    assert ranked is not None
    tally.degraded = tally.degraded or verdict.degraded
    names = [evidence.records[i].name for i in verdict.order.tolist()]
    ranks = {n: place for place, n in enumerate(names, start=1) if n in labelled.relevant}
    if labelled.relevant:
        tally.ranks.append((list(ranks.values()), len(labelled.relevant)))
    listed = [evidence.records[i].name for i in shown]
    tally.shown.append(_shown(listed, labelled))
    if labelled.relevant:
        tally.tokens.append(float(sum(costs[name] for name in listed)))
    for value in THRESHOLDS:
        at = retriever.shown(replace(query, threshold=value), verdict)
        tally.sweep[value].append(_shown([evidence.records[i].name for i in at], labelled))
    for i in verdict.order[:_CALIBRATION_TOP].tolist():
        tally.probability.append(float(ranked.probability[i]))
        tally.wanted.append(float(evidence.records[i].name in labelled.relevant))
    right = labelled.relevant <= set(listed) if labelled.relevant else not listed
    if not right and len(tally.failures) < failures:
        tally.failures.append(_failure(labelled, verdict, shown, names, listed))


def _shown(listed: Sequence[str], labelled: LabelledQuery) -> Shown:
    found = sum(name in labelled.relevant for name in listed)
    return Shown(len(listed), found, len(labelled.relevant))


def _failure(
    labelled: LabelledQuery,
    verdict: Verdict,
    shown: Sequence[int],
    names: Sequence[str],
    listed: Sequence[str],
) -> Failure:
    ranked = verdict.ranked
    assert ranked is not None

    def candidate(place: int, position: int) -> Candidate:
        signals = ranked.signals_at(position)
        return Candidate(names[place], place + 1, float(ranked.score[position]), signals)

    placed = list(enumerate(verdict.order.tolist()))
    missing = labelled.relevant - set(listed)
    inside = set(shown)
    return Failure(
        id=labelled.id,
        query=labelled.text,
        wanted=tuple(sorted(labelled.relevant)),
        missed=tuple(candidate(place, i) for place, i in placed if names[place] in missing),
        came=tuple([candidate(place, i) for place, i in placed if i in inside][:5]),
        refused=ranked.refused,
    )


def _result(
    dataset: Dataset,
    tally: _Tally,
    threshold: float,
    costs: dict[str, int],
    names: tuple[str, str, str],
) -> Result:
    ranks = tally.ranks
    at = at_threshold(threshold, tally.shown)
    return Result(
        tools=len(dataset.tools),
        queries=len(dataset.queries),
        recall={k: mean([recall_at(r, n, k) for r, n in ranks]) for k in (1, 5, 10)},
        complete={k: mean([complete_at(r, n, k) for r, n in ranks]) for k in (5, 10)},
        ndcg10=mean([ndcg_at(r, n, 10) for r, n in ranks]),
        mrr=mean([reciprocal_rank(r) for r, _ in ranks]),
        threshold=at,
        thresholds=tuple(at_threshold(v, tally.sweep[v]) for v in THRESHOLDS),
        abstention_accuracy=at.refused_share,
        tokens_all=sum(costs.values()),
        tokens_returned_mean=mean(tally.tokens),
        latency_p50_ms=percentile(tally.latency_ms, 50),
        latency_p95_ms=percentile(tally.latency_ms, 95),
        ece=calibration_error(np.array(tally.probability), np.array(tally.wanted)),
        embedder=names[0],
        ranker=names[1],
        index=names[2],
        failures=tuple(tally.failures),
        ranks=tuple((tuple(sorted(found)), count) for found, count in ranks),
        degraded=tally.degraded,
    )
