"""Several gateways on one Qdrant collection: none takes anything from another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord, fingerprint
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.indexes.qdrant_points import COMPONENTS
from armory.retrieval.indexes.qdrant_view import QdrantView
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.options import Limits, QdrantSettings
from armory.retrieval.ports import FloatArray, Row, VectorIndex
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder
from tests.contract.qdrant_server import QdrantServer
from tests.vectors import unit

pytestmark = pytest.mark.anyio
DIM = 8
VERBS = ("create", "delete", "list", "update")
THINGS = ("invoice", "ticket", "calendar event", "branch", "playlist", "contact")
QUERIES = [f"{VERBS[0]} my {thing}s of last week" for thing in THINGS]
SETTINGS = RetrieverSettings(limits=Limits(threshold=0.0, max_tools=10))


def tools(server: str, about: str = "") -> list[ToolRecord]:
    """24 tools of one server; `about` makes other descriptions of the same names."""
    found: list[ToolRecord] = []
    for verb in VERBS:
        for thing in THINGS:
            name = f"{verb}_{thing.replace(' ', '_')}"
            text = f"{verb} a {thing} in {server} {about}".strip()
            definition = {"name": name, "description": text, "inputSchema": {"type": "object"}}
            record = ToolRecord(
                f"{server}__{name}", server, name, definition, fingerprint(definition), text
            )
            found.append(record)
    return found


def retriever(index: VectorIndex) -> Retriever:
    return Retriever(HashingEmbedder(), index, make_rankers(), SETTINGS)


def shared(server: QdrantServer) -> Retriever:
    model = HashingEmbedder()
    return retriever(QdrantIndex(model.identity, model.dimension, QdrantSettings(url=server.url)))


def shown(found: Selection) -> tuple[list[str], list[float]]:
    return [match.tool.name for match in found.matches], [match.score for match in found.matches]


async def compare(
    one: Retriever, catalog: Sequence[ToolRecord], visible: VisibleSet | None
) -> None:
    """Every answer is that of the same catalog alone, nothing degraded."""
    async with retriever(ExactIndex()) as alone:
        await alone.index(catalog)
        for text in QUERIES:
            found = await one.search(Query((text,)), visible)
            assert found.degraded is None
            names, scores = shown(found)
            expected, wanted = shown(await alone.search(Query((text,)), visible))
            # tools that differ in their server's name only may change places, with what hangs on it
            assert names[0] == expected[0]
            assert scores == pytest.approx(wanted, abs=0.05)


async def test_gateways_of_other_catalogs_answer_as_if_alone(server: QdrantServer) -> None:
    """One has all, one a server less, one other tools, one the same names described otherwise."""
    all_of_them = [*tools("crm"), *tools("git"), *tools("mail")]
    catalogs = [
        all_of_them,
        tools("crm"),
        [*tools("shop"), *tools("music")],
        [*tools("crm", "for the staging system"), *tools("git")],
    ]
    async with AsyncExitStack() as stack:
        gateways = [await stack.enter_async_context(shared(server)) for _ in catalogs]
        await asyncio.gather(*(g.index(c) for g, c in zip(gateways, catalogs, strict=True)))
        # one upstream goes away and comes back
        await gateways[0].index(all_of_them[:48])
        await gateways[0].index(all_of_them)
        some = frozenset(tool.name for tool in all_of_them[10:50])
        for gateway, catalog in zip(gateways, catalogs, strict=True):
            await compare(gateway, catalog, None)
        await compare(gateways[0], all_of_them, VisibleSet(some))


async def test_what_another_gateway_wrote_is_not_embedded_again(server: QdrantServer) -> None:
    async with shared(server) as first, shared(server) as second:
        assert (await first.index(tools("crm"))).embedded > 0
        renamed = [*tools("crm")[5:], *tools("git")[:1]]
        assert (await second.index(renamed)).embedded == 1


@pytest.mark.parametrize("others", [40, 300])
async def test_points_of_others_crowd_nobody_out(server: QdrantServer, others: int) -> None:
    """The best of a catalog while others write beside it, near its queries and before them."""
    rows = [Row(f"t{i}", f"own-{i}", f"s{i % 4}") for i in range(60)]
    vectors = {row.key: unit((1 + i % 2, DIM), i) for i, row in enumerate(rows)}
    queries = unit((2, DIM), 1_000)
    foreign = [Row(f"t{i}", f"other-{i}", f"s{i % 5}") for i in range(others)]
    near = {r.key: np.roll(queries[i % 2 : i % 2 + 1], i % 3) for i, r in enumerate(foreign)}
    allowed = np.array([i for i in range(60) if i % 4 and i != 30])
    alone, own = ExactIndex(), QdrantIndex("model", DIM, QdrantSettings(url=server.url))
    other = QdrantIndex("model", DIM, QdrantSettings(url=server.url))
    truth = await alone.update(rows, vectors)
    views = [await own.update(rows, vectors)]
    await other.update(foreign, near)
    views.append(await own.update(rows, {}))
    for view in views:
        for inside in (None, allowed):
            expected = await truth.search(queries, 60, inside)
            hits = await view.search(queries, 7, inside, np.array([5, 6]))
            assert {5, 6} <= set(hits.rows.tolist())
            for found, whole in zip(hits.cosine, expected.cosine, strict=True):
                best = hits.rows[np.argsort(-found)[:7]]
                assert best.tolist() == expected.rows[np.argsort(-whole)[:7]].tolist()
            places = np.searchsorted(expected.rows, hits.rows)
            np.testing.assert_allclose(hits.cosine, expected.cosine[:, places], atol=2e-6)
            if inside is None:
                np.testing.assert_allclose(hits.mean, expected.mean, atol=1e-5)
            assert hits.lost == 0
    for index in (own, other):
        await index.aclose()


async def test_points_of_others_add_no_candidates(server: QdrantServer) -> None:
    """They are far from the query: asking for more because of them finds more of one's own."""
    rows = [Row(f"t{i}", f"own-{i}", "s") for i in range(60)]
    vectors = {row.key: unit((1, DIM), i) for i, row in enumerate(rows)}
    query = unit((1, DIM), 1_000)
    foreign = [Row(f"t{i}", f"other-{i}", "s") for i in range(60)]
    own, other = (QdrantIndex("model", DIM, QdrantSettings(url=server.url)) for _ in range(2))
    alone = await (await own.update(rows, vectors)).search(query, 7)
    await other.update(foreign, {row.key: -query for row in foreign})
    beside = await (await own.update(rows, {})).search(query, 7)
    assert beside.rows.tolist() == alone.rows.tolist()
    assert len(alone.rows) == 7
    for index in (own, other):
        await index.aclose()


@pytest.mark.parametrize("far", [False, True])
async def test_many_single_tools_are_not_named_one_by_one(server: QdrantServer, far: bool) -> None:
    """Every second tool is visible, of all or of those that are far from the query."""
    rows = [Row(f"t{i}", f"d{i}", f"s{i % 3}") for i in range(400)]
    vectors = {row.key: unit((1, DIM), i) for i, row in enumerate(rows)}
    query = unit((1, DIM), 1_000)
    alone, own = ExactIndex(), QdrantIndex("model", DIM, QdrantSettings(url=server.url))
    truth = await alone.update(rows, vectors)
    view = await own.update(rows, vectors)
    everything = await truth.search(query, 400)
    order = np.argsort(everything.cosine[0], kind="stable")
    allowed = np.sort(order[:200] if far else order[::2])
    before = len(server.sizes)
    hits = await view.search(query, 20, allowed)
    expected = everything.cosine[0, allowed]
    assert hits.rows.tolist() == np.sort(allowed[np.argsort(-expected)[:20]]).tolist()
    requests = [size for _, _, size in server.sizes[before:]]
    assert len(requests) == 1 + far
    assert requests[0] < 1_000
    await own.aclose()


async def test_a_lost_point_costs_no_tool_and_is_told_and_mended(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.search.recovery.BACKOFF_S", (0.02,))
    query = Query((QUERIES[0],), top_k=24)
    async with shared(server) as one:
        await one.index(tools("crm"))
        names, _ = shown(whole := await one.search(query))
        server.lose(2)
        found = await one.search(query)
        assert sorted(shown(found)[0]) == sorted(names)
        assert "has lost the vectors of 2 tools" in (found.degraded or "")
        async with asyncio.timeout(20):
            while (found := await one.search(query)).degraded:
                pass
        assert shown(found) == shown(whole)


async def test_gateways_that_start_at_once_make_one_collection(server: QdrantServer) -> None:
    gateways = [QdrantIndex("model", DIM, QdrantSettings(url=server.url)) for _ in range(4)]
    rows = [Row("a", "1", "s")]
    await asyncio.gather(*(gateway.stored(rows) for gateway in gateways))
    assert len([name for name in server.collections() if "registry" not in name]) == 1
    for gateway in gateways:
        await gateway.aclose()


async def test_large_vectors_are_written_in_requests_that_a_server_takes(
    server: QdrantServer,
) -> None:
    dimension, each = 512, 40
    rng = np.random.default_rng(0)
    rows = [Row(f"t{i}", f"d{i}", "s") for i in range(21)]
    vectors: dict[str, FloatArray] = {
        row.key: rng.normal(size=(each, dimension)).astype(np.float32) for row in rows
    }
    index = QdrantIndex("model", dimension, QdrantSettings(url=server.url))
    await index.update(rows, vectors)
    assert len(await index.stored(rows)) == 21
    own = f"{index.collection}/points"
    written = [size for verb, path, size in server.sizes if verb == "PUT" and path.endswith(own)]
    assert len(written) == 2
    assert max(written) < 21 * COMPONENTS < 32 << 20
    await index.aclose()


async def test_one_changed_tool_writes_one_point_and_reads_no_vectors(
    server: QdrantServer,
) -> None:
    catalog = [*tools("crm"), *tools("git")]
    async with shared(server) as one:
        await one.index(catalog)
        before = len(server.sizes)
        await one.index([*catalog[1:], *tools("mail")[:1]])
        assert sum(size for _, _, size in server.sizes[before:]) < 6_000
        assert not [path for _, path, _ in server.sizes[before:] if path.endswith("/scroll")]


async def test_asking_whether_it_is_there_forgets_nothing(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row(f"t{i}", f"d{i}", "s") for i in range(50)]
    vectors = {row.key: unit((1, DIM), i) for i, row in enumerate(rows)}
    index = QdrantIndex("model", DIM, QdrantSettings(url=server.url))
    await index.update(rows, vectors)
    monkeypatch.delattr("armory.retrieval.indexes.qdrant_catalog.point_id")  # no id is made again
    await index.stored(())
    assert len(await index.stored(rows)) == 50
    await index.update(rows[5:], {})
    await index.aclose()


async def test_the_sample_that_stands_for_all_is_kept_up_by_what_changed(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.retrieval.indexes.background.SAMPLE", 20)
    chance = random.Random(4)
    vectors = {f"d{i}": unit((1 + i % 3, DIM), i) for i in range(120)}
    rows = [Row(f"t{i}", f"d{i}", "s") for i in range(50)]
    index = QdrantIndex("model", DIM, QdrantSettings(url=server.url))
    view = await index.update(rows, {row.key: vectors[row.digest] for row in rows})
    for turn in range(8):
        for i in chance.sample(range(len(rows)), k=chance.choice([1, 5])):
            rows[i] = Row(rows[i].key, f"d{chance.randrange(120)}", "s")
        if turn % 3 == 2:
            del rows[chance.randrange(len(rows))]
        stored = await index.stored(rows)
        new = {row.key: vectors[row.digest] for row in rows if row.key not in stored}
        view = await index.update(rows, new)
        assert isinstance(view, QdrantView)
        sample = view._background  # pyright: ignore[reportPrivateUsage]
        assert len(sample.rows) == 20
        for place, row in enumerate(sample.rows.tolist()):
            rounded = Compact.of([vectors[rows[row].digest]], DIM)
            np.testing.assert_array_equal(sample.vectors.group(place), rounded.group(0))
    await index.aclose()


async def test_a_restart_reads_no_vectors_that_are_at_hand(
    server: QdrantServer, tmp_path: Path
) -> None:
    """The sample that stands for all tools comes from the cache, and from the server else."""

    async def started(cache: Path) -> tuple[list[tuple[str, str, int]], Selection]:
        model = HashingEmbedder()
        index = QdrantIndex(model.identity, model.dimension, QdrantSettings(url=server.url))
        indexing = Indexing(cache=DocumentCache(cache))
        async with Retriever(model, index, make_rankers(), SETTINGS, indexing=indexing) as one:
            before = len(server.sizes)
            await one.index([*tools("crm"), *tools("git")])
            asked = server.sizes[before:]
            return asked, await one.search(Query((QUERIES[0],)))

    _, first = await started(tmp_path / "vectors.db")
    before = server.vectors_sent
    again, second = await started(tmp_path / "vectors.db")
    assert server.vectors_sent == before
    assert not [path for verb, path, _ in again if verb == "PUT" and "registry" not in path
                and path.endswith("/points")], "nothing is written again"  # fmt: skip
    _, elsewhere = await started(tmp_path / "another.db")
    assert server.vectors_sent == before + 48
    assert shown(first) == shown(second) == shown(elsewhere)
