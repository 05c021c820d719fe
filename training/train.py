"""Fine-tune the encoder for query → tool.

Usage: python -m training.train DATA --mined mined --out run/final [--leave-out a]

InfoNCE over in-batch tools and mined hard negatives; every step mixes a group drawn from one
labelled catalog (its own tools are the hardest in-batch negatives), a group of the small sets,
a group of hand-written queries and one of template queries over the tools of the pools. Two leashes
hold the model to the base: the weights are pulled back towards it at every step, and the averaged
weights can be interpolated with it afterwards (`training.export --factor`).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from training.data import (
    FOLDS,
    LABELLED,
    POOLS,
    VIEWS,
    WRITTEN,
    Catalog,
    clauses,
    held_out,
    join,
    load,
    pool_without,
    synthetic,
    view,
)
from training.encoder import Encoder, autocast, load_encoder, load_tokenizer, save_state
from training.evaluate import pad, tokenise, tokenise_spans
from training.mine import DUPLICATE

VIEW_WEIGHTS = (0.35, 0.3, 0.15, 0.15, 0.05)
#: How often the one-catalog group is drawn from each large set; toole's: `Settings.toole`.
LARGE = {"toolbench-stable": 0.25, "sealtools": 0.24, "bfcl": 0.24}
#: Shares of the mixed group.
SMALL = {"toole-multi": 0.36, "livemcpbench": 0.22, "mcpproxy-golden": 0.06, "acebench-en": 0.36}


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
        self.vectors = torch.from_numpy(stored["tools"].astype(np.float32))
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


class Batches:
    """Draws batches from all sources that a run may see."""

    def __init__(
        self, data: Path, mined: Path, left_out: tuple[str, ...], settings: Settings, held: bool
    ) -> None:
        self.rng = random.Random(settings.seed)
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

    def masked(self, batch: list[Example], documents: list[tuple[str, int]]) -> Tensor:
        """True where a document of the batch may not count as a negative of a query."""
        vectors = torch.stack([self.sources[n].vectors[i] for n, i in documents])
        out = (vectors[: len(batch)] @ vectors.T) > DUPLICATE
        for row, example in enumerate(batch):
            for column, key in enumerate(documents):
                if key in example.wanted:
                    out[row, column] = True
        out[torch.arange(len(batch)), torch.arange(len(batch))] = False
        return out


def embed(
    model: Encoder, rows: list[list[int]], pooled: list[list[int]] | None = None, pieces: int = 3
) -> Tensor:
    """Vectors with gradient; rows of similar length go through together.

    Args:
        model: what embeds.
        rows: token ids.
        pooled: the tokens of each row whose mean is its vector; None: all.
        pieces: parts that the rows are run in.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    parts = []
    for chunk in np.array_split(np.array(order), pieces):
        ids, mask = pad([rows[i] for i in chunk])
        counted = mask if pooled is None else np.zeros_like(mask)
        for at, i in enumerate(chunk if pooled is not None else ()):
            assert pooled is not None
            counted[at, pooled[i]] = 1
        with autocast():
            parts.append(model(*(torch.from_numpy(a) for a in (ids, mask, counted))))
    back = torch.empty(len(rows), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(rows))
    return torch.cat(parts)[back]


def train(batches: Batches, settings: Settings, out: Path, start: Path | None = None) -> None:
    """Run the steps from `start` or the untouched base and write the averaged weights."""
    torch.manual_seed(settings.seed)
    tokenizer = load_tokenizer()
    model, base = load_encoder(start, fused=False).train(), load_encoder(start, fused=False)
    still = (model.words, model.positions, model.segment, model.norm)
    for part in (*still, *model.layers[: settings.frozen]):
        part.requires_grad_(False)
    moving = [(p, b) for p, b in zip(model.parameters(), base.parameters(), strict=True)
              if p.requires_grad]  # fmt: skip
    average = [p.detach().clone() for p, _ in moving]
    optimiser = torch.optim.AdamW([p for p, _ in moving], lr=settings.rate, weight_decay=0.0)
    began, losses = time.time(), []
    for step in range(settings.steps):
        batch = batches.draw()
        extra = [n for e in batch for n in e.negatives]
        keys = [e.tool for e in batch] + [k for _, k in extra]
        asked_of = [(e.query, e.span) for e in batch]
        queries, pooled = tokenise_spans(tokenizer, asked_of, settings.query_tokens)
        texts = [e.document for e in batch] + [t for t, _ in extra]
        documents = tokenise(tokenizer, texts, settings.document_tokens)
        warm = settings.warmup * settings.steps
        rate = min((step + 1) / warm, (settings.steps - step) / (settings.steps - warm))
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * rate
        asked, offered = embed(model, queries, pooled), embed(model, documents)
        scores = settings.scale * asked @ offered.T
        scores = scores.masked_fill(batches.masked(batch, keys), -1e4)
        target = torch.arange(len(batch))
        loss = F.cross_entropy(scores, target)
        loss = loss + 0.2 * F.cross_entropy(scores[:, : len(batch)].T, target)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p, _ in moving], 1.0)
        optimiser.step()
        keep = min(settings.average, (step + 1) / (step + 10))
        with torch.no_grad():
            for (p, b), a in zip(moving, average, strict=True):
                p.lerp_(b, settings.pull * rate * 0.1)
                a.lerp_(p, 1 - keep)
        losses.append(float(loss.detach()))
        if step % 40 == 39:
            store(model, average, out / "latest.safetensors")
        if step % 10 == 9:
            spent = time.time() - began
            print(f"step {step + 1} loss {np.mean(losses[-10:]):.3f} {spent:.0f} s", flush=True)
    store(model, average, out / "model.safetensors")


def store(model: Encoder, average: list[Tensor], path: Path) -> None:
    """Write the averaged weights."""
    copy = Encoder(model.shape)
    copy.load_state_dict(model.state_dict())
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    copy.load_state_dict(dict(zip(names, average, strict=True)), strict=False)
    save_state(copy.state_dict(), path)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--mined", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--leave-out", nargs="*", default=[], help="fold letters or set names")
    parser.add_argument("--start", type=Path, help="weights to begin with and to be pulled to")
    parser.add_argument("--all-queries", action="store_true", help="train on validation too")
    parser.add_argument("--threads", type=int, default=2, help="1 where others use the machine")
    for name, default in vars(Settings()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    args = parser.parse_args()
    settings = Settings(**{k: getattr(args, k) for k in vars(Settings())})
    left_out = tuple(n for key in args.leave_out for n in FOLDS.get(key, (key,)))
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "run.json").write_text(json.dumps({"left_out": left_out, **vars(settings)}))
    batches = Batches(args.data, args.mined, left_out, settings, not args.all_queries)
    train(batches, settings, args.out, args.start)


if __name__ == "__main__":
    main()
