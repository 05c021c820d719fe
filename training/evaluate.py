"""Judge an embedder on labelled sets: dense alone, and in the z-scored fusion with BM25.

Usage: python -m training.evaluate DATA [--model run/model.safetensors | --onnx FOLDER]
[--sets toole sealtools] [--part all|validation] [--views server params] [--json out.json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from armory.retrieval.embedders.embedded import EmbeddedEmbedder, tokens_within
from training.data import LABELLED, Catalog, Query, Tool, is_validation, load, split_name, view
from training.encoder import Encoder, autocast, load_encoder, load_tokenizer

Array = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Array]
METRICS = ("recall@5", "recall@10", "ndcg@10")


def pad(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids and mask of rows padded to the longest."""
    width = max(map(len, rows))
    ids = np.zeros((len(rows), width), np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask


def tokenise(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[list[int]]:
    """Token ids, cut to `limit` with the closing token kept."""
    rows = (e.ids for e in tokenizer.encode_batch(list(texts)))
    return [r if len(r) <= limit else [*r[: limit - 1], r[-1]] for r in rows]


def tokenise_spans(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, tuple[int, int] | None]], limit: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids as `tokenise` gives them, and which tokens lie within each span of characters.

    Without a span, and where none of its tokens is left: all tokens of the row.
    """
    rows = tokenise(tokenizer, [text for text, _ in texts], limit)
    found: list[list[int]] = []
    for (text, span), row in zip(texts, rows, strict=True):
        inside = tokens_within(tokenizer.encode(text).offsets, span) if span else []
        inside = [i for i in inside if i < len(row) - 1]
        found.append(inside or list(range(len(row))))
    return rows, found


def torch_embedder(model: Encoder, limit: int = 256, batch_tokens: int = 6144) -> Embed:
    """Embed with torch in bf16, batches of similar length."""
    tokenizer = load_tokenizer()

    def embed(texts: Sequence[str]) -> Array:
        rows = tokenise(tokenizer, texts, limit)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        out = np.zeros((len(rows), model.shape.width), np.float32)
        at = 0
        while at < len(order):
            take = [order[at]]
            while at + len(take) < len(order):
                nxt = order[at + len(take)]
                if (len(take) + 1) * len(rows[nxt]) > batch_tokens:
                    break
                take.append(nxt)
            ids, mask = pad([rows[i] for i in take])
            with torch.inference_mode(), autocast():
                out[take] = model(torch.from_numpy(ids), torch.from_numpy(mask)).float().numpy()
            at += len(take)
        return out

    return embed


def onnx_embedder(folder: Path) -> Embed:
    """Embed with the exported folder as the package does, each text by itself: int8 activations
    share a scale in a batch.
    """
    embedder = EmbeddedEmbedder(folder, threads=2)
    return lambda texts: asyncio.run(embedder.embed_documents(texts))


def _stems(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+|[\u0080-\uffff]", split_name(text))
    return [re.sub(r"(?:ing|edly|ed|ies|es|s|ly)$", "", w) if len(w) > 4 else w for w in words]


def bm25(tools: Sequence[Tool], queries: Sequence[str], k1: float = 1.2, b: float = 0.75) -> Array:
    """BM25 scores, a row a query, over names, servers, descriptions and parameters."""
    documents = [Counter(_stems(view(t, "params") + " " + t.description)) for t in tools]
    lengths = np.array([sum(d.values()) for d in documents], np.float32)
    norm = k1 * (1 - b + b * lengths / max(float(lengths.mean()), 1.0))
    postings: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i, document in enumerate(documents):
        for word, count in document.items():
            postings[word][0].append(i)
            postings[word][1].append(count)
    scores = np.zeros((len(queries), len(tools)), np.float32)
    for row, query in enumerate(queries):
        for word in set(_stems(query)):
            if word in postings:
                where, counts = postings[word]
                tf = np.array(counts, np.float32)
                idf = math.log(1 + (len(tools) - len(where) + 0.5) / (len(where) + 0.5))
                scores[row, where] += idf * tf * (k1 + 1) / (tf + norm[where])
    return scores


def zscores(scores: Array) -> Array:
    """Each row less its mean, over its deviation."""
    deviation = scores.std(1, keepdims=True)
    return (scores - scores.mean(1, keepdims=True)) / np.maximum(deviation, 1e-6)


def measure(scores: Array, relevant: Sequence[frozenset[int]]) -> dict[str, NDArray[np.float64]]:
    """Every metric for every query."""
    top = np.argpartition(-scores, min(10, scores.shape[1] - 1), axis=1)[:, :10]
    out: dict[str, list[float]] = {m: [] for m in METRICS}
    for row, (best, wanted) in enumerate(zip(top, relevant, strict=True)):
        ranked = best[np.argsort(-scores[row, best], kind="stable")]
        hits = [int(i) in wanted for i in ranked]
        gain = sum(h / math.log2(r + 2) for r, h in enumerate(hits))
        ideal = sum(1 / math.log2(r + 2) for r in range(min(10, len(wanted))))
        out["recall@5"].append(sum(hits[:5]) / len(wanted))
        out["recall@10"].append(sum(hits) / len(wanted))
        out["ndcg@10"].append(gain / ideal)
    return {m: np.array(v) for m, v in out.items()}


def pick(catalog: Catalog, part: str, cap: int) -> list[Query]:
    """The labelled queries of a part; at most `cap`, a fixed sample."""
    chosen = [q for q in catalog.queries if q.relevant]
    if part == "validation":
        chosen = [q for q in chosen if is_validation(q.id)]
    step = max(1, math.ceil(len(chosen) / cap))
    return chosen[::step]


def judge(
    embed: Embed, catalog: Catalog, queries: Sequence[Query], views: Sequence[str]
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Metrics for every query, dense alone and in the fusion; several views: the best counts."""
    place = {t.id: i for i, t in enumerate(catalog.tools)}
    relevant = [frozenset(place[r] for r in q.relevant if r in place) for q in queries]
    asked = embed([q.text for q in queries])
    texts = [[view(t, v) for t in catalog.tools] for v in views]
    unique = {text: i for i, text in enumerate(dict.fromkeys(t for row in texts for t in row))}
    vectors = embed(list(unique))
    dense = np.max([asked @ vectors[[unique[t] for t in row]].T for row in texts], axis=0)
    keyword = bm25(catalog.tools, [q.text for q in queries])
    fused = 0.7 * zscores(dense) + 0.3 * zscores(keyword)
    return {"dense": measure(dense, relevant), "fusion": measure(fused, relevant)}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, help="safetensors; default: the untouched base")
    parser.add_argument("--onnx", type=Path, help="an exported folder instead")
    parser.add_argument("--sets", nargs="+", default=list(LABELLED))
    parser.add_argument("--part", choices=("all", "validation"), default="all")
    parser.add_argument("--views", nargs="+", default=["server"])
    parser.add_argument("--cap", type=int, default=2000, help="queries a set at most")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(2)
    if args.onnx:
        embed = onnx_embedder(args.onnx)
    else:
        embed = torch_embedder(load_encoder(args.model, fused=False))
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name in args.sets:
        catalog = load(args.data, name)
        found = judge(embed, catalog, pick(catalog, args.part, args.cap), args.views)
        table[name] = {
            leg: {m: round(float(v.mean()), 4) for m, v in metrics.items()}
            for leg, metrics in found.items()
        }
        print(name, *(f"{leg} {list(r.values())}" for leg, r in table[name].items()), flush=True)
    for leg in ("dense", "fusion"):
        mean = [float(np.mean([table[s][leg][m] for s in table])) for m in METRICS]
        print("macro", leg, *(f"{x:.4f}" for x in mean))
    if args.json:
        args.json.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
