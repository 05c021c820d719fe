"""The signals of relevance: what a query's evidence says about its best candidates.

Owns: fusing the legs, the signals of every candidate and of the query. Pure NumPy; never imports
indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.intents import form, named
from armory.retrieval.ports import Evidence, FloatArray, IntArray, Leg

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
#: The best cosine of few tools is lower than that of many: counts below so many tools, and no
#: further below so few.
_MANY, _LEAST_VISIBLE = 200, 4


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """The legs, fused; positions are candidates.

    Attributes:
        total: (c,) z-scored fusion over the legs, higher is better.
        legs: (m, c) the fusion of each leg alone.
        dense, words: (c,) the z-scores that went in, whole texts and best clauses averaged.
        best: (k,) positions of the best candidates, best first, k <= 100.
    """

    total: FloatArray
    legs: FloatArray
    dense: FloatArray
    words: FloatArray
    best: IntArray


def z(values: FloatArray, mean: float, std: float) -> FloatArray:
    """Standard scores; zeros where nothing varies."""
    if std < _LEAST_STD:
        return np.zeros_like(values)
    return ((values - mean) / std).astype(np.float32)


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


def cosine_spread(leg: Leg) -> tuple[float, float]:
    """Mean and standard deviation that a leg's cosines are measured by; see `spread`."""
    assert leg.cosine is not None
    return spread(leg.cosine, leg.cosine_mean, leg.cosine_std, _APART_COSINE, _LEAST_COSINE)


def _meaning(leg: Leg) -> FloatArray:
    assert leg.cosine is not None
    return z(leg.cosine, *cosine_spread(leg))


def _over_legs(legs: Sequence[Leg], values: FloatArray) -> FloatArray:
    """(c,): for each text the mean of its whole and its best clause, then the best text."""
    texts: list[FloatArray] = []
    for i, leg in enumerate(legs):
        if not leg.whole:
            continue
        parts = [j for j, other in enumerate(legs) if not other.whole and other.parent == i]
        texts.append((values[i] + values[parts].max(0)) / 2 if parts else values[i])
    return texts[0] if len(texts) == 1 else np.max(texts, axis=0)


def fuse(evidence: Evidence) -> Fusion:
    """Fuse every leg's cosines and words: 0.7 and 0.3 of their standard scores."""
    legs = evidence.legs
    words = np.stack(
        [z(leg.bm25, *spread(leg.bm25, leg.bm25_mean, leg.bm25_std, _APART_WORDS)) for leg in legs]
    )
    dense = np.stack([_meaning(leg) for leg in legs]) if evidence.dense else words
    each = (DENSE_SHARE * dense + (1 - DENSE_SHARE) * words).astype(np.float32)
    over_dense, over_words = _over_legs(legs, dense), _over_legs(legs, words)
    total = (DENSE_SHARE * over_dense + (1 - DENSE_SHARE) * over_words).astype(np.float32)
    return Fusion(total, each, over_dense, over_words, best_of(total))


def best_of(values: FloatArray, depth: int = DEPTH) -> IntArray:
    """Positions of the greatest values, greatest first; ties in order of position."""
    if len(values) > depth:
        part = np.sort(np.argpartition(-values, depth - 1)[:depth])
        return part[np.argsort(-values[part], kind="stable")]
    return np.argsort(-values, kind="stable")


def _ranks(values: FloatArray) -> NDArray[np.int64]:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks


def _siblings(
    records: Sequence[ToolRecord], best: IntArray, total: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Per candidate: gap of the best other tool of its server, and the mass of all others."""
    gap = np.full(len(best), _ALONE, np.float32)
    mass = np.zeros(len(best), np.float32)
    weight = np.exp(total - total[0])
    groups: dict[str, list[int]] = {}
    for place, position in enumerate(best.tolist()):
        record = records[position]
        server = record.server_title or record.server
        if server:
            groups.setdefault(server, []).append(place)
    for places in groups.values():
        if len(places) < 2:
            continue
        first, second = places[0], places[1]  # best first, so these are its two best
        gap[places] = total[first] - total[0]
        gap[first] = total[second] - total[0]
        mass[places] = weight[places].sum() - weight[places]
    return gap, np.log1p(mass)


def _named(evidence: Evidence, best: IntArray) -> tuple[FloatArray, FloatArray]:
    """Whether the query says the name of each candidate's server, and of its category."""
    text = " ".join(leg.text for leg in evidence.legs if leg.whole)
    records = [evidence.records[i] for i in best.tolist()]
    servers = named(text, {n for r in records for n in (r.server, r.server_title) if n})
    categories = named(text, {r.category for r in records if r.category})
    return (
        np.array([r.server in servers or r.server_title in servers for r in records], np.float32),
        np.array([r.category in categories for r in records], np.float32),
    )


def _conditions(evidence: Evidence, signals: Mapping[str, FloatArray]) -> dict[str, float]:
    """What decides how much either side is to be trusted, about 0 in the middle of its range."""
    words = sum(len(leg.text.split()) for leg in evidence.legs if leg.whole)
    found = {
        "size": float(np.log(max(evidence.visible, FEW))) - 6.5,
        "length": float(np.log(max(words, 1))) - 2.5,
    }
    if "cosine_best" in signals:
        found["cosine"] = float(signals["cosine_best"].max()) - 0.5
    return found


def candidate_signals(evidence: Evidence, fusion: Fusion) -> dict[str, FloatArray]:
    """Every signal of the best candidates, (k,) float32 each, in the order of `fusion.best`."""
    best = fusion.best
    legs = evidence.legs
    total = fusion.total[best]
    each = fusion.legs[:, best]
    ranks = np.stack([_ranks(row) for row in each])
    found: dict[str, FloatArray] = {
        "fusion": total,
        "fusion_gap": total - total[0],
        "log_rank": np.log(np.arange(1, len(best) + 1, dtype=np.float32)),
        "dense_z": fusion.dense[best],
        "words_z": fusion.words[best],
        "leg_best": each.max(0),
        "leg_gap": (each - each.max(1, keepdims=True)).max(0),
        "leg_reciprocal": (1 / ranks).max(0),
        "leg_top3": (ranks <= 3).sum(0),
    }
    rows = evidence.rows[best]
    fields = [evidence.postings.fields(leg.hits, rows) for leg in legs if leg.whole]
    shares = np.max([f.shares for f in fields], axis=0)
    said = np.max([f.said for f in fields], axis=0)
    found["covered"] = np.max([f.covered for f in fields], axis=0)
    found["name_said"], found["server_said"] = said[:, _NAME], said[:, _SERVER]
    found["in_name"], found["in_server"] = shares[:, _NAME], shares[:, _SERVER]
    found["in_description"], found["in_params"] = shares[:, _DESCRIPTION], shares[:, _PARAMS]
    found["server_named"], found["category_named"] = _named(evidence, best)
    found["sibling_gap"], found["sibling_mass"] = _siblings(evidence.records, best, total)
    if evidence.dense:
        cosines = np.stack([leg.cosine[best] for leg in legs if leg.cosine is not None])
        whole = cosines[[i for i, leg in enumerate(legs) if leg.whole]].max(0)
        found["cosine"] = whole
        found["cosine_best"] = cosines.max(0)
        found["cosine_gap"] = whole - float(whole.max())
    for name, factor in _conditions(evidence, found).items():
        found[f"dense_by_{name}"] = found["dense_z"] * factor
        found[f"words_by_{name}"] = found["words_z"] * factor
    if evidence.uses is not None:
        found["used"] = np.max([leg.used[best] for leg in legs if leg.used is not None], axis=0)
        found["uses"] = evidence.uses[best]
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


def query_signals(
    evidence: Evidence, signals: Mapping[str, FloatArray], cosine: FloatArray | None = None
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
