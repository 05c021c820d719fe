"""What the head of a request says."""

from __future__ import annotations

from aiohttp.test_utils import make_mocked_request

from armory.wire.http.admitted import query_parameters


def test_what_a_url_says_is_kept_where_it_is_no_text() -> None:
    def said(query: str) -> dict[str, list[str]]:
        return query_parameters(make_mocked_request("POST", f"/mcp?{query}"))

    assert said("") == {}
    assert said("query=a+b&query=%C3%A9&top_k=") == {"query": ["a b", "\u00e9"], "top_k": [""]}
    assert said("query=%FF&x=%EF%BF%BD") == {"query": ["\udcff"], "x": ["\ufffd"]}
