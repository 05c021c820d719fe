"""Labelled sets and written queries over catalog sizes as tables, for fitting and judging.

Owns: what is known of every query of a set, alone and among 500 to 15,000 of the pool's tools.
Never fits anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.features import CandidateFeatures
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.evidence import Evidence
from armory.retrieval.rankers.formulas import HybridRanker, LexicalRanker, SemanticRanker
from armory.retrieval.rankers.fusion import best_of, fuse
from armory.retrieval.rankers.relevance import evidence_of
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.scoring.calibration import Calibration, sigmoid
from armory.retrieval.scoring.fitting import Observations
from training.relevance.among import catalogs, mixed, size_of
from training.relevance.sets import (
    FOLD_OF,
    LABELLED,
    CachedModel,
    Catalog,
    Question,
    features_of,
)
from training.relevance.signals import Collector
from training.relevance.written import HALVES

Doubles = NDArray[np.float64]
PLAIN = (SemanticRanker(), HybridRanker(), LexicalRanker())
SETS = (*LABELLED, *(f"written-{half}" for half in HALVES))
#: The fold whose embedder sees the written queries: of servers that none was trained on.
WRITTEN_FOLD = "a"
#: What the written queries weigh beside a labelled set.
_WRITTEN = 0.4
#: What a set weighs at each size, where it weighs 1 alone.
_SIZED = 0.5
_DEPTH = 5


@dataclass(frozen=True)
class Judged:
    """One set among so many tools.

    Attributes:
        tools: how many there are.
        seen: its queries, with the plain formulas beside the signals of `relevance`.
        evidence: of each query's best candidates, at most as many as `seen` has.
        plain: (Q,) recall@5 of the plain rankers.
        refused: (Q,) whether the shipped constants refuse the query.
    """

    tools: int
    seen: Observations
    evidence: Sequence[Evidence]
    plain: Mapping[str, Doubles]
    refused: NDArray[np.bool_]


def unseen(folds: Path, cache: Path, names: Sequence[str] = SETS) -> dict[str, CachedModel]:
    """For each set the embedder that was trained without it, of a folder with `a`, `b` and `c`."""
    known = {fold: CachedModel(folds / fold, cache) for fold in sorted(set(FOLD_OF.values()))}
    return {name: known[FOLD_OF.get(name, WRITTEN_FOLD)] for name in names}


def read_sizes(
    data: Path,
    embedders: Mapping[str, CachedModel],
    base: CachedModel,
    refusal: Calibration,
    cap: int,
) -> dict[str, Judged]:
    """Tables by `set` and `set among 500`.

    Args:
        data: the labelled sets.
        embedders: of each set.
        base: the untouched embedder, which tells copies of wanted tools.
        refusal: whose refusals count.
        cap: queries a set at most.
    """
    judged: dict[str, Judged] = {}
    for name, embed in embedders.items():
        source = mixed(data, name, base, cap)
        for catalog in catalogs(source, embed):
            judged[catalog.name] = observe(catalog, source.questions, embed, refusal)
        embed.save()
        base.save()
        print(f"read {name}: {len(source.questions)} queries", flush=True)
    return judged


def recall(order: NDArray[np.int64], wanted: frozenset[int]) -> float:
    """Share of what is wanted among the first five."""
    return len(wanted.intersection(order[:_DEPTH].tolist())) / len(wanted)


def observe(
    catalog: Catalog, questions: Sequence[Question], embed: CachedModel, entry: Calibration
) -> Judged:
    """Signals and plain orders of every query."""
    collector = Collector()
    plain: dict[str, list[float]] = {ranker.name: [] for ranker in PLAIN}
    refused: list[bool] = []
    evidence: list[Evidence] = []
    texts = [question.text for question in questions]
    for features, question in zip(features_of(catalog, texts, embed), questions, strict=True):
        signals, query, best, found = _read(features)
        evidence.append(found)
        collector.add(signals, query, best, question.relevant)
        for ranker in PLAIN:
            order = best_of(ranker.formula(features), _DEPTH)
            plain[ranker.name].append(recall(order, question.relevant))
        vectors = [part.vector for part in features.whole if part.vector is not None]
        need = entry.need.of({**query, **entry.acts_signal(vectors)})
        needed = float(sigmoid(np.array([need], np.float32))[0])
        refused.append(entry.refuses(needed, features.visible))
    seen = replace(collector.observations(), texts=texts)
    by_plain = {name: np.array(values) for name, values in plain.items()}
    return Judged(len(catalog.records), seen, evidence, by_plain, np.array(refused))


def _read(
    features: CandidateFeatures,
) -> tuple[dict[str, FloatArray], dict[str, float], NDArray[np.int64], Evidence]:
    fusion = fuse(features)
    table = candidate_signals(features, fusion)
    query = query_signals(features, table)
    evidence = evidence_of(features, fusion, table)
    signals = {**table, **evidence.plain}
    missing = 100 - len(fusion.best)
    if missing > 0:  # a set of few tools: the rest is no tool, and far below
        signals = {
            name: np.concatenate([values, np.repeat(values.min() - 5, missing)])
            for name, values in signals.items()
        }
    best = np.concatenate([fusion.best, np.full(max(missing, 0), -1)])
    return signals, query, best, evidence


def recalls(seen: Observations, order_by: FloatArray) -> Doubles:
    """(Q,) recall@5."""
    order = np.argsort(-order_by, axis=1, kind="stable")[:, :_DEPTH]
    return np.take_along_axis(seen.wanted, order, 1).sum(1) / seen.relevant


def weight_of(name: str, seen: Observations) -> float:
    """What a table's queries weigh together; among the pool's tools half of what they do alone."""
    kind = _WRITTEN if name.startswith("written-") else 1.0
    return seen.weight * kind * (_SIZED if size_of(name) else 1.0)
