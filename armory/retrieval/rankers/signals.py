"""The signals of relevance, computed from a query's features for its best candidates.

Owns: the signals of every candidate and of the query. Pure NumPy; never imports indexes, embedders
or the retriever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.features import CandidateFeatures, greatest
from armory.retrieval.lexical.intents import MAX_CLAUSES, form, named
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.fusion import FEW, Fusion
from armory.retrieval.scoring.calibration import share_of_many
from armory.retrieval.scoring.tables import SignalTable

_NAME, _SERVER, _DESCRIPTION, _PARAMS = 0, 1, 3, 4
_ALONE = -6.0
#: The best cosine of few tools is lower than that of many: counts below so many tools, and no
#: further below so few.
MANY, _LEAST_VISIBLE = 200, 4
#: Tools up to which size counts: counted on to 20,000, learned there as well, it gains nothing.
_SIZE_ENDS = 4_100


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
    has_second = np.zeros(len(records), np.bool_)
    has_second[firsts] = True
    shared = has_second[groups]
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


def _log_tools(features: CandidateFeatures) -> float:
    return float(np.log(min(max(features.visible, FEW), _SIZE_ENDS)))


def _conditions(features: CandidateFeatures, cosine: FloatArray | None) -> dict[str, float]:
    """What decides how much either side is to be trusted, about 0 in the middle of its range."""
    words = sum(len(subquery.text.split()) for subquery in features.whole)
    conditions = {
        "size": _log_tools(features) - 6.5,
        "length": float(np.log(max(words, 1))) - 2.5,
    }
    if cosine is not None:
        conditions["cosine"] = float(cosine.max()) - 0.5
    return conditions


def candidate_signals(features: CandidateFeatures, fusion: Fusion) -> SignalTable:
    """Every signal of the best candidates, (k,) float32 each, in the order of `fusion.best`."""
    best = fusion.best
    subqueries = features.subqueries
    total = fusion.total[best]
    each = fusion.subqueries
    ranks = np.stack([_ranks(row) for row in each])
    signals: dict[str, NDArray[Any] | list[bool]] = {
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
    rows = features.rows[best]
    records = [features.records[i] for i in best.tolist()]
    text = " ".join(subquery.text for subquery in features.whole)
    fields = [features.postings.fields(subquery.hits, rows) for subquery in features.whole]
    shares = greatest([f.shares for f in fields])
    said = greatest([f.said for f in fields])
    signals["covered"] = greatest([f.covered for f in fields])
    signals["name_said"], signals["server_said"] = said[:, _NAME], said[:, _SERVER]
    signals["in_name"], signals["in_server"] = shares[:, _NAME], shares[:, _SERVER]
    signals["in_description"], signals["in_params"] = shares[:, _DESCRIPTION], shares[:, _PARAMS]
    signals["server_named"], signals["category_named"] = _named(records, text)
    signals["sibling_gap"], signals["sibling_mass"] = _siblings(records, total)
    nearest: FloatArray | None = None
    if features.dense:
        cosines = [s.cosine[best] for s in subqueries if s.cosine is not None]
        whole = greatest([c for c, s in zip(cosines, subqueries, strict=True) if s.whole])
        signals["cosine"] = whole
        signals["cosine_best"] = nearest = greatest(cosines)
        signals["cosine_gap"] = whole - whole.max()
    for name, factor in _conditions(features, nearest).items():
        signals[f"dense_by_{name}"] = fusion.dense * np.float32(factor)
        signals[f"words_by_{name}"] = fusion.words * np.float32(factor)
    if features.uses is not None:
        signals["used"] = greatest([s.used[best] for s in subqueries if s.used is not None])
        signals["uses"] = features.uses[best]
    return SignalTable.of(signals, len(best))


def _apart(dense: FloatArray, words: FloatArray) -> float:
    """Logarithm of the place by words of the best tool by meaning, 0 where both agree."""
    return float(np.log1p(np.count_nonzero(words > words[int(dense.argmax())])))


def _put(features: CandidateFeatures) -> str:
    """How the query is put: as it is written; of a text with many clauses, those searched for."""
    texts: list[str] = []
    for text in features.whole:
        parts = [s.text for s in features.subqueries if not s.whole and s.parent == text.parent]
        texts += parts if len(parts) == MAX_CLAUSES else [text.text]
    return " ".join(texts)


def query_signals(
    features: CandidateFeatures, signals: Mapping[str, FloatArray], cosine: FloatArray | None = None
) -> dict[str, float]:
    """What the candidates together, and the way it is put, say about the query.

    Args:
        features: the query.
        signals: of its best candidates.
        cosine: (k,) best cosine of each with the description alone; None: as in the signals.
    """
    gap, covered = signals["fusion_gap"], signals["covered"]
    whole = [subquery.text for subquery in features.whole]
    few = max(0.0, float(np.log(MANY / max(features.visible, _LEAST_VISIBLE))))
    put = form(_put(features))
    put["form_terse"] *= share_of_many(features.visible)  # over a few tools the bar is lower anyway
    about = {
        "clauses": float(len(features.subqueries) - len(whole)),
        "log_tools": _log_tools(features),
        "few": few,
        "top_fusion": float(signals["fusion"][0]),
        "top_covered": float(covered.max()),
        "top_words": max(float(subquery.bm25.max()) for subquery in features.subqueries),
        "top_name_said": float(signals["name_said"][:5].max()),
        "first_said": float(signals["name_said"][0]),
        "apart": _apart(signals["dense_z"], signals["words_z"]),
        "gap10": float(-gap[min(9, len(gap) - 1)]),
        "near_1": float(np.log(max((gap > -1.0).sum(), 1))),
        "near_half": float(np.log(max((gap > -0.5).sum(), 1))),
        **put,
    }
    if "cosine_best" in signals:
        cosine = signals["cosine_best"] if cosine is None else cosine
        about["top_cosine"] = float(cosine.max())
        about["top3_cosine"] = float(-np.sort(-cosine)[:3].mean())
        about["agreement"] = float(covered[0] * cosine[0])
        about["few_cosine"] = few * (about["top_cosine"] - 0.45)
    return about
