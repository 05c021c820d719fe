"""Mine with the untouched base: tool vectors, hard negatives, clauses matched to tools.

Usage: python -m training.mine DATA --out mined

Nothing here looks at how well a trained model does, so one mining serves every fold; a fold
simply does not read the sets that it leaves out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.data import (
    LABELLED,
    POOLS,
    WRITTEN,
    Catalog,
    clauses,
    load,
    split_name,
    view,
)
from training.encoder import load_encoder
from training.evaluate import Array, Embed, bm25, onnx_embedder, torch_embedder, zscores

NEGATIVES = 24
#: Documents nearer than this to a wanted tool are taken for the same thing, not for a negative.
DUPLICATE = 0.87
#: In a pool of thousands of servers several do the same: of foreign servers only what is farther.
FOREIGN = 0.65
Indices = NDArray[np.int32]


def neighbours(vectors: Array, count: int = NEGATIVES) -> Indices:
    """For every tool its nearest tools that are not near-duplicates; -1 fills up."""
    out = np.full((len(vectors), count), -1, np.int32)
    for at in range(0, len(vectors), 2048):
        sims = vectors[at : at + 2048] @ vectors.T
        sims[sims > DUPLICATE] = -1.0
        best = np.argsort(-sims, axis=1)[:, :count]
        out[at : at + 2048] = best
    return out


def hard_negatives(catalog: Catalog, tools: Array, asked: Array) -> Indices:
    """For every query the tools that base and BM25 rank high though nobody wants them.

    Left out: wanted tools, tools of the same name, near-duplicates of wanted ones, and tools
    that the base puts far above every wanted one (probably wanted too, only not labelled).
    """
    place = {t.id: i for i, t in enumerate(catalog.tools)}
    names = np.array([split_name(t.name) for t in catalog.tools])
    servers = np.array([t.server for t in catalog.tools])
    out = np.full((len(asked), NEGATIVES), -1, np.int32)
    for at in range(0, len(asked), 512):
        block = slice(at, at + 512)
        dense = asked[block] @ tools.T
        keyword = bm25(catalog.tools, [q.text for q in catalog.queries[block]])
        rank = 0.7 * zscores(dense) + 0.3 * zscores(keyword)
        for row, query in enumerate(catalog.queries[block]):
            wanted = [place[r] for r in query.relevant if r in place]
            if not wanted:
                continue
            barred = np.isin(names, names[wanted])
            near = (tools @ tools[wanted].T).max(1)
            barred |= near > DUPLICATE
            if catalog.name == WRITTEN:
                barred |= (near > FOREIGN) & ~np.isin(servers, servers[wanted])
            barred |= dense[row] > dense[row, wanted].max() + 0.15
            order = np.argsort(-np.where(barred, -np.inf, rank[row]))[:NEGATIVES]
            order = order[~barred[order]]
            out[at + row, : len(order)] = order
    return out


def clause_pairs(catalog: Catalog, tools: Array, embed: Embed) -> list[tuple[int, str, int]]:
    """(query, clause, tool) where one wanted tool clearly fits one clause or step."""
    place = {t.id: i for i, t in enumerate(catalog.tools)}
    texts: list[tuple[int, str]] = []
    for i, query in enumerate(catalog.queries):
        if len(query.relevant) > 1:
            texts += [(i, c) for c in (query.steps or clauses(query.text))]
    if not texts:
        return []
    vectors = embed([t for _, t in texts])
    pairs = []
    for (i, text), vector in zip(texts, vectors, strict=True):
        wanted = [place[r] for r in catalog.queries[i].relevant if r in place]
        sims = tools[wanted] @ vector
        order = np.argsort(-sims)
        lead = sims[order[0]] - (sims[order[1]] if len(order) > 1 else 0.0)
        if sims[order[0]] > 0.35 and lead > 0.08:
            pairs.append((i, text, wanted[int(order[0])]))
    return pairs


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2, help="1 where others use the machine")
    parser.add_argument("--base", type=Path, help="the exported base: faster without bf16")
    parser.add_argument("--sets", nargs="+", default=[*LABELLED, *POOLS, WRITTEN])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    embed = onnx_embedder(args.base) if args.base else torch_embedder(load_encoder(fused=False))
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.sets:
        catalog = load(args.data, name)
        kept = args.out / f"{POOLS[0]}.npz"
        found: dict[str, NDArray[np.generic]]
        if name == WRITTEN and kept.exists():  # the same tools
            with np.load(kept) as stored:
                found = {key: stored[key] for key in ("tools", "neighbours")}
            tools = found["tools"].astype(np.float32)
        else:
            tools = embed([view(t, "server") for t in catalog.tools])
            found = {"tools": tools.astype(np.float16), "neighbours": neighbours(tools)}
        pairs: list[tuple[int, str, int]] = []
        if catalog.queries:
            asked = embed([q.text for q in catalog.queries])
            found["negatives"] = hard_negatives(catalog, tools, asked)
            pairs = clause_pairs(catalog, tools, embed)
        np.savez(args.out / f"{name}.npz", **found)  # type: ignore[arg-type]
        (args.out / f"{name}.clauses.json").write_text(json.dumps(pairs), encoding="utf-8")
        print(name, len(tools), "tools", len(pairs), "clause pairs", flush=True)


if __name__ == "__main__":
    main()
