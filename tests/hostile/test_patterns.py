"""Patterns of a list request's filter (`server.experimental`), which any caller writes."""

from __future__ import annotations

import threading

import pytest
from msgspec import Raw

from armory.gateway.queries.filters import MAX_PATTERNS, Patterns, read_filter
from armory.protocol.errors import RpcError
from armory.protocol.rawjson import encode

pytestmark = pytest.mark.anyio
ON = frozenset({"filter"})


class Noted(str):
    """A name that notes by which thread it was looked at."""

    looked_at_by: set[int]

    def __len__(self) -> int:
        self.looked_at_by.add(threading.get_ident())
        return super().__len__()


def test_sets_of_characters_that_take_long_to_compile_are_refused() -> None:
    wide = ["[\u0100-\uffff]" * 50 + str(n) for n in range(MAX_PATTERNS)]
    for member in ("namePatterns", "uriPatterns"):
        with pytest.raises(RpcError, match="ASCII alone"):
            read_filter({"filter": Raw(encode({member: wide}))}, ON)
    found = read_filter({"filter": Raw(encode({"namePatterns": ["[a-z]*", "\u00e9*"]}))}, ON)
    assert found.names is not None


async def test_many_names_are_matched_beside_the_loop_and_few_at_once() -> None:
    many = Patterns(tuple(f"*{n}zq*" for n in range(MAX_PATTERNS)))
    names = [Noted(f"server__tool_{n}") for n in range(2_000)]
    by = set[int]()
    for name in names:
        name.looked_at_by = by
    assert await many.among(names) == frozenset()
    assert by
    assert threading.get_ident() not in by
    by.clear()
    assert await Patterns(("*_1",)).among(names[:20]) == {"server__tool_1"}
    assert by == {threading.get_ident()}


async def test_a_uri_as_long_as_a_document_matches_nothing() -> None:
    assert await Patterns(("*",)).among(["a" * 8_192, "a" * 8_193]) == {"a" * 8_192}
