"""What a search over MCP may carry beside its query: the situation, limits, an explanation; and
what a listing marks for clients that search by themselves.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.principal import Principal
from armory.domain.query import Query, VisibleSet
from armory.domain.results import KnownExplanation, Match, Selection
from armory.gateway.settings import GatewaySettings
from armory.protocol.errors import RpcError
from armory.testing.front import WordRetriever
from tests.unit.gateway.conftest import read

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


async def test_the_situation_reaches_the_retriever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Query] = []
    search = WordRetriever.search

    async def noting(
        self: WordRetriever, query: Query, visible: VisibleSet | None, *, explain: bool = False
    ) -> Selection:
        asked.append(query)
        return await search(self, query, visible, explain=explain)

    monkeypatch.setattr(WordRetriever, "search", noting)
    meta: dict[str, Any] = {"dev.armory/hour": 7, "dev.armory/last_tool": "up__tool1"}
    await bench.call("search_tools", {"query": "number 1"}, meta=meta)
    await bench.tools(bench.context(meta={**meta, "dev.armory/query": "number 1"}))
    assert [(query.hour, query.last_tool) for query in asked] == [(7, "up__tool1")] * 2


async def test_what_stands_beside_a_query_counts_for_a_search_by_the_model(bench: Bench) -> None:
    """A client that only has a URL and headers says there what its searches are to be like."""
    url = {"threshold": ["0.3"], "ranker": ["hybrid"], "top_k": ["2"], "servers": ["up"]}
    headers = {"X-Armory-Threshold": "0.7", "X-Armory-Categories": "a,b"}
    await bench.call("search_tools", {"query": "number"}, url=url, headers=headers)
    asked = bench.retriever.queries[-1]
    assert (asked.threshold, asked.ranker, asked.top_k) == (0.7, "hybrid", 2)
    assert (asked.servers, asked.categories) == ({"up"}, {"a", "b"})
    own = {"query": "number", "top_k": 4, "servers": ["away"]}
    await bench.call("search_tools", own, url=url, meta={"dev.armory/threshold": 0})
    asked = bench.retriever.queries[-1]
    assert (asked.threshold, asked.top_k, asked.servers) == (0.0, 4, {"away"})
    with pytest.raises(RpcError, match="the URL's ranker"):
        await bench.call("search_tools", {"query": "number"}, url={"ranker": ["best"]})


@pytest.mark.parametrize(
    ("name", "arguments", "parameter"),
    [
        ("search_tools", {}, "arguments.query"),
        ("search_tools", {"query": ""}, "arguments.query"),
        ("search_tools", {"query": "number number"}, "arguments.query"),
        ("search_tools", {"query": "number", "top_k": 0}, "arguments.top_k"),
        ("search_tools", 1, "params.arguments"),
        ("call_tool", {}, "arguments.name"),
        ("call_tool", {"name": "up__tool1", "arguments": 1}, "arguments.arguments"),
        ("up__tool1", 1, "params.arguments"),
    ],
)
async def test_an_error_names_the_parameter_as_its_text_does(
    bench: Bench, name: str, arguments: Any, parameter: str
) -> None:
    bench.gateway.reconfigure(settings=GatewaySettings(query_chars=12))
    with pytest.raises(RpcError) as refused:
        await bench.call(name, arguments)
    assert refused.value.data == {"parameter": parameter}


async def test_longer_or_larger_than_configured_is_refused(bench: Bench) -> None:
    limits = GatewaySettings(query_chars=12, query_top_k=3, find_tools=True)
    bench.gateway.reconfigure(settings=limits)
    allowed = await bench.call("search_tools", {"query": "number 1", "top_k": 3})
    assert allowed["structuredContent"]["visible"] == 6
    for arguments, said in (
        ({"query": "number number"}, r"13 characters; server\.limits\.query_chars allows 12"),
        ({"query": ["number", "numbers"]}, "13 characters"),
        ({"query": "number", "top_k": 4}, r"top_k is 4; server\.limits\.query_top_k allows 3"),
    ):
        with pytest.raises(RpcError, match=said):
            await bench.call("search_tools", arguments)
    with pytest.raises(RpcError, match="query_chars"):
        await bench.tools(bench.context(meta={"dev.armory/query": "number number"}))
    asked = bench.context(meta={"dev.armory/query": "number 1"})
    listed = read(await bench.gateway.tool_lists.list(asked, {}))["tools"]
    told = {entry["name"]: entry["inputSchema"]["properties"] for entry in listed}
    for name in ("search_tools", "find_tools"):
        shown = json.dumps(told[name])
        assert '"maxLength": 12' in shown
        assert '"maximum": 3' in shown


async def test_what_a_model_leaves_empty_narrows_nothing(bench: Bench) -> None:
    """The schema allows an empty list, and some models fill in every member."""
    plain = await bench.call("search_tools", {"query": "number 1"})
    filled = {"query": "number 1", "servers": [], "top_k": None}
    assert await bench.call("search_tools", filled) == plain
    with pytest.raises(RpcError, match=r"arguments\.servers is \[\"\"\]"):
        await bench.call("search_tools", {"query": "number 1", "servers": [""]})


async def test_an_explanation_has_every_candidate_and_why_it_is_out(bench: Bench) -> None:
    plain = await bench.call("search_tools", {"query": "number 1", "top_k": 1})
    assert "candidates" not in plain["structuredContent"]
    meta = {"dev.armory/explain": True}
    told = await bench.call("search_tools", {"query": "number 1", "top_k": 1}, meta=meta)
    found = told["structuredContent"]
    assert isinstance(found["candidates"], list)
    assert {"threshold", "refused"} <= found.keys()
    with pytest.raises(RpcError, match="explain"):
        await bench.call("search_tools", {"query": "x"}, meta={"dev.armory/explain": "yes"})


def test_candidates_say_what_became_of_each() -> None:
    from armory.domain.tool import ToolRecord

    tools = [ToolRecord(f"s__{n}", "s", n, {"name": n}, n) for n in "abc"]
    matches = tuple(Match(t, 0.5, 0.5, 1.0, KnownExplanation({"bm25": 0.25}, "why")) for t in tools)
    withheld = {"s__b": "below threshold"}
    selection = Selection(matches[:1], 3, 0.5, ranking=matches, withheld=withheld)
    told = selection.candidates()
    assert [entry["withheld"] for entry in told] == [None, "below threshold", "cap"]
    assert told[0]["signals"] == {"bm25": 0.25}
    assert len(replace(selection).candidates(2)) == 2


async def test_the_last_call_counts_where_the_caller_names_none(bench: Bench) -> None:
    async def last(*, name: str | None = None, **more: Any) -> str | None:
        meta = {"dev.armory/query": "number 1"} | ({"dev.armory/last_tool": name} if name else {})
        await bench.tools(bench.context(meta=meta, **more))
        return bench.retriever.queries[-1].last_tool

    await bench.call("up__tool1", {})
    assert await last() is None  # it is off
    bench.gateway.reconfigure(settings=GatewaySettings(context_boosts=True))
    assert await last() is None
    await bench.call("up__tool1", {})
    await bench.call("call_tool", {"name": "up__tool2", "arguments": {}})
    assert await last() == "up__tool2"
    assert await last(name="up__tool3") == "up__tool3"
    assert await last(principal=Principal("ann", "ann")) is None
    await bench.call("search_tools", {"query": "number 1"})
    assert bench.retriever.queries[-1].last_tool == "up__tool2"
    assert await last(era="legacy") is None  # the session has called nothing yet
    await bench.call("up__tool4", {}, era="legacy")
    assert (await last(era="legacy"), await last()) == ("up__tool4", "up__tool2")


async def test_pinned_tools_are_marked_wherever_they_are_listed(bench: Bench) -> None:
    """For clients that defer tools by themselves, a small catalog listed in full included."""
    bench.gateway.reconfigure(settings=replace(bench.gateway.view.settings, pin=("*tool3",)))

    async def marked(**asked: Any) -> list[str]:
        reply = await bench.gateway.tool_lists.list(bench.context(**asked), {})
        return [tool["name"] for tool in read(reply)["tools"] if "_meta" in tool]

    assert await marked() == ["up__tool3"]
    assert await marked(url={"mode": ["all"]}) == ["up__tool3"]
    assert await marked(url={"servers": ["up"]}) == ["up__tool3"]
    assert await marked(url={"mode": ["search"]}) == ["up__tool3", "search_tools", "call_tool"]
    assert await marked(url={"mode": ["raw"]}) == []
    assert await marked(url={"mode": ["raw"], "servers": ["up"]}) == []
    bench.gateway.reconfigure(settings=replace(bench.gateway.view.settings, pin=()))
    assert await marked() == []
