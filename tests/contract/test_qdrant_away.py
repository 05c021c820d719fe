"""A Qdrant server that fails, hangs, goes away and comes back: over HTTP, by the real client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord, fingerprint
from armory.errors import BackendError
from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.options import QdrantSettings
from armory.retrieval.ports import Row
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.dense import Backoff
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder
from armory.testing.waiting import until
from tests.contract.qdrant_server import QdrantServer
from tests.vectors import unit

pytestmark = pytest.mark.anyio
DIM = 8
ROWS = [Row(f"t{i}", f"d{i}", f"s{i // 10}", "c") for i in range(40)]


VECTORS = {row.key: unit((1, DIM), i) for i, row in enumerate(ROWS)}


@pytest.fixture
async def index(server: QdrantServer) -> AsyncIterator[QdrantIndex]:
    index = QdrantIndex("model", DIM, QdrantSettings(url=server.url), timeout_s=3)
    yield index
    await index.aclose()


async def test_what_filters_look_at_is_indexed(server: QdrantServer, index: QdrantIndex) -> None:
    await index.update(ROWS, VECTORS)
    assert list(server.indexed.values()) == [{"server", "used"}]


@pytest.mark.parametrize(
    ("allowed", "clause", "servers", "ids"),
    [
        (list(range(10, 30)), "should", {"s1", "s2"}, 0),
        ([*range(10, 20), 35], "should", {"s1"}, 1),
        ([i for i in range(40) if i != 7], "must_not", set[str](), 1),
    ],
)
async def test_the_visible_set_is_part_of_the_search(
    server: QdrantServer,
    index: QdrantIndex,
    allowed: list[int],
    clause: str,
    servers: set[str],
    ids: int,
) -> None:
    view = await index.update(ROWS, VECTORS)
    hits = await view.search(unit((1, DIM), 99), 5, np.array(allowed))
    assert len(hits.rows) == 5
    assert set(hits.rows.tolist()) <= set(allowed)
    (sent,) = server.filters
    conditions = getattr(sent, clause)
    named = {name for c in conditions if hasattr(c, "match") for name in c.match.any}
    assert named == servers
    assert sum(len(c.has_id) for c in conditions if hasattr(c, "has_id")) == ids


@pytest.mark.parametrize("fault", [500, 503, 429, 404, "garbage", "hang"])
async def test_a_fault_in_mid_search_is_told_and_passes(
    server: QdrantServer, index: QdrantIndex, fault: int | str
) -> None:
    view = await index.update(ROWS, VECTORS)
    server.fault = fault
    with pytest.raises(BackendError, match=server.url):
        await view.search(unit((1, DIM)), 5)
    server.released.set()
    server.fault = None
    assert len((await view.search(unit((1, DIM)), 5)).rows) == 5


async def test_a_server_that_goes_and_comes_back(server: QdrantServer, index: QdrantIndex) -> None:
    view = await index.update(ROWS, VECTORS)
    server.stop()
    with pytest.raises(BackendError, match=server.url):
        await view.search(unit((1, DIM)), 5)
    with pytest.raises(BackendError, match=server.url):
        await index.update(ROWS[:5], {})
    server.start()
    assert len((await view.search(unit((1, DIM)), 5)).rows) == 5
    assert len(await index.stored(ROWS)) == len(ROWS), "nothing lost"


async def test_a_refused_key_is_told(server: QdrantServer) -> None:
    server.api_key = "right"
    wrong = QdrantIndex("model", DIM, QdrantSettings(url=server.url, api_key="wrong"))
    with pytest.raises(BackendError, match=r"401.*tool_rag\.qdrant\.api_key"):
        await wrong.stored(ROWS)
    await wrong.aclose()
    right = QdrantIndex("model", DIM, QdrantSettings(url=server.url, api_key="right"))
    assert await right.stored(ROWS) == {}
    await right.aclose()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that takes no time."""
    monkeypatch.setattr("armory.retrieval.search.recovery.BACKOFF_S", (0.02,))
    for name, seconds in (("PROBE_S", 0.05), ("IDLE_S", 0.05), ("SLOW_S", 0.5)):
        monkeypatch.setattr(f"armory.retrieval.search.watch.{name}", seconds)


def tools() -> list[ToolRecord]:
    def tool(name: str, description: str) -> ToolRecord:
        definition = {"name": name, "description": description, "inputSchema": {"type": "object"}}
        return ToolRecord(
            f"srv__{name}", "srv", name, definition, fingerprint(definition), description
        )

    return [
        tool("send_email", "Send an email message to somebody"),
        tool("get_time", "Tell the current time of a city"),
        tool("read_file", "Read the contents of a file"),
    ]


def retriever(server: QdrantServer) -> Retriever:
    model = HashingEmbedder()
    index = QdrantIndex(
        model.identity, model.dimension, QdrantSettings(url=server.url), timeout_s=30
    )
    return Retriever(model, index, make_rankers())


async def names(retriever: Retriever) -> tuple[list[str], str]:
    found = await retriever.search(Query(("send an email",)))
    return [match.tool.name for match in found.matches], found.degraded or ""


async def test_words_answer_while_the_server_is_away(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.search.dense.BACKOFF_S", (0.0,))
    async with retriever(server) as one:
        await one.index(tools())
        assert (await names(one))[1] == ""
        server.stop()
        found, degraded = await names(one)
        assert found[:1] == ["srv__send_email"]
        assert degraded == (
            "lexical only: the vector store failed; administrators see why in `armory status`"
        )
        server.start()
        found, degraded = await names(one)
        assert (found[:1], degraded) == (["srv__send_email"], "")


async def test_a_server_that_is_away_at_start_is_used_once_it_is_there(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.search.recovery.BACKOFF_S", (0.02,))
    server.stop()
    async with retriever(server) as one:
        report = await one.index(tools())
        assert report.problem.why.startswith(f"Qdrant at {server.url} does not answer")
        found, degraded = await names(one)
        assert found[:1] == ["srv__send_email"]
        assert "the vector store failed" in degraded
        assert server.url in (one.degraded or "")
        server.start()
        await until(lambda: one.degraded is None)
        assert (await names(one))[1] == ""


async def test_a_stall_is_told_and_cuts_the_searches_that_wait_for_it(
    server: QdrantServer, watched: None
) -> None:
    model = HashingEmbedder()
    index = QdrantIndex(
        model.identity, model.dimension, QdrantSettings(url=server.url), timeout_s=30
    )
    settings = RetrieverSettings(dense_timeout_s=30)
    async with Retriever(model, index, make_rankers(), settings) as one:
        await one.index(tools())
        server.fault = "hang"
        async with asyncio.timeout(10):
            found = await asyncio.gather(*(names(one) for _ in range(16)))
        assert {why for _, why in found} == {
            "lexical only: the vector store does not answer within 0.5 s"
        }
        server.fault = None
        server.released.set()
        await until(lambda: one.degraded is None)
        assert (await names(one))[1] == "", "the searches that were cut do not count"


async def test_a_server_that_is_away_from_the_start_is_told_as_well(
    server: QdrantServer, watched: None
) -> None:
    server.stop()
    async with retriever(server) as one:
        await one.index(tools())
        assert one.store_there is False
        server.start()
        await until(lambda: one.degraded is None)
        assert one.store_there


async def test_a_dead_server_is_told_before_anybody_searches(
    server: QdrantServer, watched: None
) -> None:
    async with retriever(server) as one:
        await one.index(tools())
        assert one.store_there
        server.stop()
        await until(lambda: one.degraded is not None)
        assert f"Qdrant at {server.url} does not answer" in (one.degraded or "")
        assert one.store_there is False
        server.start()
        await until(lambda: one.degraded is None)
        assert one.store_there


async def test_a_server_that_was_emptied_is_filled_before_anybody_searches(
    server: QdrantServer, watched: None
) -> None:
    async with retriever(server) as one:
        await one.index(tools())
        before = len(server.sizes)
        server.forget()
        await until(lambda: any(path.endswith("/points") and verb == "PUT" for verb, path, _ in
                                server.sizes[before:]))  # fmt: skip


def test_failures_at_the_same_time_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("armory.retrieval.search.dense.time.monotonic", lambda: now[0])
    backoff = Backoff()
    for began in (95.0, 95.1, 99.9):  # a stall of five seconds under many searches
        backoff.failed(TimeoutError(), 5.0, began)
        now[0] += 0.1
    assert backoff.waiting
    assert not backoff.lost
    now[0] = 101.1
    assert not backoff.waiting
    backoff.failed(TimeoutError(), 5.0, 101.05)
    now[0] = 103.0
    assert backoff.waiting, "the second failure counts, and lasts longer"


async def test_a_server_that_comes_back_empty_is_filled_again(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.search.recovery.BACKOFF_S", (0.02,))
    monkeypatch.setattr("armory.retrieval.search.dense.BACKOFF_S", (0.0,))
    monkeypatch.setattr("armory.retrieval.search.watch.PROBE_S", 600.0)  # searches see it first
    async with retriever(server) as one:
        await one.index(tools())
        server.forget()
        for _ in range(3):
            assert "the vector store failed" in (await names(one))[1]
        async with asyncio.timeout(20):
            while (await names(one))[1]:
                pass
        assert (await names(one))[0][:1] == ["srv__send_email"]
