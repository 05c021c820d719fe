"""Fusing a query's meaning and words: standard scores, weighed, over whole texts and clauses.

Owns: the fusion, what scores of few tools are measured by, choosing the best. Pure NumPy; never
imports indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from armory.retrieval.features import CandidateFeatures, Moments, Subquery, greatest
from armory.retrieval.greatest import GROUPS, cutoff
from armory.retrieval.lexical.implied import DOING, INSTEAD
from armory.retrieval.ports import FloatArray, IntArray

#: Candidates that are judged signal by signal; the others keep the order of the fusion below them.
DEPTH = 100
#: The best by meaning alone and by words alone that are always among them: in a large catalog the
#: fusion may follow one side only.
_BY_MEANING, _BY_WORDS = 30, 20
DENSE_SHARE = 0.7
#: Smaller catalogs are judged as if unrelated tools filled them up to this size: two tools say
#: nothing about the spread of cosines, and nothing was learned on catalogs so small.
FEW = 40
#: Mean and deviation of an unrelated tool's cosine and BM25, as shares of the query's best; and the
#: least that both are for a cosine.
_APART_COSINE = (0.25, 0.2)
_LEAST_COSINE = (0.1, 0.1)
_APART_WORDS = (0.05, 0.12)
_LEAST_STD = 1e-6
#: Tools for an implied act: at most so many (several servers may offer it), which have so much of
#: its words, or all words of one way to say it. Catalogs without such a tool get none.
_IMPLIED, _IMPLIED_COVERED, _ALL = 2, 0.7, 0.999


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """Meaning and words of every subquery as one value for each candidate.

    Attributes:
        total: (c,) z-scored fusion over the subqueries, higher is better.
        best: (k,) positions of the best candidates, best first, k <= 100.
        subqueries: (m, k) the fusion of each subquery alone, of the best candidates.
        dense, words: (k,) the z-scores that went in, whole texts and best clauses averaged.
        implied: places among the best of the tools for what the query implies.
        instead: the same for what it implies only if it would be refused.
    """

    total: FloatArray
    best: IntArray
    subqueries: FloatArray
    dense: FloatArray
    words: FloatArray
    implied: Sequence[int] = ()
    instead: Sequence[int] = ()


def z_scores(values: FloatArray, moments: Moments) -> FloatArray:
    """Standard scores; zeros where nothing varies."""
    if moments.std < _LEAST_STD:
        return np.zeros_like(values)
    scores = values - moments.mean
    scores /= moments.std
    return scores.astype(np.float32, copy=False)


def padded(
    moments: Moments,
    values: FloatArray,
    visible: int,
    apart: tuple[float, float],
    least: tuple[float, float] = (0.0, 0.0),
) -> Moments:
    """Moments to measure by: those of few tools, filled up to `FEW` of them with unrelated ones.

    Args:
        moments: over the visible tools.
        values: (c,) of the candidates.
        visible: how many tools there are.
        apart: mean and deviation of the unrelated ones, as shares of the greatest value.
        least: the least of either.
    """
    if visible >= FEW or not len(values):
        return moments
    mean, std = moments
    top = max(float(values.max()), 0.0)
    mean_apart, std_apart = max(apart[0] * top, least[0]), max(apart[1] * top, least[1])
    missing = FEW - visible
    middle = (visible * mean + missing * mean_apart) / FEW
    variance = visible * (std**2 + (mean - middle) ** 2)
    variance += missing * (std_apart**2 + (mean_apart - middle) ** 2)
    return Moments(middle, float(np.sqrt(variance / FEW)))


def cosine_scale(subquery: Subquery, visible: int) -> Moments:
    """What a subquery's cosines are measured by; see `padded`."""
    assert subquery.cosine is not None
    return padded(subquery.cosine_moments, subquery.cosine, visible, _APART_COSINE, _LEAST_COSINE)


def _words_scale(subquery: Subquery, visible: int) -> Moments:
    return padded(subquery.bm25_moments, subquery.bm25, visible, _APART_WORDS)


def _over_texts(subqueries: Sequence[Subquery], values: Sequence[FloatArray]) -> FloatArray:
    """For each text the mean of its whole and its best clause, then the best text.

    Args:
        subqueries: m of them.
        values: m arrays of one length.
    """
    total: FloatArray | None = None
    for i, subquery in enumerate(subqueries):
        if not subquery.whole:
            continue
        text = values[i]
        parts = [values[j] for j, s in enumerate(subqueries) if not s.whole and s.parent == i]
        if parts:
            text = text + greatest(parts)
            text /= 2
        total = text if total is None else np.maximum(total, text)
    assert total is not None
    return total


def fuse(features: CandidateFeatures) -> Fusion:
    """Fuse every subquery's cosines and words: 0.7 and 0.3 of their standard scores."""
    subqueries = features.subqueries
    words, dense = _words_and_dense(features, subqueries)
    by_meaning, by_words = _over_texts(subqueries, dense), _over_texts(subqueries, words)
    total = _weighed(by_meaning, by_words)
    implied, instead = _of_implied(features)
    best = _chosen(total, by_meaning, by_words, [*implied, *instead])
    words = [values[best] for values in words]
    dense = [values[best] for values in dense]
    each = np.stack([_weighed(*pair) for pair in zip(dense, words, strict=True)])
    places = [np.flatnonzero(np.isin(best, some)).tolist() for some in (implied, instead)]
    return Fusion(total, best, each, by_meaning[best], by_words[best], *places)


def _words_and_dense(
    features: CandidateFeatures, subqueries: Sequence[Subquery]
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Standard scores of both sides; without a dense side that of the words stands for it."""
    words = [z_scores(s.bm25, _words_scale(s, features.visible)) for s in subqueries]
    if not features.dense:
        return words, words
    dense = [
        z_scores(s.cosine, cosine_scale(s, features.visible))
        for s in subqueries
        if s.cosine is not None
    ]
    return words, dense


def _of_implied(features: CandidateFeatures) -> tuple[list[int], list[int]]:
    """Positions of the tools for what the query asks for without saying it, and of those for what
    it asks for only if it would be refused.
    """
    implied: list[int] = []
    instead: list[int] = []
    pairs = zip(*_words_and_dense(features, features.implied), strict=True)
    for act, (words, dense) in zip(features.implied, pairs, strict=True):
        best = best_of(_weighed(dense, words), _IMPLIED)
        rows, postings = features.rows[best], features.postings
        does = postings.fields(act.hits, rows).covered >= _IMPLIED_COVERED
        for words in DOING.get(act.text, ()):
            hits = postings.search(words, forgiving=False)
            does |= postings.fields(hits, rows).covered >= _ALL
        found = instead if act.text in INSTEAD else implied
        found += best[does].tolist()
    return implied, instead


def _chosen(
    total: FloatArray, by_meaning: FloatArray, by_words: FloatArray, also: Sequence[int]
) -> IntArray:
    """Positions of the best by either side and by both, and some others, best by both first."""
    best = best_of(total)
    if len(total) <= DEPTH:
        return best
    wanted = np.zeros(len(total), np.bool_)
    wanted[best_of(by_meaning, _BY_MEANING)] = wanted[best_of(by_words, _BY_WORDS)] = True
    wanted[list(also)] = True
    spare = np.flatnonzero(~wanted[best])
    wanted[best] = False
    missing = np.flatnonzero(wanted)
    if not len(missing):
        return best
    best[spare[-len(missing) :]] = missing
    return best[np.argsort(-total[best], kind="stable")]


def _weighed(dense: FloatArray, words: FloatArray) -> FloatArray:
    total = DENSE_SHARE * dense
    total += (1 - DENSE_SHARE) * words
    return total


def best_of(values: FloatArray, depth: int = DEPTH) -> IntArray:
    """Positions of the greatest values, greatest first; ties in order of position."""
    if len(values) <= depth:
        return np.argsort(-values, kind="stable")
    least = cutoff(values, depth)
    above = np.flatnonzero(values > least)
    if len(above) > GROUPS * depth:  # not many groups, or many values in few of them
        high = values[above]
        least = np.partition(high, len(above) - depth)[len(above) - depth]
        same, above = above[high == least], above[high > least]
    else:  # of values there may be thousands that are the same
        same = np.flatnonzero(values == least) if len(above) < depth else above[:0]
    best = above[np.argsort(-values[above], kind="stable")]
    return np.concatenate([best, same])[:depth]
