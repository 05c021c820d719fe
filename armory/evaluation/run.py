"""One evaluation: every labelled query through a retriever, figures out.

Owns: the measuring loop and what the figures are over. Never imports a concrete embedder, index
or ranker; the retriever comes ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from armory.domain.query import MAX_QUERY_CHARS, Query
from armory.errors import BackendError
from armory.evaluation.dataset import Dataset, LabelledQuery
from armory.evaluation.metrics import (
    THRESHOLDS,
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
from armory.retrieval.options import Limits
from armory.retrieval.ranking.answer import Ranking
from armory.retrieval.ranking.tokens import definition_tokens
from armory.retrieval.retriever import Retriever

_CALIBRATION_TOP = 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tool as a failure shows it.

    Attributes:
        tool: its exposed name.
        rank: from 1, in the full ranking.
        score: calibrated, 0 to 1.
        signals: what the score was made of, by name.
    """

    tool: str
    rank: int
    score: float
    signals: dict[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """A query whose listing missed a wanted tool, or showed tools although none fits.

    Attributes:
        id, query, wanted: as labelled; the tools by exposed name.
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

    Attributes:
        tools, queries: how many the set has.
        recall, complete, ndcg10, mrr: means over the queries that want a tool, 0 to 1, higher is
            better; the first two by cut-off (`metrics.recall_at`, `complete_at`).
        threshold: what the threshold in force shows.
        thresholds: what each of `THRESHOLDS` would.
        abstention_accuracy: its `refused_share`.
        tokens_all: estimated tokens of all definitions.
        tokens_returned_mean: of those that are shown, for a query that wants a tool.
        latency_p50_ms, latency_p95_ms: of a search.
        ece: calibration error of the first 20 candidates' probabilities, 0 to 1, lower is better.
        embedder, index: as the report names them.
        ranker: the one that ranked; `lexical` stands in where there are no vectors.
        asked_ranker: the one that was asked for.
        failures: the first queries that were not answered well.
        ranks: for every query that wants a tool, the ranks of its relevant tools in the full
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
    asked_ranker: str
    index: str
    failures: tuple[Failure, ...] = ()
    ranks: tuple[tuple[tuple[int, ...], int], ...] = ()


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a measurement, for the report and for the queries.

    Attributes:
        embedder, index: names for the report.
        ranker: instead of the retriever's own.
        threshold: instead of the retriever's own.
    """

    embedder: str
    index: str
    ranker: str | None = None
    threshold: float | None = None


async def evaluate(
    dataset: Dataset,
    retriever: Retriever,
    setup: Setup,
    *,
    failures: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Index the set's tools and run its queries, one after the other.

    Args:
        dataset: tools and labelled queries.
        retriever: its settings apply; the visible set is everything.
        setup: what is measured.
        failures: how many failing queries to keep.
        on_progress: called with (queries done, queries).

    Raises:
        BackendError: the embedder failed, so that words alone would be measured.
    """
    await retriever.index(dataset.tools)
    tally = _Tally(dataset, failures)
    for done, labelled in enumerate(dataset.queries, start=1):
        query = Query(
            (labelled.text[:MAX_QUERY_CHARS],), threshold=setup.threshold, ranker=setup.ranker
        )
        limits = retriever.limits_of(query)
        started = time.perf_counter()
        ranking = await retriever.rank(query)
        if ranking.degraded is not None and retriever.embedder is not None:
            raise BackendError(f"nothing was measured: {retriever.degraded or ranking.degraded}")
        shown = ranking.cut(limits).shown
        tally.latency_ms.append((time.perf_counter() - started) * 1000)
        tally.count(labelled, ranking, shown, limits)
        if on_progress is not None:
            on_progress(done, len(dataset.queries))
    default = retriever.settings
    threshold = default.limits.threshold if setup.threshold is None else setup.threshold
    named = replace(setup, ranker=setup.ranker or default.ranker, threshold=threshold or 0.0)
    return tally.result(named)


def of_nothing() -> Result:
    """The figures of an empty set, which show which figures exist."""
    return _Tally(Dataset("", (), ()), 0).result(Setup("", ""))


class _Tally:
    """The sums that the loop collects."""

    def __init__(self, dataset: Dataset, failures: int) -> None:
        self.latency_ms: list[float] = []
        self._dataset = dataset
        self._most_failures = failures
        self._costs = {tool.name: definition_tokens(tool.definition) for tool in dataset.tools}
        self._ranks: list[tuple[list[int], int]] = []
        self._shown: list[Shown] = []
        self._sweep = {value: list[Shown]() for value in THRESHOLDS}
        self._tokens: list[float] = []
        self._probability: list[float] = []
        self._wanted: list[float] = []
        self._failures: list[Failure] = []
        self._rankers: dict[str, None] = {}

    def count(
        self, labelled: LabelledQuery, ranking: Ranking, shown: Sequence[int], limits: Limits
    ) -> None:
        """Add one answered query.

        Args:
            labelled: the query.
            ranking: its answer.
            shown: positions of what a listing shows of it.
            limits: those of the listing.
        """
        self._rankers[ranking.ranker.name] = None
        names = [ranking.record(i).name for i in ranking.order.tolist()]
        ranks = {n: place for place, n in enumerate(names, start=1) if n in labelled.relevant}
        if labelled.relevant:
            self._ranks.append((list(ranks.values()), len(labelled.relevant)))
        listed = [ranking.record(i).name for i in shown]
        self._shown.append(_shown(listed, labelled))
        if labelled.relevant:
            self._tokens.append(float(sum(self._costs[name] for name in listed)))
        for value in THRESHOLDS:
            at = ranking.cut(replace(limits, threshold=value, exact=True)).shown
            self._sweep[value].append(_shown([ranking.record(i).name for i in at], labelled))
        for i in ranking.order[:_CALIBRATION_TOP].tolist():
            self._probability.append(float(ranking.scores.probability[i]))
            self._wanted.append(float(ranking.record(i).name in labelled.relevant))
        right = labelled.relevant <= set(listed) if labelled.relevant else not listed
        if not right and len(self._failures) < self._most_failures:
            self._failures.append(_failure(labelled, ranking, shown, names))

    def result(self, setup: Setup) -> Result:
        """The figures; `setup` has the ranker and threshold that were used."""
        ranks = self._ranks
        at = at_threshold(setup.threshold or 0.0, self._shown)
        return Result(
            tools=len(self._dataset.tools),
            queries=len(self._dataset.queries),
            recall={k: mean([recall_at(r, n, k) for r, n in ranks]) for k in (1, 5, 10)},
            complete={k: mean([complete_at(r, n, k) for r, n in ranks]) for k in (5, 10)},
            ndcg10=mean([ndcg_at(r, n, 10) for r, n in ranks]),
            mrr=mean([reciprocal_rank(r) for r, _ in ranks]),
            threshold=at,
            thresholds=tuple(at_threshold(v, self._sweep[v]) for v in THRESHOLDS),
            abstention_accuracy=at.refused_share,
            tokens_all=sum(self._costs.values()),
            tokens_returned_mean=mean(self._tokens),
            latency_p50_ms=percentile(self.latency_ms, 50),
            latency_p95_ms=percentile(self.latency_ms, 95),
            ece=calibration_error(np.array(self._probability), np.array(self._wanted)),
            embedder=setup.embedder,
            ranker=", ".join(self._rankers) or setup.ranker or "",
            asked_ranker=setup.ranker or "",
            index=setup.index,
            failures=tuple(self._failures),
            ranks=tuple((tuple(sorted(places)), count) for places, count in ranks),
        )


def _shown(listed: Sequence[str], labelled: LabelledQuery) -> Shown:
    relevant = sum(name in labelled.relevant for name in listed)
    return Shown(len(listed), relevant, len(labelled.relevant))


def _failure(
    labelled: LabelledQuery, ranking: Ranking, shown: Sequence[int], names: Sequence[str]
) -> Failure:
    """The record of a badly answered query; `names` are those of the full ranking, best first."""
    scores = ranking.scores

    def candidate(place: int, position: int) -> Candidate:
        signals = scores.signals_at(position)
        return Candidate(names[place], place + 1, float(scores.score[position]), signals)

    placed = list(enumerate(ranking.order.tolist()))
    inside = set(shown)
    missing = labelled.relevant - {ranking.record(i).name for i in inside}
    return Failure(
        id=labelled.id,
        query=labelled.text,
        wanted=tuple(sorted(labelled.relevant)),
        missed=tuple(candidate(place, i) for place, i in placed if names[place] in missing),
        came=tuple([candidate(place, i) for place, i in placed if i in inside][:5]),
        refused=scores.refused,
    )
