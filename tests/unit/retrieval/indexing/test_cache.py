"""The cache of what was computed of documents, and what goes wrong with its file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from armory.retrieval.indexing import cache as module
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.ports import FloatArray


def vector(seed: int, size: int = 4) -> FloatArray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def test_vectors_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "vectors.db"
    first = DocumentCache(path)
    many = {f"h{i}": vector(i) for i in range(1_200)}
    first.put("model", many)
    first.close()
    second = DocumentCache(path)
    found = second.get("model", [*many, "unknown"], 4)
    assert found.keys() == many.keys()
    np.testing.assert_array_equal(found["h7"], many["h7"])
    assert second.get("another", many, 4) == {}
    second.close()


def test_entries_of_another_shape_or_not_finite_are_unknown(tmp_path: Path) -> None:
    cache = DocumentCache(tmp_path / "v.db")
    cache.put("m", {"good": vector(1), "nan": np.full(4, np.nan, np.float32)})
    assert cache.get("m", ["good", "nan"], 4).keys() == {"good"}
    assert cache.get("m", ["good"], 8) == {}
    cache.close()


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 4096]
)
def test_a_corrupt_file_is_moved_aside_and_rebuilt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "v.db"
    path.write_bytes(content)
    cache = DocumentCache(path)
    assert cache.get("m", ["a"], 4) == {}
    cache.put("m", {"a": vector(1)})
    cache.close()
    with closing(DocumentCache(path)) as again:
        assert again.get("m", ["a"], 4).keys() == {"a"}
    (aside,) = tmp_path.glob("v.db.corrupt-*")
    assert aside.read_bytes() == content


def test_a_file_that_breaks_while_open_costs_only_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    cache = DocumentCache(path)
    cache.put("m", {f"h{i}": vector(i, 384) for i in range(500)})
    cache.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    cache.get("m", ["h1"], 384)
    cache.put("m", {"new": vector(2, 384)})
    assert cache.get("m", ["new"], 384).keys() == {"new"}
    cache.close()


def test_a_full_disk_degrades_to_memory(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    cache = DocumentCache(path)
    cache.put("m", {"a": vector(1)})
    database = sqlite3.connect(path)
    # what SQLite says when the disk is full: no page may be added any more
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.close()
    handle = cache._open()  # pyright: ignore[reportPrivateUsage]
    assert handle is not None
    handle.execute(f"PRAGMA max_page_count = {pages}")
    big = {f"h{i}": vector(i, 2_000) for i in range(50)}
    cache.put("m", big)
    assert cache.get("m", big, 2_000).keys() == big.keys()
    cache.close()
    again = DocumentCache(path)
    assert again.get("m", ["a"], 4).keys() == {"a"}, "nothing stored was lost"
    assert again.get("m", big, 2_000) == {}, "it was in memory only"
    again.close()


def test_a_place_that_can_be_written_again_gets_what_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    folder = tmp_path / "cache"
    folder.write_text("in the way")
    cache = DocumentCache(folder / "v.db")
    cache.put("m", {"a": vector(1)})
    cache.put_queries("g", "k", ["one"])
    folder.unlink()
    cache.put("m", {"b": vector(2)})
    assert cache.get("m", ["a", "b"], 4).keys() == {"a", "b"}
    cache.close()
    again = DocumentCache(folder / "v.db")
    assert again.get("m", ["a", "b"], 4).keys() == {"a", "b"}
    assert again.get_queries("g", "k") == ["one"]
    again.close()


def test_an_unwritable_place_degrades_to_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DocumentCache(tmp_path / "file" / "v.db")
    cache.put("m", {"a": vector(1)})
    assert cache.get("m", ["a"], 4).keys() == {"a"}


def test_what_stands_in_a_folder_that_may_only_be_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image, or on a disk that is mounted so."""
    path = tmp_path / "a #folder?" / "v.db"
    with closing(DocumentCache(path)) as first:
        first.put("m", {"a": vector(1)})
        first.put_queries("g", "a", ["how?"])
    path.with_name("v.db-shm").mkdir()  # nothing can be written beside it, even by root

    def refused(_path: str, _mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", refused)
    with closing(DocumentCache(path)) as cache:
        assert cache.get("m", ["a", "b"], 4).keys() == {"a"}
        cache.put("m", {"b": vector(2)})
        assert cache.get("m", ["a", "b"], 4).keys() == {"a", "b"}
        assert cache.get_queries("g", "a") == ["how?"]
    with closing(DocumentCache(None)) as cache:
        cache.put("m", {"b": vector(2)})
        cache.keep_in(path)
        assert cache.get("m", ["a", "b"], 4).keys() == {"a", "b"}
    assert not list(path.parent.glob("*corrupt*"))


def test_the_oldest_go_when_the_file_grows_too_large(tmp_path: Path) -> None:
    cache = DocumentCache(tmp_path / "v.db", limit_bytes=200_000)
    for start in range(0, 1_000, 50):
        cache.put("m", {f"h{i}": vector(i, 100) for i in range(start, start + 50)})
    cache.close()
    again = DocumentCache(tmp_path / "v.db")
    assert "h0" not in again.get("m", ["h0"], 100)
    assert "h999" in again.get("m", ["h999"], 100)
    again.close()


def test_without_a_file_those_go_that_were_not_used_for_longest() -> None:
    cache = DocumentCache(None, held_bytes=100_000)
    for i in range(1_000):
        cache.put("m", {f"h{i}": vector(i, 100)})
        assert cache.get("m", ["h0"], 100)
    held = cache.get("m", [f"h{i}" for i in range(1_000)], 100)
    assert 50 < len(held) < 120
    assert {"h0", "h999"} <= held.keys()


def test_without_a_file_generated_queries_have_a_bound_too() -> None:
    cache = DocumentCache(None, held_queries=10)
    for i in range(100):
        cache.put_queries("g", f"k{i}", ["one"])
        assert cache.get_queries("g", "k0") == ["one"], "it was used"
    assert sum(cache.get_queries("g", f"k{i}") is not None for i in range(100)) == 10


def test_generated_queries_are_kept(tmp_path: Path) -> None:
    for path in (tmp_path / "q.db", None):
        cache = DocumentCache(path)
        assert cache.get_queries("g", "k") is None
        cache.put_queries("g", "k", ["one", "two"])
        assert cache.get_queries("g", "k") == ["one", "two"]
        cache.close()
