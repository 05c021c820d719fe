"""What the head of a request says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from yarl import URL

from armory.wire.http.admitted import query_parameters


def test_what_a_url_says_is_kept_where_it_is_no_text() -> None:
    def said(query: str) -> dict[str, list[str]]:
        asked: Any = SimpleNamespace(rel_url=URL(f"/mcp?{query}", encoded=True))
        return query_parameters(asked)

    assert said("") == {}
    assert said("query=a+b&query=%C3%A9&top_k=") == {"query": ["a b", "\u00e9"], "top_k": [""]}
    assert said("query=%FF&x=%EF%BF%BD") == {"query": ["\udcff"], "x": ["\ufffd"]}
