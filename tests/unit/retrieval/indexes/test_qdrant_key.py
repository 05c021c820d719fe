"""A Qdrant key that would go over the network in clear is told in the log, and nowhere else."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.options import QdrantSettings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://qdrant.example:6333", True),
        ("https://qdrant.example:6333", False),
        ("http://127.0.0.1:6333", False),
    ],
)
async def test_a_key_in_clear_is_one_line_of_the_log(url: str, told: bool) -> None:
    """The client library's own warning would be an error here."""
    with capture_logs() as lines:
        index = QdrantIndex("model", 8, QdrantSettings(url=url, api_key="k"))
    await index.aclose()
    events = [line["event"] for line in lines]
    assert events == (["qdrant_key_sent_in_clear"] if told else [])
    assert "'k'" not in str(lines)
