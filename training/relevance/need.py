"""Refusal: whether a query needs any tool, from signals of the query and the way it points.

`acts` is a direction in the embedder's space (ridge regression on the vectors of queries that want
a tool and of requests that need none). The regression that uses it sees, for every query that it is
fitted on, a direction that was made without that query's group of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.scoring.calibration import Linear
from armory.retrieval.scoring.fitting import Observations, fit_linear
from training.relevance.sets import LABELLED, NO_TOOL, group_of
from training.relevance.signals import APART

Array = NDArray[np.float32]
Doubles = NDArray[np.float64]
Embed = Callable[[Sequence[str]], Array]

#: What the kinds of queries weigh, where a set of queries that want a tool weighs 1: no-tool
#: requests written by hand, queries of another set, of other servers over a small catalog, the
#: no-tool set, and (wanting one) written queries over a large and over small catalogs.
KINDS = {
    "own": 1.0, "written": 0.15, "small": 0.25,
    NO_TOOL: 4.0, "hand": 1.2, "cross": 0.03, "vain": 0.25,
}  # fmt: skip
_RIDGE = 0.001
#: What the written queries weigh in the direction, for each half.
_WRITTEN = 1.5
_PARTS = 4
HAND = "hand:"


def kind_of(name: str) -> str:
    """The kind of a table: of queries that want a tool, or of needless ones by their prefix."""
    if name.startswith(NO_TOOL):
        return NO_TOOL
    for kind in ("written", "small"):
        if name.startswith(f"{kind}-"):
            return kind
    return name.split(":")[0] if ":" in name else "own"


class Acts:
    """Directions from texts; everything that is needed of a text is worked out once."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._known: dict[str, tuple[Doubles, Doubles]] = {}

    def vectors(self, texts: Sequence[str]) -> Doubles:
        """(n, d + 1): unit vectors and a one."""
        found = self._embed(texts).astype(np.float64)
        return np.column_stack([found, np.ones(len(found))])

    def _sums(self, key: str, texts: Sequence[str]) -> tuple[Doubles, Doubles]:
        if key not in self._known:
            x = self.vectors(texts)
            self._known[key] = (x.T @ x / len(x), x.mean(0))
        return self._known[key]

    def direction(
        self, wanting: Mapping[str, Sequence[str]], needless: Mapping[str, Sequence[str]]
    ) -> Doubles:
        """(d + 1,) that parts both, by name of their sets; every name's texts stay the same."""
        square, mean = 0.0, 0.0
        for sets, sign in ((wanting, 1.0), (needless, -1.0)):
            weights = {
                name: (_WRITTEN if name.startswith("written") else 1.0)
                * min(1.0, len(texts) / 100) ** 0.5
                for name, texts in sets.items()
            }
            for name, texts in sets.items():
                share = 0.5 * weights[name] / sum(weights.values())
                own_square, own_mean = self._sums(name, texts)
                square, mean = square + share * own_square, mean + share * sign * own_mean
        ridge = np.full(len(mean), _RIDGE)  # type: ignore[arg-type]
        ridge[-1] = 1e-9
        return np.linalg.solve(square + np.diag(ridge), mean)


def _texts(
    tables: Mapping[str, Observations], needless: Mapping[str, Observations]
) -> tuple[dict[str, Sequence[str]], dict[str, Sequence[str]]]:
    wanting = {n: p.texts for n, p in tables.items() if n in LABELLED or kind_of(n) == "written"}
    without = {n: p.texts for n, p in tables.items() if n == NO_TOOL}
    hand = max((p.texts for n, p in needless.items() if n.startswith(HAND)), key=len, default=())
    for part in range(_PARTS):
        without[f"{HAND}{part}"] = hand[part::_PARTS]
    return wanting, without


def with_acts(
    tables: Mapping[str, Observations],
    needless: Mapping[str, Observations],
    acts: Acts,
) -> tuple[dict[str, Observations], dict[str, Observations], Doubles]:
    """Both with the signal `acts`, each by a direction made without its own group; and the whole
    direction (d + 1,).
    """
    wanting, without = _texts(tables, needless)
    full = acts.direction(wanting, without)

    def apart(leave: Callable[[str], bool]) -> Doubles:
        kept = [{n: t for n, t in part.items() if not leave(n)} for part in (wanting, without)]
        return acts.direction(*kept)

    def told(part: Observations, direction: Doubles) -> Observations:
        values = acts.vectors(part.texts) @ direction
        return replace(part, query={**part.query, "acts": values.astype(np.float32)})

    groups: dict[str, Doubles] = {}
    seen: dict[str, Observations] = {}
    for name, part in tables.items():
        group = group_of(name.removesuffix(" seen"))
        if group not in groups:
            groups[group] = apart(lambda n, g=group: group_of(n) == g)
        seen[name] = told(part, groups[group])
    by_text: dict[str, float] = {}
    for part in range(_PARTS):
        name = f"{HAND}{part}"
        values = acts.vectors(without[name]) @ apart(lambda n, own=name: n == own)
        by_text |= dict(zip(without[name], values.tolist(), strict=True))
    spare: dict[str, Observations] = {}
    for name, part in needless.items():
        if name.startswith(HAND):
            values = np.array([by_text[t] for t in part.texts], np.float32)
            spare[name] = replace(part, query={**part.query, "acts": values})
        else:
            spare[name] = told(part, full)
    return seen, spare, full


def fit_need(
    labelled: Mapping[str, Observations],
    needless: Mapping[str, Observations],
    names: Sequence[str],
    *,
    ridge: float = 5.0,
) -> Linear:
    """Whether a query needs any tool; `labelled` may hold the no-tool set."""
    blocks: list[np.ndarray] = []
    target: list[np.ndarray] = []
    weight: list[np.ndarray] = []
    for needed, parts in ((1.0, labelled), (0.0, needless)):
        for name, part in parts.items():
            kind = kind_of(name)
            if kind == APART:
                continue
            count = len(part)
            blocks.append(np.column_stack([part.query[n] for n in names]).astype(np.float64))
            target.append(np.full(count, needed if kind != NO_TOOL else 0.0))
            weight.append(np.full(count, KINDS[kind] * part.weight / count))
    return fit_linear(
        names, np.concatenate(blocks), np.concatenate(target), np.concatenate(weight), ridge=ridge
    )
