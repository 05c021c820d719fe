"""The signals of relevance: what a query's evidence says about its best candidates.

Owns: fusing the legs, the signals of every candidate and of the query. Pure NumPy; never imports
indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.intents import form, named
from armory.retrieval.ports import CandidateFeatures, FloatArray, IntArray, Subquery
from armory.retrieval.tables import Table

#: Candidates that are judged signal by signal; the others keep the order of the fusion below them.
DEPTH = 100
DENSE_SHARE = 0.7
_NAME, _SERVER, _DESCRIPTION, _PARAMS = 0, 1, 3, 4
_ALONE = -6.0
#: Fewer tools than this are judged as if unrelated ones stood beside them: two tools say nothing
#: about how far cosines spread, and nothing was learned on catalogues so small.
FEW = 40
#: Mean and spread of an unrelated tool's cosine and BM25, as shares of the query's best; and at
#: least so much of a cosine, whatever the best one.
_APART_COSINE = (0.25, 0.2)
_LEAST_COSINE = (0.1, 0.1)
_APART_WORDS = (0.05, 0.12)
_LEAST_STD = 1e-6
#: Among so many groups for each of the best values that are looked for, few of them share one.
_GROUPS = 4
#: The best cosine of few tools is lower than that of many: counts below so many tools, and no
#: further below so few.
_MANY, _LEAST_VISIBLE = 200, 4


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """The legs, fused.

    Attributes:
        total: (c,) z-scored fusion over the legs, higher is better.
        best: (k,) positions of the best candidates, best first, k <= 100.
        legs: (m, k) the fusion of each leg alone, of the best candidates.
        dense, words: (k,) the z-scores that went in, whole texts and best clauses averaged.
    """

    total: FloatArray
    best: IntArray
    legs: FloatArray
    dense: FloatArray
    words: FloatArray


def z(values: FloatArray, mean: float, std: float) -> FloatArray:
    """Standard scores; zeros where nothing varies."""
    if std < _LEAST_STD:
        return np.zeros_like(values)
    found = values - mean
    found /= std
    return found.astype(np.float32, copy=False)


def spread(
    values: FloatArray,
    mean: float,
    std: float,
    apart: tuple[float, float],
    least: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float]:
    """Mean and standard deviation to measure by: of the values, filled up to `FEW` of them with
    unrelated ones.

    Args:
        values: (c,) of the candidates, which are all there are where there are few.
        mean: over everything that may be seen.
        std: likewise.
        apart: mean and spread of the unrelated ones, as shares of the greatest value.
        least: the least of either.
    """
    count = len(values)
    if count >= FEW or not count:
        return mean, std
    top = max(float(values.max()), 0.0)
    mean_apart, std_apart = max(apart[0] * top, least[0]), max(apart[1] * top, least[1])
    missing = FEW - count
    middle = (count * mean + missing * mean_apart) / FEW
    variance = count * (std**2 + (mean - middle) ** 2)
    variance += missing * (std_apart**2 + (mean_apart - middle) ** 2)
    return middle, float(np.sqrt(variance / FEW))


def cosine_spread(leg: Subquery) -> tuple[float, float]:
    """Mean and standard deviation that a leg's cosines are measured by; see `spread`."""
    assert leg.cosine is not None
    return spread(leg.cosine, leg.cosine_mean, leg.cosine_std, _APART_COSINE, _LEAST_COSINE)


def _over_legs(legs: Sequence[Subquery], values: Sequence[FloatArray]) -> FloatArray:
    """For each text the mean of its whole and its best clause, then the best text.

    Args:
        legs: m of them.
        values: m arrays of one length.
    """
    total: FloatArray | None = None
    for i, leg in enumerate(legs):
        if not leg.whole:
            continue
        text = values[i]
        parts = [values[j] for j, other in enumerate(legs) if not other.whole and other.parent == i]
        if parts:
            text = text + greatest(parts)
            text /= 2
        total = text if total is None else np.maximum(total, text)
    assert total is not None
    return total


def greatest(values: Sequence[FloatArray]) -> FloatArray:
    """The greatest at each place; of one array that array itself."""
    found = values[0]
    for other in values[1:]:
        found = np.maximum(found, other)
    return found


def fuse(evidence: CandidateFeatures) -> Fusion:
    """Fuse every leg's cosines and words: 0.7 and 0.3 of their standard scores."""
    legs = evidence.legs
    words = [
        z(leg.bm25, *spread(leg.bm25, leg.bm25_mean, leg.bm25_std, _APART_WORDS)) for leg in legs
    ]
    dense = words
    if evidence.dense:
        dense = [z(leg.cosine, *cosine_spread(leg)) for leg in legs if leg.cosine is not None]
    total = _weighed(_over_legs(legs, dense), _over_legs(legs, words))
    best = best_of(total)
    words = [values[best] for values in words]
    dense = [values[best] for values in dense]
    each = np.stack([_weighed(*pair) for pair in zip(dense, words, strict=True)])
    return Fusion(total, best, each, _over_legs(legs, dense), _over_legs(legs, words))


def _weighed(dense: FloatArray, words: FloatArray) -> FloatArray:
    total = DENSE_SHARE * dense
    total += (1 - DENSE_SHARE) * words
    return total


def best_of(values: FloatArray, depth: int = DEPTH) -> IntArray:
    """Positions of the greatest values, greatest first; ties in order of position."""
    if len(values) <= depth:
        return np.argsort(-values, kind="stable")
    part = np.flatnonzero(values >= _least(values, depth))
    if len(part) <= _GROUPS * depth:
        part = part[np.argsort(-values[part], kind="stable")]
        if len(part) == depth or values[part[depth]] < values[part[depth - 1]]:
            return part[:depth]
    part = np.sort(np.argpartition(-values, depth - 1)[:depth])  # many have the least value
    return part[np.argsort(-values[part], kind="stable")]


def _least(values: FloatArray, depth: int) -> float:
    """A value that at least `depth` of more than `depth` values reach, and not many more.

    The greatest of each of many groups are values too, and much fewer to sort.
    """
    groups = _GROUPS * depth
    if len(values) >= 2 * groups:
        values = values[: len(values) // groups * groups].reshape(-1, groups).max(0)
    return float(np.partition(values, len(values) - depth)[len(values) - depth])


def _ranks(values: FloatArray) -> NDArray[np.int64]:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks


def _siblings(records: Sequence[ToolRecord], total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gap of the best other tool of each candidate's server, and the mass of all others.

    Args:
        records: (k,) the candidates, best first.
        total: (k,) their fusion.
    """
    first: dict[str, int] = {}
    second: dict[int, int] = {}
    groups = np.arange(len(records))  # a server is known by the place of its best tool
    for place, record in enumerate(records):
        server = record.server_title or record.server
        if server and (best := first.setdefault(server, place)) != place:
            groups[place] = best
            second.setdefault(best, place)
    firsts = np.fromiter(second, np.int64, len(second))
    shared = np.isin(groups, firsts)
    behind = total - total[0]
    gap = np.where(shared, behind[groups], np.float32(_ALONE))
    gap[firsts] = behind[np.fromiter(second.values(), np.int64, len(second))]
    weight = np.exp(behind)
    mass = np.bincount(groups, weight)[groups] - weight
    return gap, np.log1p(mass)


def _named(records: Sequence[ToolRecord], text: str) -> tuple[list[bool], list[bool]]:
    """Whether the text says the name of each tool's server, and of its category."""
    names = {r.server for r in records}
    names.update([r.server_title for r in records])
    names.update([r.category or "" for r in records])
    names.discard("")
    said = named(text, names)
    if not said:
        return [False] * len(records), [False] * len(records)
    return (
        [r.server in said or r.server_title in said for r in records],
        [r.category in said for r in records],
    )


def _conditions(evidence: CandidateFeatures, cosine: FloatArray | None) -> dict[str, float]:
    """What decides how much either side is to be trusted, about 0 in the middle of its range."""
    words = sum(len(leg.text.split()) for leg in evidence.legs if leg.whole)
    found = {
        "size": float(np.log(max(evidence.visible, FEW))) - 6.5,
        "length": float(np.log(max(words, 1))) - 2.5,
    }
    if cosine is not None:
        found["cosine"] = float(cosine.max()) - 0.5
    return found


def candidate_signals(evidence: CandidateFeatures, fusion: Fusion) -> Table:
    """Every signal of the best candidates, (k,) float32 each, in the order of `fusion.best`."""
    best = fusion.best
    legs = evidence.legs
    total = fusion.total[best]
    each = fusion.legs
    ranks = np.stack([_ranks(row) for row in each])
    found: dict[str, NDArray[Any] | list[bool]] = {
        "fusion": total,
        "fusion_gap": total - total[0],
        "log_rank": np.log(np.arange(1, len(best) + 1, dtype=np.float32)),
        "dense_z": fusion.dense,
        "words_z": fusion.words,
        "leg_best": each.max(0),
        "leg_gap": (each - each.max(1, keepdims=True)).max(0),
        "leg_reciprocal": 1 / ranks.min(0),
        "leg_top3": (ranks <= 3).sum(0),
    }
    rows = evidence.rows[best]
    records = [evidence.records[i] for i in best.tolist()]
    text = " ".join(leg.text for leg in legs if leg.whole)
    fields = [evidence.postings.fields(leg.hits, rows) for leg in legs if leg.whole]
    shares = greatest([f.shares for f in fields])
    said = greatest([f.said for f in fields])
    found["covered"] = greatest([f.covered for f in fields])
    found["name_said"], found["server_said"] = said[:, _NAME], said[:, _SERVER]
    found["in_name"], found["in_server"] = shares[:, _NAME], shares[:, _SERVER]
    found["in_description"], found["in_params"] = shares[:, _DESCRIPTION], shares[:, _PARAMS]
    found["server_named"], found["category_named"] = _named(records, text)
    found["sibling_gap"], found["sibling_mass"] = _siblings(records, total)
    nearest: FloatArray | None = None
    if evidence.dense:
        cosines = [leg.cosine[best] for leg in legs if leg.cosine is not None]
        whole = greatest([c for c, leg in zip(cosines, legs, strict=True) if leg.whole])
        found["cosine"] = whole
        found["cosine_best"] = nearest = greatest(cosines)
        found["cosine_gap"] = whole - whole.max()
    for name, factor in _conditions(evidence, nearest).items():
        found[f"dense_by_{name}"] = fusion.dense * np.float32(factor)
        found[f"words_by_{name}"] = fusion.words * np.float32(factor)
    if evidence.uses is not None:
        found["used"] = greatest([leg.used[best] for leg in legs if leg.used is not None])
        found["uses"] = evidence.uses[best]
    return Table.of(found, len(best))


def query_signals(
    evidence: CandidateFeatures, signals: Mapping[str, FloatArray], cosine: FloatArray | None = None
) -> dict[str, float]:
    """What the candidates together, and the way it is put, say about the query.

    Args:
        evidence: the query.
        signals: of its best candidates.
        cosine: (k,) best cosine of each with the description alone; None: as in the signals.
    """
    gap, covered = signals["fusion_gap"], signals["covered"]
    whole = [leg.text for leg in evidence.legs if leg.whole]
    few = max(0.0, float(np.log(_MANY / max(evidence.visible, _LEAST_VISIBLE))))
    found = {
        "clauses": float(len(evidence.legs) - len(whole)),
        "log_tools": float(np.log(max(evidence.visible, FEW))),
        "few": few,
        "top_fusion": float(signals["fusion"][0]),
        "top_covered": float(covered.max()),
        "top_words": max(float(leg.bm25.max()) for leg in evidence.legs),
        "top_name_said": float(signals["name_said"][:5].max()),
        "gap10": float(-gap[min(9, len(gap) - 1)]),
        "near_1": float(np.log(max((gap > -1.0).sum(), 1))),
        "near_half": float(np.log(max((gap > -0.5).sum(), 1))),
        **form(" ".join(whole)),
    }
    if "cosine_best" in signals:
        cosine = signals["cosine_best"] if cosine is None else cosine
        found["top_cosine"] = float(cosine.max())
        found["top3_cosine"] = float(-np.sort(-cosine)[:3].mean())
        found["agreement"] = float(covered[0] * cosine[0])
        found["few_cosine"] = few * (found["top_cosine"] - 0.45)
    return found
