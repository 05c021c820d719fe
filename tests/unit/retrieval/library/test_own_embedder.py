"""Embedders that callers make for a ToolMemory: what they give is made unit vectors, or told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from armory import ToolMemory
from armory.testing.embedder import HashingEmbedder

TOOLS = (
    {"name": "get_weather", "description": "Weather forecast for a city"},
    {"name": "send_email", "description": "Send an email message to a person"},
)


class Lists(HashingEmbedder):
    """Vectors as lists, three times as long as they should be."""

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return (3 * await super().embed_documents(texts)).tolist()

    async def embed_queries(self, texts: Sequence[str]) -> Any:
        return (3 * await super().embed_queries(texts)).tolist()


class TooFew(HashingEmbedder):
    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return (await super().embed_documents(texts))[:1]


def scores(embedder: HashingEmbedder) -> dict[str, float]:
    with ToolMemory(embedder=embedder) as memory:
        memory.add(*TOOLS)
        return {
            found["name"]: found["_score"]
            for found in memory.select_tools_for_query("weather and email")
        }


def test_vectors_of_any_length_and_lists_give_cosines() -> None:
    assert scores(Lists()) == pytest.approx(scores(HashingEmbedder()), abs=1e-5)


def test_too_few_vectors_are_told_and_cost_no_more_than_meaning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert scores(TooFew()) == {"get_weather": 0.0, "send_email": 0.0}
    assert "got vectors of shape (1, 64), expected (" in "".join(capfd.readouterr())
