"""Fitting calibration and threshold to one's own catalog.

Owns: observing a ranker over labelled (or template) queries, refitting around the shipped
constants, suggesting a threshold, writing the file that the gateway reads. Never imports config.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.domain.query import MAX_QUERY_CHARS, Query
from armory.domain.tool import ToolRecord
from armory.errors import BackendError, ConfigError
from armory.evaluation.dataset import Dataset, LabelledQuery
from armory.evaluation.metrics import THRESHOLDS, calibration_error
from armory.files import replacing
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.indexing.document import template_queries
from armory.retrieval.options import Limits
from armory.retrieval.ports import FloatArray, IntArray
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.rankers.formulas import FormulaRanker
from armory.retrieval.rankers.fusion import fuse
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.ranking.answer import Ranking
from armory.retrieval.retriever import Retriever
from armory.retrieval.scoring.calibration import (
    VERSION,
    Calibration,
    calibration_for,
    read_calibrations,
    sigmoid,
)
from armory.retrieval.scoring.fitting import (
    Observations,
    fit_steps,
    log_odds_of,
    miss_cost_for,
)

LEAST_QUERIES = 20
RETURNED = 5.5
_USUAL = (0.15, 0.85)
"""A threshold beyond these comes from queries that differ from a gateway's."""
RIDGE = 50.0
"""How strongly the shipped constants hold, in candidate rows."""
_TOP = 20
_MADE_PER_TOOL = 2


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of tuning.

    Attributes:
        ranker: whose calibration.
        embedder: identity it holds for, "" without one.
        calibration: the refitted constants.
        queries: labelled queries that were used (those that want a tool).
        threshold: suggested `similarity_threshold`: the best F2 over the fitted queries.
        ece_before: calibration error with the constants in use, over held-out halves.
        ece_after: the same with refitted constants.
        recall: at the suggested threshold, of what a listing has with the refitted constants.
        returned_mean: tools a query at the suggested threshold, likewise.
    """

    ranker: str
    embedder: str
    calibration: Calibration
    queries: int
    threshold: float
    ece_before: float
    ece_after: float
    recall: float
    returned_mean: float

    @property
    def doubt(self) -> str:
        """Why the threshold should not be taken as it is; "" where nothing speaks against it."""
        least, most = _USUAL
        if not self.recall:
            return (
                "no query gets a tool that it wants, whatever the threshold; do the labels name "
                "the tools as tools.jsonl does, and do the queries say what is to be done?"
            )
        if self.threshold > most:
            return (
                f"a threshold of {self.threshold:g} fits queries as easy as these; others would "
                "get nothing: label some as people write them, or keep it at 0.5"
            )
        if self.threshold < least:
            return (
                f"a threshold of {self.threshold:g} lists nearly everything: there are few tools, "
                "or the labels are others than the texts suggest; check them, or keep it at 0.5"
            )
        return ""


def synthetic_queries(tools: Sequence[ToolRecord]) -> tuple[LabelledQuery, ...]:
    """Queries made from the tools' own texts. Easier than real ones: prefer labelled ones if you
    have any.
    """
    return tuple(
        LabelledQuery(f"{tool.name}:{i}", text, frozenset([tool.name]))
        for tool in tools
        for i, text in enumerate(template_queries(tool)[-_MADE_PER_TOOL:])
    )


async def tune(
    dataset: Dataset,
    retriever: Retriever,
    ranker: Ranker,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Tuned:
    """Refit a ranker's calibration on a labelled set.

    Raises:
        ConfigError: fewer than 20 queries that want a tool.
        BackendError: the embedder failed, so there is nothing to fit to.
    """
    wanting = [query for query in dataset.queries if query.relevant]
    if len(wanting) < LEAST_QUERIES:
        raise ConfigError(
            f"{len(wanting)} queries want a tool, at least {LEAST_QUERIES} are needed to tune; "
            "label more, or let --synthetic make them of more tools"
        )
    await retriever.index(dataset.tools)
    rows: list[_Row] = []
    done = 0

    async def ranked(labelled: LabelledQuery) -> Ranking:
        nonlocal done
        text = labelled.text[:MAX_QUERY_CHARS]
        ranking = await retriever.rank(Query((text,), ranker=ranker.name))
        if ranking.degraded is not None:
            raise BackendError(f"nothing was tuned: {retriever.degraded or ranking.degraded}")
        done += 1
        if on_progress is not None:
            on_progress(done, 2 * len(wanting))
        return ranking

    embedder = ""
    for labelled in wanting:
        features = (await ranked(labelled)).features
        embedder = features.embedder
        rows.append(_row(ranker, features, labelled.relevant))
    used = calibration_for(ranker.name, embedder, retriever.settings.rank.calibration)
    shipped = calibration_for(ranker.name, embedder)  # what was fitted once is no prior of the next
    final, before, after = _fit(rows, shipped, used)
    listings = _Listings(retriever.limits_of(Query(("",))))
    with _calibrated(retriever, ranker.name, embedder, final):
        for labelled in wanting:
            listings.count(await ranked(labelled), labelled.relevant)
    value, recall, returned, _ = max(listings.means(), key=_f2)
    return Tuned(
        ranker.name, embedder, final, len(rows), value, before, after, recall, returned
    )  # fmt: skip


@contextmanager
def _calibrated(
    retriever: Retriever, ranker: str, embedder: str, calibration: Calibration
) -> Generator[None]:
    """The retriever searches with these constants."""
    given = retriever.settings
    override = {ranker: {embedder: calibration.to_json()}}
    retriever.settings = replace(given, rank=replace(given.rank, calibration=override))
    try:
        yield
    finally:
        retriever.settings = given


class _Listings:
    """What every threshold lists of the queries' answers: whatever else a search does counts."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queries = 0
        self._sums = {value: np.zeros(3) for value in THRESHOLDS}

    def count(self, ranking: Ranking, relevant: frozenset[str]) -> None:
        """Add the answer to one query."""
        self._queries += 1
        for value, sums in self._sums.items():
            shown = ranking.cut(replace(self._limits, threshold=value, exact=True)).shown
            hits = len(relevant & {ranking.record(i).name for i in shown})
            sums += hits / len(relevant), hits, len(shown)

    def means(self) -> list[tuple[float, float, float, float]]:
        """Threshold, mean recall, tools listed for each query, the share that was wanted of all."""
        return [
            (value, float(recall / self._queries), float(shown / self._queries),
             float(hits / max(shown, 1)))
            for value, (recall, hits, shown) in self._sums.items()
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    signals: Mapping[str, FloatArray]
    query: Mapping[str, float]
    wanted: NDArray[np.bool_]
    relevant: int


def _row(ranker: Ranker, features: CandidateFeatures, relevant: frozenset[str]) -> _Row:
    fusion = fuse(features)
    near = candidate_signals(features, fusion)
    query = query_signals(features, near)
    signals: Mapping[str, FloatArray] = near
    best: IntArray = fusion.best
    if isinstance(ranker, FormulaRanker):
        signals, best = ranker.signals(features, ranker.formula(features))
    wanted = np.array([features.records[i].name in relevant for i in best.tolist()])
    return _Row(signals, query, wanted, len(relevant))


def _observations(rows: Sequence[_Row]) -> Observations:
    return Observations(
        signals={n: np.stack([row.signals[n] for row in rows]) for n in rows[0].signals},
        query={n: np.array([row.query[n] for row in rows], np.float32) for n in rows[0].query},
        wanted=np.stack([row.wanted for row in rows]),
        relevant=np.array([row.relevant for row in rows]),
    )


def _refit(seen: Observations, prior: Calibration) -> Calibration:
    first, second = fit_steps(
        [seen], tuple(prior.first.weights), tuple(prior.second.weights), ridge=RIDGE, prior=prior
    )
    cost = miss_cost_for([seen], [log_odds_of(seen, first, second)], RETURNED)
    return replace(prior, first=first, second=second, miss_cost=cost)


def _fit(
    rows: Sequence[_Row], prior: Calibration, used: Calibration
) -> tuple[Calibration, float, float]:
    """The refitted constants, and the calibration error before and after, over held-out halves."""
    everything = _observations(rows)
    half = np.arange(len(rows)) % 2 == 0
    before: list[float] = []
    after: list[float] = []
    for chosen in (half, ~half):
        fitted = _refit(everything.only(chosen), prior)
        unseen = everything.only(~chosen)
        before.append(_error(unseen, used))
        after.append(_error(unseen, fitted))
    return _refit(everything, prior), float(np.mean(before)), float(np.mean(after))


def _error(seen: Observations, calibration: Calibration) -> float:
    odds = log_odds_of(seen, calibration.first, calibration.second)
    order = np.argsort(-odds, axis=1)[:, :_TOP]
    p = np.take_along_axis(sigmoid(odds), order, axis=1).ravel()
    wanted = np.take_along_axis(seen.wanted, order, axis=1).ravel()
    return calibration_error(p.astype(np.float64), wanted.astype(np.float64))


def _f2(at: tuple[float, float, float, float]) -> float:
    """The F2 score: recall counts four times as much as precision."""
    _, recall, _, precision = at
    return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def write_calibration(path: Path, tuned: Tuned) -> None:
    """Write the constants to the file, beside those of other rankers and embedders; atomically.

    Raises:
        ConfigError: the file that is there cannot be read, or the folder not written.
    """
    rankers: dict[str, dict[str, Any]] = {}
    try:
        if path.is_file():
            rankers = read_calibrations(path.read_text(encoding="utf-8"))
        rankers.setdefault(tuned.ranker, {})[tuned.embedder] = tuned.calibration.to_json()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps({"version": VERSION, "rankers": rankers}, indent=1).encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
