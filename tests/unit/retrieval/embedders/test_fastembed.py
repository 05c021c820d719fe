"""Models of fastembed that are not at hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.embedders.fastembed import FastembedEmbedder

_UNREACHED = """
import asyncio, sys
from armory.errors import ArmoryError
from armory.retrieval.embedders.fastembed import FastembedEmbedder
from armory.retrieval.ranking.cross_encoder import CrossEncoder

async def ask():
    await FastembedEmbedder("all-MiniLM-L6-v2", cache_dir=sys.argv[1]).embed_queries(["a"])

for use in (lambda: asyncio.run(ask()), lambda: CrossEncoder("Xenova/ms-marco-MiniLM-L-6-v2")):
    try:
        use()
    except ArmoryError as error:
        print(error)
"""


def test_a_model_that_cannot_be_fetched_is_told_after_one_attempt(tmp_path: Path) -> None:
    """Of three, between which the library sleeps, whoever waits can end none."""
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:1", "FASTEMBED_CACHE_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _UNREACHED, str(tmp_path)],
        env={**os.environ, **nowhere}, capture_output=True, text=True, timeout=110, check=True,
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert "all-MiniLM-L6-v2 failed: Could not load model" in first
    assert "cannot be loaded" in second
    assert done.stderr.count("Could not download model from HuggingFace") == 2


@pytest.mark.parametrize(("name", "dimension"), [("all-MiniLM-L6-v2", 384), ("BGE-large", 1024)])
def test_the_usual_models_have_short_names(name: str, dimension: int) -> None:
    embedder = FastembedEmbedder(name)
    assert embedder.dimension == dimension
    assert "/" in embedder.identity


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("all-MiniLM-L6-v2", True),
        ("BGE-large", True),
        ("thenlper/gte-base", True),
        ("BAAI/bge-small-zh-v1.5", False),
        ("jinaai/jina-embeddings-v2-base-de", False),
        ("jinaai/jina-embeddings-v2-base-es", False),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", False),
        ("intfloat/multilingual-e5-large", False),
    ],
)
@pytest.mark.anyio
async def test_a_model_that_reads_english_alone_says_so(name: str, alone: bool) -> None:
    embedder = FastembedEmbedder(name)
    assert CachedEmbedder(embedder).english_only is alone
    await embedder.aclose()
