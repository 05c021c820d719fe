"""Calibration: from signals to log-odds, probability and a cost-weighted score.

Owns: the calibration file, its linear models, the score's formula, the judgement whether a query
needs a tool at all. Pure NumPy and JSON; never imports rankers, indexes or embedders.

Two steps. The first weighs a tool's own signals to log-odds. The second sets them against the
query's other candidates (`shape`) and gives P(wanted). Both are logistic regressions; refusal is a
third one over signals of the query alone.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from armory.errors import ConfigError
from armory.retrieval.ports import FloatArray
from armory.retrieval.scoring.tables import SignalTable

VERSION = 1
SHIPPED = Path(__file__).with_name("calibration.json")
#: Names the calibration of embedders that none was fitted for.
GENERIC = "generic"
#: Whose generic calibration a ranker without any takes: its signals are those of any formula.
_FORMULA = "semantic"
_LIMIT = 30.0
#: Tools up to which a query is hardly ever refused, and from which on it is as the file says.
_FEW, _MANY = 15, 50
_LENIENT = 0.25
#: The signal that a query is a wish of a few words.
TERSE = "form_terse"
#: A query is sure to need a tool from so many times the bar of refusal on.
_SURE = 5.4


def sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), without overflow."""
    found = np.clip(x, -_LIMIT, _LIMIT)
    np.negative(found, out=found)
    np.exp(found, out=found)
    found += 1
    return np.divide(1, found, out=found).astype(np.float32, copy=False)


def share_of_many(tools: int) -> float:
    """Whether there are many tools: 0 up to `_FEW`, 1 from `_MANY` on, between by the logarithm."""
    return min(math.log(max(tools, _FEW) / _FEW) / math.log(_MANY / _FEW), 1.0)


def cost_weighted(probability: FloatArray, miss_cost: float) -> FloatArray:
    """The score c*P / (c*P + 1 - P), in [0, 1]; c superfluous tools are as bad as one missed."""
    gain = miss_cost * probability
    weight = gain + 1
    weight -= probability
    np.maximum(weight, 1e-9, out=weight)
    gain /= weight
    return gain.astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class Linear:
    """A weighted sum of named signals. Signals that the evidence lacks count as 0."""

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    bias: float = 0.0
    _columns: dict[tuple[str, ...], FloatArray] = field(
        default_factory=dict[tuple[str, ...], FloatArray], init=False, repr=False, compare=False
    )

    def over(self, signals: Mapping[str, FloatArray], size: int) -> FloatArray:
        """(size,) float32. Equal signals give equal sums, wherever in the table they stand."""
        if isinstance(signals, SignalTable):
            total = np.add.reduce(self._column(signals.names) * signals.rows, axis=0)
            total += np.float32(self.bias)
            return total
        total = np.full(size, self.bias, np.float32)
        for name, weight in self.weights.items():
            if name in signals:
                total += np.float32(weight) * signals[name]
        return total

    def of(self, signals: Mapping[str, float]) -> float:
        """The weighted sum, with the bias, of one row of plain numbers."""
        return self.bias + sum(w * signals.get(name, 0.0) for name, w in self.weights.items())

    def _column(self, names: tuple[str, ...]) -> FloatArray:
        """(s, 1) the weights of these signals."""
        found = self._columns.get(names)
        if found is None:
            column = np.array([self.weights.get(name, 0.0) for name in names], np.float32)
            self._columns[names] = found = column[:, None]
        return found


@dataclass(frozen=True, slots=True)
class Lean:
    """When and onto what the learned order leans, see `rankers.leaning`.

    Attributes:
        gain: signals of the query -> recall that the learned order gains on the plain ones.
        onto: plain formula -> share, in [0, 1]; together 1.
    """

    gain: Linear
    onto: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """As the file holds it."""
        onto = {name: round(float(share), 5) for name, share in self.onto.items()}
        return {**_as_json(self.gain), "onto": onto}


@dataclass(frozen=True, slots=True)
class Calibration:
    """The constants of one (ranker, embedder) pair.

    Attributes:
        first: a tool's own signals -> log-odds.
        second: `shape` of those, and signals of the query -> log-odds of being wanted.
        need: signals of the query -> log-odds that any tool is needed.
        refuse_below: probability of need below which the query is refused, in [0, 1], over
            `_MANY` tools or more.
        miss_cost: default c of the score.
        acts: (d,) direction in the embedder's space that requests for an act lie in, against
            talk and questions of knowledge; gives the signal `acts` of `need`. None: not known.
        lean: when the learned order leans on plain ones. None: not known, it stands by itself.
    """

    first: Linear
    second: Linear
    need: Linear
    refuse_below: float
    miss_cost: float
    acts: FloatArray | None = field(default=None, compare=False)
    lean: Lean | None = None

    def acts_signal(self, vectors: Sequence[FloatArray]) -> dict[str, float]:
        """The signal `acts`: the greatest over the caller's texts; nothing without a direction."""
        if self.acts is None or not vectors:
            return {}
        return {"acts": max(float(self.acts @ vector) for vector in vectors)}

    def refuses(self, need: float, tools: int) -> bool:
        """Whether a query is refused.

        Of a few tools some that are not wanted cost little, and an empty answer as much as ever:
        up to `_FEW` tools the bar is a quarter, between there and `_MANY` it goes by the logarithm.

        Args:
            need: probability that it needs a tool.
            tools: how many are visible.
        """
        return need < self._bar(tools)

    def sure(self, need: float, tools: int, terse: float = 0.0) -> float:
        """How sure it is that a query needs a tool, in [0, 1]; 1 from 0.7 on over many tools with
        the constants that ship.

        That a wish is terse lets it pass, and makes it no surer: it counts for `need` alone.

        Args:
            need: probability that it needs a tool.
            tools: how many are visible.
            terse: the query's signal `TERSE`.
        """
        if terse:
            given = terse * self.need.weights.get(TERSE, 0.0)
            need /= need + (1 - need) * math.exp(given)
        return min(need / (_SURE * self._bar(tools)), 1.0)

    def _bar(self, tools: int) -> float:
        return self.refuse_below * _LENIENT ** (1 - share_of_many(tools))

    def to_json(self) -> dict[str, Any]:
        """As the file holds it."""
        found: dict[str, Any] = {
            name: _as_json(part)
            for name, part in (("first", self.first), ("second", self.second), ("need", self.need))
        }
        cost = float(f"{self.miss_cost:.6g}")  # never 0, with which nothing would be listed
        found |= {"refuse_below": self.refuse_below, "miss_cost": cost}
        if self.lean is not None:
            found["lean"] = self.lean.to_json()
        if self.acts is not None:
            found["acts"] = b64encode(self.acts.astype("<f2").tobytes()).decode()
        return found


def _as_json(part: Linear) -> dict[str, Any]:
    weights = {name: round(float(weight), 5) for name, weight in part.weights.items()}
    return {"bias": round(part.bias, 5), "weights": weights}


def _linear(entry: Mapping[str, Any]) -> Linear:
    return Linear({k: float(v) for k, v in entry["weights"].items()}, float(entry["bias"]))


def _lean(entry: Mapping[str, Any]) -> Lean:
    """Of a file from before there was a choice: onto `hybrid`."""
    onto = entry.get("onto", {"hybrid": 1.0})
    return Lean(_linear(entry), {k: float(v) for k, v in onto.items()})


def _direction(text: str) -> FloatArray:
    """From base64 of little-endian half floats."""
    return np.frombuffer(b64decode(text, validate=True), "<f2").astype(np.float32)


def parse_calibration(entry: Mapping[str, Any]) -> Calibration:
    """A calibration from its JSON form.

    Raises:
        ConfigError: something is missing or no number.
    """
    try:
        first, second, need = (_linear(entry[name]) for name in ("first", "second", "need"))
        refuse, cost = float(entry["refuse_below"]), float(entry["miss_cost"])
        acts = entry.get("acts")
        direction = None if acts is None else _direction(acts)
        lean = None if entry.get("lean") is None else _lean(entry["lean"])
        return Calibration(first, second, need, refuse, cost, direction, lean)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"the calibration cannot be used ({error!r});"
            " run `armory tune` again or delete the file"
        ) from error


def read_calibrations(text: str) -> dict[str, dict[str, Any]]:
    """The file's calibrations: ranker -> embedder identity (or `generic`) -> entry.

    Raises:
        ConfigError: no JSON, or of another version.
    """
    try:
        parsed: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the calibration file is not JSON: {error}") from error
    content = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    if content.get("version") != VERSION or not isinstance(content.get("rankers"), dict):
        raise ConfigError(
            f"the calibration file has version {content.get('version')!r}, expected {VERSION};"
            " run `armory tune` again or delete the file"
        )
    return content["rankers"]


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    return read_calibrations(SHIPPED.read_text(encoding="utf-8"))


@cache
def _shipped_calibration(ranker: str, embedder: str) -> Calibration:
    rankers = _shipped()
    entries = rankers.get(ranker) or {GENERIC: rankers[_FORMULA][GENERIC]}
    return parse_calibration(entries.get(embedder) or entries[GENERIC])


def calibration_for(
    ranker: str, embedder: str, override: Mapping[str, Any] | None = None
) -> Calibration:
    """The constants to use: the override's own, else the shipped, else the shipped generic ones
    of this ranker, else those of any formula.

    Args:
        ranker: name of the ranker.
        embedder: identity of the embedder, "" without one.
        override: ranker -> embedder -> entry, as `read_calibrations` gives it.

    Raises:
        ConfigError: the override's entry is malformed.
    """
    entry = (override or {}).get(ranker, {}).get(embedder)
    if entry is not None:
        return parse_calibration(entry)
    return _shipped_calibration(ranker, embedder)


#: Signals of the second step that come from the first; see `shape`.
SHAPE = (
    "own", "gap", "gap_near", "over_second", "over_fifth", "log_place", "log_share",
    "log_sharp_share", "top", "rivals", "expected",
)  # fmt: skip


def shape(own: FloatArray) -> SignalTable:
    """First-step log-odds against those of the query's other candidates.

    Args:
        own: (k,) log-odds, any order, k >= 1.

    Returns:
        Named (k,) signals; `top`, `rivals` and `expected` are the same for all candidates.
    """
    size = len(own)
    order = np.argsort(-own, kind="stable")
    best: list[float] = own[order[:10]].tolist()
    rows = np.empty((len(SHAPE), size), np.float32)
    rows[0] = own
    gap = np.subtract(own, np.float32(best[0]), out=rows[1])
    np.maximum(gap, -1.5, out=rows[2])
    np.subtract(own, np.float32(best[min(1, size - 1)]), out=rows[3])
    np.subtract(own, np.float32(best[min(4, size - 1)]), out=rows[4])
    rows[5, order] = np.log(np.arange(1, size + 1, dtype=np.float32))
    mass = np.log(np.exp(gap).sum())
    np.subtract(gap, mass, out=rows[6])
    twice = gap * 2
    mass = np.log(np.exp(twice).sum())
    np.subtract(twice, mass, out=rows[7])
    rows[8] = best[0]
    rows[9] = mass
    rows[10] = sigmoid(own[order[:10]]).sum()
    return SignalTable(SHAPE, rows)


def judge(
    calibration: Calibration,
    signals: Mapping[str, FloatArray],
    query: Mapping[str, float],
    size: int,
) -> tuple[FloatArray, float]:
    """P(wanted) of the best candidates and whether the query needs a tool.

    Args:
        calibration: the constants.
        signals: (size,) each.
        query: signals of the query, under names of their own.
        size: number of candidates, >= 1.

    Returns:
        (size,) log-odds of being wanted; probability of need.
    """
    own = calibration.first.over(signals, size)
    second = calibration.second
    wanted = second.over(signals, size)
    wanted += second.over(shape(own), size)
    wanted += np.float32(second.of(query) - 2 * second.bias)  # every part has the bias
    need = float(sigmoid(np.array([calibration.need.of(query)], np.float32))[0])
    return wanted, need
