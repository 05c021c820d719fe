"""Batches for the encoder: examples of several sources at once, as arrays of tokens.

Owns: what a run may vary, what a batch is made of, which documents are no negatives, and the
processes that draw ahead. Never runs a model.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.data import LABELLED, POOLS, WRITTEN, load, pool_without
from training.encoder import load_tokenizer
from training.evaluate import pad, tokenise, tokenise_spans
from training.examples import Example, Source
from training.mine import DUPLICATE

#: How often the one-catalog group is drawn from each large set; toole's: `Settings.toole`.
LARGE = {"toolbench-stable": 0.25, "sealtools": 0.24, "bfcl": 0.24}
#: Shares of the mixed group.
SMALL = {"toole-multi": 0.36, "livemcpbench": 0.22, "mcpproxy-golden": 0.06, "acebench-en": 0.36}
#: Batches that each drawing process is ahead by.
_AHEAD = 3


@dataclass
class Settings:
    """What a run can vary."""

    steps: int = 300
    rate: float = 7e-5
    frozen: int = 2
    warmup: float = 0.06
    scale: float = 20.0
    group: int = 24
    small: int = 8
    written: int = 18
    templates: int = 10
    negatives: int = 1
    joined: float = 0.3
    toole: float = 0.27
    pull: float = 0.02
    average: float = 0.98
    query_tokens: int = 56
    document_tokens: int = 52
    seed: int = 7


@dataclass
class Piece:
    """Rows of similar length: (r, t) ids, mask, and which tokens' mean is the vector."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    counted: NDArray[np.int64]


@dataclass
class Rows:
    """Texts in pieces; `back[i]` is the place of row i among all pieces' rows."""

    pieces: list[Piece]
    back: NDArray[np.int64]


@dataclass
class Batch:
    """Query i wants document i; `blocked`: (q, d) bool, documents that are no negative of it."""

    queries: Rows
    documents: Rows
    blocked: NDArray[np.bool_]


def in_pieces(rows: list[list[int]], pooled: list[list[int]] | None = None, parts: int = 3) -> Rows:
    """Rows by length.

    Args:
        rows: token ids.
        pooled: the tokens of each row whose mean is its vector; None: all.
        parts: pieces.
    """
    order = np.array(sorted(range(len(rows)), key=lambda i: len(rows[i])))
    pieces = []
    for chunk in np.array_split(order, parts):
        ids, mask = pad([rows[i] for i in chunk])
        counted = mask if pooled is None else np.zeros_like(mask)
        for at, i in enumerate(chunk if pooled is not None else ()):
            assert pooled is not None
            counted[at, pooled[i]] = 1
        pieces.append(Piece(ids, mask, counted))
    back = np.empty(len(rows), np.int64)
    back[order] = np.arange(len(rows))
    return Rows(pieces, back)


class Batches:
    """Draws batches from all sources that a run may see."""

    def __init__(
        self,
        data: Path,
        mined: Path,
        left_out: tuple[str, ...],
        settings: Settings,
        held: bool,
        seed: int,
    ) -> None:
        self.rng = random.Random(seed)
        self.tokenizer = load_tokenizer()
        self.settings = settings
        unseen = [load(data, name) for name in left_out]
        names = [n for n in LABELLED if n not in left_out]
        self.sources = {n: Source(load(data, n), mined, self.rng, held) for n in names}
        # A tool of a pool that also stands in a set left out may not be drawn. The mined rows
        # stay aligned, so tools are barred, not removed.
        for name in (*POOLS, WRITTEN):
            pool = load(data, name)
            kept = {t.id for t in pool_without(pool, unseen).tools}
            barred = frozenset(i for i, t in enumerate(pool.tools) if t.id not in kept)
            self.sources[name] = Source(pool, mined, self.rng, held, barred)
        large = {"toole": settings.toole, **LARGE}
        self.large = {n: w for n, w in large.items() if n in names}
        self.small = {n: w for n, w in SMALL.items() if n in names}

    def _template(self) -> Example:
        big = [n for n in self.large if n not in ("toole",)]
        chosen = self.rng.choices([*POOLS, *big], [0.72, 0.05, *[0.23 / len(big)] * len(big)])
        name = chosen[0]
        while True:
            example = self.sources[name].template(self.settings.joined)
            if not {i for _, i in example.wanted} & self.sources[name].barred:
                return example

    def draw(self) -> list[Example]:
        """One batch."""
        s = self.settings
        large = self.sources[self.rng.choices(list(self.large), list(self.large.values()))[0]]
        batch = [large.labelled(s.negatives, s.joined) for _ in range(s.group)]
        for _ in range(s.small if self.small else 0):
            name = self.rng.choices(list(self.small), list(self.small.values()))[0]
            batch.append(self.sources[name].labelled(s.negatives, s.joined))
        own = self.sources[WRITTEN]
        batch += [own.labelled(s.negatives, s.joined) for _ in range(s.written)]
        return batch + [self._template() for _ in range(s.templates)]

    def blocked(self, batch: list[Example], documents: list[tuple[str, int]]) -> NDArray[np.bool_]:
        """True where a document of the batch may not count as a negative of a query."""
        vectors = np.stack([self.sources[n].vectors[i] for n, i in documents])
        out = (vectors[: len(batch)] @ vectors.T) > DUPLICATE
        places: dict[tuple[str, int], list[int]] = {}
        for column, key in enumerate(documents):
            places.setdefault(key, []).append(column)
        for row, example in enumerate(batch):
            for key in example.wanted:
                out[row, places.get(key, [])] = True
        np.fill_diagonal(out, False)
        return out

    def next(self) -> Batch:
        """The next batch, as tokens."""
        s, batch = self.settings, self.draw()
        extra = [n for e in batch for n in e.negatives]
        asked = [(e.query, e.span) for e in batch]
        queries, pooled = tokenise_spans(self.tokenizer, asked, s.query_tokens)
        texts = [e.document for e in batch] + [t for t, _ in extra]
        documents = tokenise(self.tokenizer, texts, s.document_tokens)
        keys = [e.tool for e in batch] + [k for _, k in extra]
        blocked = self.blocked(batch, keys)
        return Batch(in_pieces(queries, pooled), in_pieces(documents), blocked)


@dataclass(frozen=True)
class Sources:
    """Where batches come from: the folders, the sets left out, whether validation is held out."""

    data: Path
    mined: Path
    left_out: tuple[str, ...]
    held: bool

    def batches(self, settings: Settings, seed: int) -> Batches:
        """What draws them."""
        return Batches(self.data, self.mined, self.left_out, settings, self.held, seed)


def drawn(sources: Sources, settings: Settings, processes: int = 0) -> Iterator[Batch]:
    """The batches of a run; the same ones for the same settings and number of processes.

    Args:
        sources: where they come from.
        settings: of the run.
        processes: that draw ahead; 0: drawn when asked for.
    """
    if not processes:
        batches = sources.batches(settings, settings.seed)
        yield from (batches.next() for _ in range(settings.steps))
        return
    context = multiprocessing.get_context("spawn")
    queues: list[Queue[Batch]] = [context.Queue(_AHEAD) for _ in range(processes)]
    started = [
        context.Process(target=_draw, args=(sources, settings, i, queue), daemon=True)
        for i, queue in enumerate(queues)
    ]
    for process in started:
        process.start()
    try:
        yield from (queues[step % processes].get(timeout=300) for step in range(settings.steps))
    finally:
        for process in started:
            process.terminate()


def _draw(sources: Sources, settings: Settings, number: int, queue: Queue[Batch]) -> None:
    batches = sources.batches(settings, settings.seed * 1000 + number)
    while True:
        queue.put(batches.next())
