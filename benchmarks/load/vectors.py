"""Vectors of the list benchmark's catalogs, made ahead: 100,000 tools would take an hour.

    python -m benchmarks.load.vectors DATA FOLDER [--size 100000] [--real 10000]

Owns: filling the gateway's cache of document vectors. The first `--real` tools are embedded by the
shipped model; every further text gets one of their vectors, moved a little by noise of its own, so
that searches cost what they would. What the folder has already is left alone, so that this may be
interrupted, and costs seconds when there is nothing to do.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.embedders.embedded import EmbeddedEmbedder
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.document import document_of
from armory.retrieval.ports import FloatArray
from armory.retrieval.registry import VECTORS_FILE
from benchmarks.load.catalog import SERVER, catalog

NOISE = 0.015
_BATCH = 200
_BASE = 2_000


def texts_of(tools: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The texts of each tool that the gateway embeds, in order."""
    catalog, _ = build_catalog({SERVER: ServerLists(tools=tools)})
    return [document_of(record).texts for record in catalog.tools.values()]


def moved(base: FloatArray, text: str) -> FloatArray:
    """(d,): one of (n, d) `base`, moved by noise; both follow from the text."""
    seed = int(text_hash(text)[:8], 16)
    noise = np.random.default_rng(seed).normal(size=base.shape[1])
    found = base[seed % len(base)] + NOISE * noise
    return (found / np.linalg.norm(found)).astype(np.float32)


async def prepare(tools: list[dict[str, Any]], folder: Path, real: int) -> dict[str, int]:
    """Fill the folder's cache for these tools.

    Returns:
        `real_tools`: tools embedded by the model; `moved_tools`: the others.
    """
    embedder = EmbeddedEmbedder()
    cache = DocumentCache(folder / VECTORS_FILE)
    identity, dimension = embedder.identity, embedder.dimension

    def missing(texts: list[str]) -> list[str]:
        known = cache.get(identity, map(text_hash, texts), dimension)
        return [text for text in dict.fromkeys(texts) if text_hash(text) not in known]

    every = texts_of(tools)
    honest = [text for texts in every[:real] for text in texts]
    wanted, begun = missing(honest), time.monotonic()
    for start in range(0, len(wanted), _BATCH):
        part = wanted[start : start + _BATCH]
        vectors = await embedder.embed_documents(part)
        cache.put(identity, dict(zip(map(text_hash, part), vectors, strict=True)))
        left = (time.monotonic() - begun) / (start + len(part)) * (len(wanted) - start - len(part))
        print(f"\r{start + len(part)} of {len(wanted)}, {left:.0f} s left", end="", file=sys.stderr)
    base = cache.get(identity, map(text_hash, honest[:_BASE]), dimension)
    stack = np.stack(list(base.values()))
    others = missing([text for texts in every[real:] for text in texts])
    for start in range(0, len(others), 5_000):
        part = others[start : start + 5_000]
        cache.put(identity, {text_hash(text): moved(stack, text) for text in part})
    cache.close()
    await embedder.aclose()
    return {"real_tools": min(real, len(every)), "moved_tools": max(0, len(every) - real)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the public tool-retrieval sets")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--real", type=int, default=10_000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(asyncio.run(prepare(catalog(args.data, args.size), args.folder, args.real)))


if __name__ == "__main__":
    main()
