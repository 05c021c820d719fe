"""Postings that are made from the last ones are, bit for bit, those that are made anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armory.retrieval.lexical import bm25
from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.postings import Postings

WORDS = [
    "read",
    "file",
    "readFile",
    "send",
    "e-mail",
    "mailing",
    "list",
    "of",
    "天气预报",
    "get_http",
]
QUERIES = ("read a file", "mailinglist", "mailng fil", "天气", "send the e-mail", "")

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
fields = st.builds(Fields, name=texts, server=texts, description=texts, params=texts)
#: What happens between two snapshots: (kind, where, words).
steps = st.lists(
    st.lists(st.tuples(st.sampled_from("acrm"), st.integers(0, 99), fields), max_size=4),
    min_size=1,
    max_size=6,
)


def assert_same(one: Postings, other: Postings) -> None:
    assert one.keys == other.keys
    for left, right in zip(one.inverted[:-1], other.inverted[:-1], strict=True):  # type: ignore[misc]
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype
    rows = np.arange(len(one))
    for query in QUERIES:
        hits, wanted = one.search(query), other.search(query)
        assert hits.weights.tobytes() == wanted.weights.tobytes()
        assert hits.rows.tobytes() == wanted.rows.tobytes()
        assert one.keyword(query).tobytes() == other.keyword(query).tobytes()
        found, expected = one.fields(hits, rows), other.fields(wanted, rows)
        assert found.said.tobytes() == expected.said.tobytes()
        assert found.shares.tobytes() == expected.shares.tobytes()
        assert found.covered.tobytes() == expected.covered.tobytes()


def never(_source: object) -> bool:
    return False


class Followed:
    """An index that goes on from what it has, beside one that always begins anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.next, self.anew = LexicalIndex(), LexicalIndex()
        self.keys: list[str] = []
        self._made = 0

    def step(self, kind: str, where: int, said: Fields) -> None:
        place = where % (len(self.keys) or 1)
        if kind == "a":
            self._made += 1
            self.keys.insert(place, f"tool{self._made}")
        if not self.keys:
            return
        if kind == "r":
            gone = self.keys.pop(place)
            self.next.remove(gone)
            self.anew.remove(gone)
        elif kind == "m":
            self.keys.append(self.keys.pop(place))
        else:
            self.next.add(self.keys[place], said)
            self.anew.add(self.keys[place], said)

    def check(self) -> Postings:
        found = self.next.freeze(self.keys)
        with self._patch.context() as patch:
            patch.setattr(LexicalIndex, "_few", staticmethod(never))
            assert_same(found, self.anew.freeze(self.keys))
        return found


@settings(max_examples=25, deadline=None)
@given(start=st.lists(fields, max_size=20), changes=steps)
def test_the_next_postings_are_those_made_anew(
    start: list[Fields], changes: list[list[tuple[str, int, Fields]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        both = Followed(patch)
        for said in start:
            both.step("a", 0, said)
        both.check()
        for together in changes:
            for one in together:
                both.step(*one)
            both.check()


def test_one_changed_tool_is_not_read_from_all(monkeypatch: pytest.MonkeyPatch) -> None:
    index = LexicalIndex()
    for i in range(100):
        index.add(f"tool{i}", Fields(f"name{i}", description="words of all"))
    index.freeze()
    made: list[Any] = []
    of = bm25.Postings.__init__

    def watched(self: Postings, *args: Any) -> None:
        made.append(args[-1])
        of(self, *args)

    monkeypatch.setattr(bm25.Postings, "__init__", watched)
    index.add("tool7", Fields("name7", description="weather"))
    after = index.freeze()
    assert made[0] is not None
    assert int(np.argmax(after.search("weather").bm25())) == 7


def test_what_a_subset_leaves_out_is_not_lost() -> None:
    index = LexicalIndex()
    for key in "abc":
        index.add(key, Fields(f"word{key}"))
    index.freeze()
    index.add("d", Fields("wordd"))
    assert index.freeze(["d", "a"]).search("wordd").rows.tolist() == [0]
    assert index.freeze("cdab").search("wordb").rows.tolist() == [3]
    assert index.freeze("abcd").search("wordd").rows.tolist() == [3]
