"""Examples of one catalog: a query, the document that answers it, what else it wants, negatives.

Owns: how a labelled query is drawn whole, in part or joined with another, and how a template query
is made of a tool. Never runs a model.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.data import VIEWS, Catalog, clauses, held_out, join, synthetic, view

VIEW_WEIGHTS = (0.35, 0.3, 0.15, 0.15, 0.05)


@dataclass
class Example:
    """One row of a batch; `tools` and `wanted` are (catalog, index) keys.

    With `span`, the query's vector is the mean over the tokens of these characters, read in the
    whole text: how a clause is embedded.
    """

    query: str
    document: str
    tool: tuple[str, int]
    wanted: frozenset[tuple[str, int]]
    negatives: list[tuple[str, tuple[str, int]]]
    span: tuple[int, int] | None = None


class Source:
    """Examples of one catalog."""

    def __init__(
        self,
        catalog: Catalog,
        mined: Path,
        rng: random.Random,
        held: bool,
        barred: frozenset[int] = frozenset(),
    ) -> None:
        stored = np.load(mined / f"{catalog.name}.npz")
        self.name, self.tools, self.rng = catalog.name, catalog.tools, rng
        self.neighbours = stored["neighbours"]
        self.vectors = stored["tools"].astype(np.float32)
        self.negatives = stored.get("negatives")
        place = {t.id: i for i, t in enumerate(catalog.tools)}
        self.barred = barred
        kept = held_out(catalog)
        asked = [
            (i, q.text, [place[r] for r in q.relevant if r in place])
            for i, q in enumerate(catalog.queries)
            if q.relevant and not (held and kept[i])
        ]
        self.queries = [a for a in asked if a[2] and not barred.intersection(a[2])]
        matched: dict[int, list[tuple[str, int]]] = {}
        for i, text, tool in json.loads((mined / f"{catalog.name}.clauses.json").read_text()):
            matched.setdefault(i, []).append((text, tool))
        self.matched = matched
        self.order: list[int] = []

    def _negatives(self, row: np.ndarray, count: int) -> list[tuple[str, tuple[str, int]]]:
        known = [int(i) for i in row if i >= 0 and int(i) not in self.barred]
        if not known:
            return []
        drawn = {min(int(self.rng.expovariate(1 / 6)), len(known) - 1) for _ in range(count)}
        return [(self._text(known[at]), (self.name, known[at])) for at in sorted(drawn)]

    def _text(self, index: int) -> str:
        return view(self.tools[index], self.rng.choices(VIEWS, VIEW_WEIGHTS)[0])

    def _next(self) -> tuple[int, str, list[int]]:
        """The next query; every one comes once a round."""
        if not self.order:
            self.order = list(range(len(self.queries)))
            self.rng.shuffle(self.order)
        return self.queries[self.order.pop()]

    def labelled(self, count: int, joined: float) -> Example:
        """A labelled query: whole, a clause of it, or two queries made into one."""
        i, text, wanted = self._next()
        tool = self.rng.choice(wanted)
        span = beside = None
        if i in self.matched and self.rng.random() < 0.35:
            clause, tool = self.rng.choice(self.matched[i])
            at = text.find(clause)
            if at >= 0 and self.rng.random() < 0.7:
                span = (at, at + len(clause))
            else:
                text = clause
        elif len(wanted) == 1 and self.rng.random() < joined:
            other, more, also = self._next()
            text, halves = join(text, more, self.rng)
            first, second = wanted, self.rng.random() < 0.5
            if second:
                i, tool = other, self.rng.choice(also)
            if self.rng.random() < 0.5:
                span, wanted = halves[second], also if second else first
                beside = self.rng.choice(first if second else also)
            else:
                wanted = first + also
        elif len(wanted) == 1 and self.rng.random() < 0.15:
            text = self.rng.choice([text.split(" system:")[0], *clauses(text)[:1]])
        assert self.negatives is not None
        keys = frozenset((self.name, w) for w in wanted)
        negatives = self._negatives(self.negatives[i], count)
        if beside is not None:  # what the other half wants, this half does not
            negatives = [(self._text(beside), (self.name, beside)), *negatives[1:]]
        negatives = [n for n in negatives if n[1] not in keys]
        return Example(text, self._text(tool), (self.name, tool), keys, negatives, span)

    def template(self, joined: float) -> Example:
        """A template query of a random tool, sometimes with a second request behind it."""
        while True:
            index = self.rng.randrange(len(self.tools))
            made = synthetic(self.tools[index], self.rng)
            if made:
                text, keys = made[0], {(self.name, index)}
                if self.rng.random() < joined:
                    near = max(0, index + self.rng.choice((-2, -1, 1, 2)))
                    more = synthetic(self.tools[near], self.rng) if near < len(self.tools) else None
                    if more and near != index:
                        pair = [text, more[0]]
                        self.rng.shuffle(pair)
                        text, _ = join(*pair, self.rng)
                        keys.add((self.name, near))
                negatives = self._negatives(self.neighbours[index], 1)
                negatives = [n for n in negatives if n[1] not in keys]
                return Example(text, made[1], (self.name, index), frozenset(keys), negatives)
