"""Fitting the relevance score: logistic regressions by Newton's method, in NumPy.

Owns: from observed queries to a `Calibration`; used by `armory tune` and by `training/relevance`.
Never imports rankers, indexes or embedders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.ports import FloatArray
from armory.retrieval.scoring.calibration import (
    SHAPE,
    Calibration,
    Linear,
    cost_weighted,
    shape,
    sigmoid,
)

Doubles = NDArray[np.float64]

_STEPS = 30
_LEAST_SPREAD = 1e-6
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Queries of one catalog with what was wanted; Q queries, k candidates each.

    Attributes:
        signals: (Q, k) float32 each, a ranker's own signals.
        query: (Q,) float32 each.
        wanted: (Q, k) bool.
        relevant: (Q,) number of relevant tools, candidates or not; 0: no tool fits.
        weight: what these queries weigh together.
        texts: the queries themselves, where they are known.
    """

    signals: Mapping[str, FloatArray]
    query: Mapping[str, FloatArray]
    wanted: NDArray[np.bool_]
    relevant: NDArray[np.int64]
    weight: float = 1.0
    texts: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.relevant)

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Observations:
        """The observations of the chosen queries, by mask or by number."""
        places = np.arange(len(self))[chosen].tolist()
        return replace(
            self,
            signals={name: values[chosen] for name, values in self.signals.items()},
            query={name: values[chosen] for name, values in self.query.items()},
            wanted=self.wanted[chosen],
            relevant=self.relevant[chosen],
            texts=[self.texts[i] for i in places] if self.texts else (),
        )


def fit_linear(
    names: Sequence[str],
    x: Doubles,
    y: Doubles,
    weight: Doubles,
    *,
    ridge: float,
    prior: Linear | None = None,
) -> Linear:
    """Weighted logistic regression, ridge on standardised weights, around a prior.

    Args:
        names: of the columns.
        x: (n, f) signals.
        y: (n,) 0 or 1 (or shares between).
        weight: (n,) of the rows, >= 0; scaled to mean 1.
        ridge: strength, in rows.
        prior: where the weights are drawn to; None: to 0, the bias free.
    """
    weight = weight / weight.mean()
    centre = np.average(x, axis=0, weights=weight)
    spread = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=weight))
    live = spread > _LEAST_SPREAD
    spread = np.where(live, spread, 1.0)
    design = np.column_stack([(x - centre) / spread * live, np.ones(len(x))])
    target = np.zeros(design.shape[1])
    penalty = np.full(design.shape[1], ridge)
    if prior is not None:
        start = np.array([prior.weights.get(name, 0.0) for name in names])
        target[:-1] = start * spread * live
        target[-1] = prior.bias + float(start @ centre)
    else:
        penalty[-1] = 1e-6
    beta = _newton(design, y, weight, target, penalty)
    weights = beta[:-1] / spread * live
    bias = float(beta[-1] - weights @ centre)
    return Linear({n: float(v) for n, v in zip(names, weights, strict=True) if v}, bias)


def _newton(
    design: Doubles, y: Doubles, weight: Doubles, target: Doubles, penalty: Doubles
) -> Doubles:
    """(f,) the coefficients that minimise the weighted log-loss plus
    `penalty / 2 * (beta - target) ** 2`.

    Args:
        design: (n, f) signals.
        y: (n,) 0 or 1 (or shares between).
        weight: (n,) of the rows, >= 0.
        target: (f,) where the coefficients are drawn to, and the start.
        penalty: (f,) how strongly, > 0.
    """
    beta = target.copy()
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (weight * (p - y)) + penalty * (beta - target)
        curve = np.maximum(weight * p * (1 - p), 1e-9)
        step = np.linalg.solve((design * curve[:, None]).T @ design + np.diag(penalty), gradient)
        beta -= np.clip(step, -4, 4)
        if np.abs(step).max() < 1e-4:
            break
    return beta


def _stack(parts: Sequence[Observations], names: Sequence[str]) -> Doubles:
    """(n, f) the named signals of all candidates of all parts."""
    blocks: list[Doubles] = []
    for part in parts:
        columns = [
            np.repeat(part.query[n], part.wanted.shape[1])
            if n in part.query
            else part.signals[n].ravel()
            for n in names
        ]
        blocks.append(np.column_stack(columns).astype(np.float64))
    return np.concatenate(blocks)


def _weights(parts: Sequence[Observations]) -> Doubles:
    """(n,) of all candidates: each part's weight divided evenly among its own."""
    return np.concatenate(
        [np.full(p.wanted.size, p.weight / max(len(p), 1) / p.wanted.shape[1]) for p in parts]
    )


def shaped(part: Observations, first: Linear) -> Observations:
    """The observations with the second step's signals."""
    count, width = part.wanted.shape
    flat = {name: values.ravel() for name, values in part.signals.items()}
    own = first.over(flat, count * width).reshape(count, width)
    rows = [shape(row) for row in own]
    wide = {name: np.stack([row[name] for row in rows]) for name in SHAPE}
    return replace(part, signals={**part.signals, **wide})


def fit_steps(
    parts: Sequence[Observations],
    first: Sequence[str],
    second: Sequence[str],
    *,
    ridge: float = 5.0,
    prior: Calibration | None = None,
) -> tuple[Linear, Linear]:
    """Fit both steps of the score over the queries that want a tool.

    Args:
        parts: the observations.
        first: names of the signals of the first step.
        second: names of the signals of the second step.
        ridge: as of `fit_linear`.
        prior: its first step is kept, and its second is the prior of the new one; None: both are
            fitted without a prior.
    """
    parts = [p.only(p.relevant > 0) for p in parts]
    y = np.concatenate([p.wanted.ravel() for p in parts]).astype(np.float64)
    weight = _weights(parts)
    if prior is None:
        own = fit_linear(first, _stack(parts, first), y, weight, ridge=ridge)
    else:
        own = prior.first
    wide = [shaped(p, own) for p in parts]
    return own, fit_linear(
        second,
        _stack(wide, second),
        y,
        weight,
        ridge=ridge,
        prior=None if prior is None else prior.second,
    )


def log_odds_of(part: Observations, first: Linear, second: Linear) -> FloatArray:
    """(Q, k) log-odds of being wanted."""
    wide = shaped(part, first)
    count, width = part.wanted.shape
    flat = {name: values.ravel() for name, values in wide.signals.items()}
    flat |= {name: np.repeat(values, width) for name, values in part.query.items()}
    return second.over(flat, count * width).reshape(count, width)


def miss_cost_for(
    parts: Sequence[Observations], odds: Sequence[FloatArray], returned: float
) -> float:
    """The c at which a threshold of 0.5 lists `returned` tools a query on average over the parts.

    At 0.5 a tool is listed from P = 1 / (1 + c), that is from log-odds of -log(c).
    """
    low, high = -12.0, 12.0
    for _ in range(50):
        middle = (low + high) / 2
        counts = [np.minimum((o >= middle).sum(1), _MOST_LISTED).mean() for o in odds if o.size]
        mean = float(np.average(counts, weights=[p.weight for p in parts]))
        low, high = (middle, high) if mean > returned else (low, middle)
    return float(np.exp(-high))


def scores_of(odds: FloatArray, miss_cost: float) -> FloatArray:
    """Scores in [0, 1] of log-odds, see `cost_weighted`; same shape."""
    return cost_weighted(sigmoid(odds), miss_cost)
