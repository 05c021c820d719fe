"""The model that is in the package: its files, its graph, and clauses read within their query."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from armory.errors import BackendError, ConfigError
from armory.retrieval.embedders.embedded import (
    SHIPPED,
    EmbeddedEmbedder,
    clause_of,
    tokens_within,
)

pytestmark = pytest.mark.anyio


async def test_embedded_refuses_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not an embedding model"):
        EmbeddedEmbedder(tmp_path)
    folder = tmp_path / "broken"
    shutil.copytree(SHIPPED, folder)
    (folder / "model.onnx").write_bytes(b"garbage")
    broken = EmbeddedEmbedder(folder)
    with pytest.raises(BackendError, match="cannot be loaded"):
        await broken.embed_queries(["a"])
    await broken.aclose()


async def test_the_shipped_files_are_the_ones_that_the_config_names() -> None:
    import hashlib

    config = json.loads((SHIPPED / "config.json").read_text(encoding="utf-8"))
    for name, digest in config["sha256"].items():
        assert hashlib.sha256((SHIPPED / name).read_bytes()).hexdigest() == digest


async def test_the_shortened_graph_gives_the_vectors_of_the_whole_model(tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("graph.onnx"))
    texts = ["create an issue", "Wetter in Köln " * 40, "日本"]
    shortened, whole = EmbeddedEmbedder(), EmbeddedEmbedder(folder)
    assert (await shortened.embed_queries(texts) == await whole.embed_queries(texts)).all()
    await shortened.aclose()
    await whole.aclose()


async def test_clauses_are_read_in_their_query() -> None:
    embedder = EmbeddedEmbedder()
    text = "Créez a calendar event for Monday and translate the invitation into French"
    first, second = (0, 33), (38, len(text))
    found = await embedder.embed_clauses(text, [first, second])
    whole, *alone = await embedder.embed_queries([text, text[slice(*first)], text[slice(*second)]])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found[0], whole, atol=1e-5)
    likeness = found[1:] @ np.stack(alone).T
    assert likeness[0, 0] > likeness[0, 1] + 0.2
    assert likeness[1, 1] > likeness[1, 0] + 0.2
    await embedder.aclose()


def test_a_clause_has_the_tokens_of_its_characters_and_no_others() -> None:
    tokenizer: Any = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    text = "Crééz l'événement 😀 lundi, and send an email to Bob now"
    start = text.index("send")
    encoded = tokenizer.encode(text)
    inside = tokens_within(encoded.offsets, (start, start + len("send an email to Bob")))
    assert [encoded.tokens[i] for i in inside] == ["send", "an", "email", "to", "bob"]
    assert tokens_within(encoded.offsets, (start + 1, start + 4)) == []
    everything = tokens_within(encoded.offsets, (0, len(text)))
    assert everything == list(range(1, len(encoded.tokens) - 1))  # not the special ones


def test_a_clause_is_the_mean_of_its_tokens_less_a_share_of_the_text() -> None:
    tokens = np.array([[9, 9], [3, 0], [0, 1], [0, 3], [9, 9]], np.float32)
    found = clause_of(tokens, [1, 3], np.array([0, 1], np.float32))
    np.testing.assert_allclose(found, [0.5**0.5, 0.5**0.5 - 0.4], atol=1e-6)


async def test_a_clause_beyond_what_the_model_reads_is_read_by_itself() -> None:
    embedder = EmbeddedEmbedder()
    text = "words " * 600 + "and book a flight"
    span = (len(text) - 13, len(text))
    found = await embedder.embed_clauses(text, [(0, 11), span])
    (alone,) = await embedder.embed_queries(["book a flight"])
    np.testing.assert_allclose(found[2], alone, atol=1e-5)
    assert found[1] @ alone < 0.9
    await embedder.aclose()
