"""What a ranker is told of the candidates' servers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.tool import ToolRecord
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.faiss import FaissIndex
from armory.retrieval.ports import VectorIndex
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder
from tests.unit.retrieval.conftest import MakeTool, Plain

pytestmark = pytest.mark.anyio


async def servers(
    tools: Sequence[ToolRecord],
    *,
    index: VectorIndex | None = None,
    visible: VisibleSet | None = None,
) -> dict[str, int] | None:
    """The number of each candidate's server, by its name."""
    rankers: dict[str, Ranker] = {
        "relevance": Plain(),
        "lexical": Plain("lexical", needs_vectors=False),
    }
    settings = RetrieverSettings(candidates=2)
    async with Retriever(HashingEmbedder(), index or ExactIndex(), rankers, settings) as retriever:
        await retriever.index(tools)
        found = (await retriever.rank(Query(("send an email",)), visible)).features
    if found.servers is None:
        return None
    names = [record.name for record in found.records]
    return dict(zip(names, found.servers.tolist(), strict=True))


async def test_tools_of_a_server_have_its_number(tools: list[ToolRecord]) -> None:
    found = await servers(tools)
    assert found is not None
    assert found["clock__get_time"] == found["clock__convert_time"]
    assert found["files__read_file"] == found["files__write_file"]
    assert len(set(found.values())) == 3


async def test_so_have_those_that_may_be_seen(tools: list[ToolRecord]) -> None:
    some = frozenset(["clock__get_time", "files__read_file", "files__write_file"])
    found = await servers(tools, visible=VisibleSet(some))
    assert found is not None
    assert found.keys() == some
    assert found["files__read_file"] == found["files__write_file"] != found["clock__get_time"]


async def test_a_tool_of_no_server_stands_alone(
    make_tool: MakeTool, tools: list[ToolRecord]
) -> None:
    bare = [make_tool("send", "Send an email", ""), make_tool("draft", "Write an email", "")]
    found = await servers([*tools, *bare])
    assert found is not None
    assert len(set(found.values())) == 5
    assert await servers(bare) is None


async def test_an_index_that_knows_something_of_every_tool_tells_of_their_servers(
    tools: list[ToolRecord],
) -> None:
    pytest.importorskip("faiss")
    assert await servers(tools, index=FaissIndex()) == await servers(tools)


async def test_nothing_is_told_where_not_every_tool_is_a_candidate(
    make_tool: MakeTool, tools: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr("armory.retrieval.indexes.background.SAMPLE", 20)
    more = [make_tool(f"t{i}", f"Invoice number {i}", "office") for i in range(40)]
    assert await servers([*tools, *more], index=FaissIndex()) is None
