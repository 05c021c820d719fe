"""An index that returns the best only gives the lists of one that scores every tool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord, fingerprint
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.qdrant import QdrantIndex
from armory.retrieval.names import RANKERS
from armory.retrieval.options import Limits, QdrantSettings
from armory.retrieval.ports import VectorIndex
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder
from tests.contract.qdrant_server import QdrantServer

pytestmark = pytest.mark.anyio
VERBS = [
    "create",
    "delete",
    "list",
    "update",
    "archive",
    "share",
    "rename",
    "export",
    "import",
    "search",
]
THINGS = [
    "invoice",
    "ticket",
    "event",
    "branch",
    "playlist",
    "contact",
    "file",
    "page",
    "order",
    "message",
]
PLACES = ["crm", "git", "mail", "shop", "music", "wiki", "drive", "calendar"]
QUERIES = [
    "delete my invoices of last week and share a playlist",
    "search messages in the wiki",
    "rename a branch",
    "what is the weather",
]
SETTINGS = RetrieverSettings(limits=Limits(threshold=0.0, max_tools=10), dense_timeout_s=60.0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the store may take long: nothing takes it for away meanwhile."""
    monkeypatch.setattr("armory.retrieval.search.watch.PROBE_S", 3_600.0)


def catalog() -> list[ToolRecord]:
    """576 tools."""
    found: list[ToolRecord] = []
    for place in PLACES:
        for verb in VERBS:
            for thing in THINGS:
                name, text = f"{verb}_{thing}", f"{verb} a {thing} of {place}'s {thing}s"
                definition = {"name": name, "description": text, "inputSchema": {"type": "object"}}
                record = ToolRecord(
                    f"{place}__{name}", place, name, definition, fingerprint(definition), text
                )
                found.append(record)
    return found


def retriever(index: VectorIndex) -> Retriever:
    return Retriever(HashingEmbedder(), index, make_rankers(), SETTINGS)


async def test_every_ranker_gives_the_scores_of_exact(server: QdrantServer) -> None:
    model, tools = HashingEmbedder(), catalog()
    store = QdrantIndex(
        model.identity, model.dimension, QdrantSettings(url=server.url), timeout_s=60
    )
    some = VisibleSet(frozenset(tool.name for tool in tools[100:500]))
    async with retriever(store) as one, retriever(ExactIndex()) as alone:
        await one.index(tools)
        await alone.index(tools)
        for ranker in RANKERS:
            for text, visible in zip(QUERIES, (None, some, None, some), strict=True):
                query = Query((text,), ranker=ranker)
                found = await one.search(query, visible)
                expected = await alone.search(query, visible)
                assert found.degraded is None
                for what in ("score", "raw_score"):
                    given = [getattr(match, what) for match in found.matches]
                    wanted = [getattr(match, what) for match in expected.matches]
                    assert given == pytest.approx(wanted, abs=2e-3), (ranker, text)


async def test_however_few_the_store_returns(server: QdrantServer) -> None:
    """A tool may be among the best by meaning and words together, and by neither alone."""
    model, tools = HashingEmbedder(), catalog()
    store = QdrantIndex(
        model.identity, model.dimension, QdrantSettings(url=server.url), timeout_s=60
    )
    some = VisibleSet(frozenset(tool.name for tool in tools[100:500]))
    few = replace(SETTINGS, candidates=10)
    async with Retriever(model, store, make_rankers(), few) as one, retriever(ExactIndex()) as all_:
        await one.index(tools)
        await all_.index(tools)
        for ranker in RANKERS:
            for text, visible in zip(QUERIES, (None, some, None, some), strict=True):
                query = Query((text,), ranker=ranker)
                found = await one.rank(query, visible)
                wanted = await all_.rank(query, visible)
                assert found.features.visible == wanted.features.visible
                known = {found.record(i).name: float(s) for i, s in enumerate(found.scores.score)}
                for place in wanted.order[:30].tolist():
                    score = float(wanted.scores.score[place])
                    name = wanted.record(place).name
                    assert known.get(name) == pytest.approx(score, abs=5e-3), (ranker, text)
