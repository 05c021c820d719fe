"""Whether searches in Qdrant go through the environment's proxy."""

from __future__ import annotations

import pytest

from armory.retrieval.indexes.qdrant_access import proxied


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://qdrant.example:6333/x", True),
        ("https://qdrant.example:6333/x", False),
        ("http://localhost:6333/x", False),
        ("http://far.example:6333/x", False),
        ("http://far.example:7000/x", True),
    ],
)
def test_a_proxy_is_used_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, expected: bool
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "localhost,far.example:6333")
    assert proxied(url) is expected
