"""Names that queries may say are taken apart while tools are indexed, not while one waits."""

from __future__ import annotations

import pytest

from armory.domain.tool import ToolRecord
from armory.retrieval.lexical import intents
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.snapshot import words_only


def test_no_query_reads_a_server_or_a_category(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [
        ToolRecord(f"s{i}__t", f"Alpha{i}", "t", {"name": "t"}, str(i), "text",
                   server_title=f"Beta{i} Box", category=f"gamma{i}")
        for i in range(20)
    ]  # fmt: skip
    index = LexicalIndex()
    words_only(tools, index.freeze())
    query = "use alpha3, beta4 box and gamma5"
    intents.terms(query)
    read: list[str] = []
    real = intents.terms

    def terms(text: str) -> list[str]:
        read.append(text)
        return real(text)

    monkeypatch.setattr(intents, "terms", terms)
    names = [n for t in tools for n in (t.server, t.server_title, t.category or "")]
    assert intents.named(query, names) == {"Alpha3", "Beta4 Box", "gamma5"}
    assert set(read) <= {query}


def test_names_are_found_after_more_were_read_than_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intents, "_NAMES", 2)
    for i in range(9):
        names = {f"Alpha{i}", "Beta Box", f"Gamma{i}"}
        assert intents.named(f"ask alpha{i} or beta box", names) == {f"Alpha{i}", "Beta Box"}
        assert intents.named(f"ask alpha{i} or beta box", {"Beta Box"}) == {"Beta Box"}
