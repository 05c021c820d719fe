"""The cache of query vectors, and what goes wrong with shared stores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from armory.errors import BackendError
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.ports import FloatArray, Passage
from armory.testing.embedder import HashingEmbedder


class Store:
    """A shared store as the cache sees it."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.failure: Exception | None = None

    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        if self.failure:
            raise self.failure
        return [self.values.get(key) for key in keys]

    async def set_many(self, values: Mapping[str, bytes], ttl_s: float) -> None:
        if self.failure:
            raise self.failure
        self.values.update(values)


@pytest.mark.anyio
async def test_query_vectors_are_shared_between_processes() -> None:
    store = Store()
    one, two = HashingEmbedder(), HashingEmbedder()
    first = CachedEmbedder(one, store=store)
    second = CachedEmbedder(two, store=store)
    a = await first.embed_queries(["x", "y", "x"])
    b = await second.embed_queries(["y", "x"])
    np.testing.assert_allclose(a[:2], b[::-1], atol=1e-6)
    assert (one.queries, two.queries) == (2, 0)
    store.failure = BackendError("Redis is away")
    third = CachedEmbedder(two, store=store)
    assert (await third.embed_queries(["z"])).shape == (1, 64)


class Hanging(Store):
    """A store that takes what it is asked, and never answers."""

    def __init__(self, *, reads: bool) -> None:
        super().__init__()
        self.reads = reads
        self.asked: list[str] = []
        self.written = asyncio.Event()

    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        self.asked += keys
        if not self.reads:
            await asyncio.Event().wait()
        return await super().get_many(keys)

    async def set_many(self, values: Mapping[str, bytes], ttl_s: float) -> None:
        self.written.set()
        await asyncio.Event().wait()


@pytest.mark.anyio
async def test_a_store_that_hangs_is_waited_for_once_and_not_long() -> None:
    store = Hanging(reads=False)
    cached = CachedEmbedder(HashingEmbedder(), store=store)
    for text in ("x", "y"):
        assert (await asyncio.wait_for(cached.embed_queries([text]), 30)).shape == (1, 64)
    assert len(store.asked) == 1
    assert not store.written.is_set()
    await asyncio.wait_for(cached.aclose(), 30)


@pytest.mark.anyio
async def test_nobody_waits_for_a_vector_to_be_shared() -> None:
    store = Hanging(reads=True)
    cached = CachedEmbedder(HashingEmbedder(), store=store)
    assert (await asyncio.wait_for(cached.embed_queries(["x"]), 30)).shape == (1, 64)
    await asyncio.wait_for(store.written.wait(), 30)
    await asyncio.wait_for(cached.aclose(), 30)


@pytest.mark.anyio
@pytest.mark.parametrize("poison", [b"", b"short", np.full(64, np.nan, "<f4").tobytes()])
async def test_rubbish_in_the_shared_store_is_ignored(poison: bytes) -> None:
    store = Store()
    inner = HashingEmbedder()
    await CachedEmbedder(inner, store=store).embed_queries(["x"])
    store.values = dict.fromkeys(store.values, poison)
    found = await CachedEmbedder(inner, store=store).embed_queries(["x"])
    assert np.isfinite(found).all()
    assert inner.queries == 2


@pytest.mark.anyio
async def test_a_failure_is_not_cached_and_reaches_everybody() -> None:
    inner = HashingEmbedder()
    cached = CachedEmbedder(inner)
    inner.failure = BackendError("down")
    results = await asyncio.gather(
        *(cached.embed_queries(["x"]) for _ in range(3)), return_exceptions=True
    )
    assert [str(r) for r in results] == ["down"] * 3
    inner.failure = None
    assert (await cached.embed_queries(["x"])).shape == (1, 64)


@pytest.mark.anyio
async def test_a_caller_who_leaves_does_not_take_the_others_vector_along() -> None:
    entered, opened = asyncio.Event(), asyncio.Event()

    class Gate(HashingEmbedder):
        async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
            entered.set()
            await opened.wait()
            return await super().embed_queries(texts)

    cached = CachedEmbedder(Gate())
    leaving = asyncio.create_task(cached.embed_queries(["x"]))
    await asyncio.wait_for(entered.wait(), 30)
    staying = asyncio.create_task(cached.embed_queries(["x"]))
    leaving.cancel()
    opened.set()
    assert (await asyncio.wait_for(staying, 30)).shape == (1, 64)
    assert leaving.cancelled()


@pytest.mark.anyio
async def test_the_cache_is_bounded() -> None:
    inner = HashingEmbedder()
    cached = CachedEmbedder(inner, size=2)
    for text in ("a", "b", "c", "a"):
        await cached.embed_queries([text])
    assert inner.queries == 4
    none = CachedEmbedder(HashingEmbedder(), size=0)
    await none.embed_queries(["a"])
    await none.embed_queries(["a"])
    assert none.inner.queries == 2  # type: ignore[attr-defined]


class Reader(HashingEmbedder):
    """Reads a text once for all of its clauses, and counts how often."""

    readings = 0

    async def embed_clauses(self, text: str, spans: Sequence[tuple[int, int]]) -> FloatArray:
        self.readings += 1
        return self._embed([text, *(text[slice(*span)] for span in spans)])


@pytest.mark.anyio
async def test_a_query_is_read_once_for_all_of_its_clauses() -> None:
    text = "find a hotel and book a flight"
    passages = [Passage(text), Passage(text, (0, 12)), Passage(text, (17, 30))]
    inner, store = Reader(), Store()
    cached = CachedEmbedder(inner, store=store)
    found = await cached.embed_passages(passages)
    expected = await HashingEmbedder().embed_queries([text, "find a hotel", "book a flight"])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(await cached.embed_passages(passages[::-1]), expected[::-1])
    np.testing.assert_allclose(await cached.embed_queries([text]), expected[:1])
    assert (inner.readings, inner.queries) == (1, 0)
    # A clause by itself is another vector than the clause in its query.
    await cached.embed_queries(["find a hotel"])
    assert inner.queries == 1
    other = Reader()
    np.testing.assert_allclose(
        await CachedEmbedder(other, store=store).embed_passages(passages), expected, atol=1e-6
    )
    assert other.readings == 0


@pytest.mark.anyio
async def test_clauses_are_embedded_by_themselves_where_the_model_cannot_read_them() -> None:
    text = "find a hotel and book a flight"
    inner = HashingEmbedder()
    found = await CachedEmbedder(inner).embed_passages([Passage(text), Passage(text, (0, 12))])
    expected = await HashingEmbedder().embed_queries([text, "find a hotel"])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert inner.queries == 2
    assert (await CachedEmbedder(inner).embed_passages([])).shape == (0, 64)
