"""What tools/list shows: modes, limits, pins, budget, meta-tools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.query import Query, VisibleSet
from armory.domain.results import Selection
from armory.gateway.gateway import Gateway
from armory.gateway.lists.entries import list_entries
from armory.gateway.metatools.definitions import MAX_DESCRIPTION
from armory.gateway.settings import GatewaySettings, SetSpec
from armory.gateway.views.definitions import Form
from armory.gateway.views.view import View
from armory.protocol.errors import RpcError
from armory.security.policy import Policy, Rule
from armory.testing.front import raws, tool
from tests.unit.gateway.conftest import read

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
ALL = [f"up__tool{i}" for i in range(6)]
META = ["search_tools", "call_tool"]


def configure(bench: Bench, **changes: Any) -> None:
    bench.gateway.reconfigure(settings=replace(bench.gateway.view.settings, **changes))


async def test_auto_lists_all_up_to_the_limit(bench: Bench) -> None:
    for limit in (64, 6):
        configure(bench, full_list_limit=limit)
        assert await bench.tools(bench.context()) == ALL
    configure(bench, full_list_limit=5)
    assert await bench.tools(bench.context()) == META
    configure(bench, pin=("*3",), server_pins={"up": ("tool1",)})
    assert await bench.tools(bench.context()) == ["up__tool1", "up__tool3", *META]
    configure(bench, call_tool=False)
    assert await bench.tools(bench.context()) == ["up__tool1", "up__tool3", "search_tools"]
    configure(bench, search_tools=False, find_tools=True)
    assert await bench.tools(bench.context()) == ["up__tool1", "up__tool3", "find_tools"]
    configure(bench, find_tools=False)
    assert await bench.tools(bench.context()) == ALL
    configure(bench, call_tool=True)  # nothing would say what it could call
    assert await bench.tools(bench.context()) == ALL


async def test_without_query_and_modes(bench: Bench) -> None:
    configure(bench, without_query="search")
    assert await bench.tools(bench.context()) == META
    assert await bench.tools(bench.context(url={"mode": ["all"]})) == ALL
    configure(bench, without_query="all")
    assert await bench.tools(bench.context(headers={"X-Armory-Mode": "search"})) == META
    raw = bench.context(url={"mode": ["raw"], "query": ["2"]})
    assert await bench.tools(raw) == ALL
    assert bench.retriever.queries == []


async def test_a_query_chooses_in_catalog_order(bench: Bench) -> None:
    asked = bench.context(meta={"dev.armory/query": ["number 4", "number 1"]})
    assert await bench.tools(asked) == [*ALL, "search_tools"]
    asked = bench.context(meta={"dev.armory/query": ["4", "1"]})
    assert await bench.tools(asked) == ["up__tool1", "up__tool4", *META]
    configure(bench, pin=("*tool5",), tool_rag=True)
    assert await bench.tools(asked) == ["up__tool1", "up__tool4", "up__tool5", *META]
    configure(bench, tool_rag=False)
    assert await bench.tools(asked) == ALL


async def test_a_pinned_tool_is_not_listed_for_who_asks_for_others(bench: Bench) -> None:
    configure(bench, pin=("*tool5",), tool_rag=True, experimental=frozenset({"filter"}))
    query: dict[str, Any] = {"dev.armory/query": "1"}
    for meta, params in (
        ({"dev.armory/servers": ["away"]}, {}),
        ({"dev.armory/categories": ["none"]}, {}),
        ({}, {"filter": {"namePatterns": ["up__tool1"]}}),
    ):
        for asked in (query | meta, meta):
            assert "up__tool5" not in await bench.tools(bench.context(meta=asked), params)
    for meta in (query, query | {"dev.armory/servers": ["up"]}):
        assert "up__tool5" in await bench.tools(bench.context(meta=meta))


async def test_the_token_budget(bench: Bench) -> None:
    size = len(bench.gateway.view.listed.tool("up__tool0", Form("modern", load=True)))
    configure(bench, token_budget=-(-2 * size // 4), pin=("*tool0",))
    asked = bench.context(meta={"dev.armory/query": ["tool"]})
    assert await bench.tools(asked) == ["up__tool0", "up__tool1", *META]


async def test_the_meta_tools_come_on_top_of_the_token_budget(bench: Bench) -> None:
    """As docs/retrieval.md says: what they take at most does not depend on the query."""
    size = len(bench.gateway.view.listed.tool("up__tool0", Form("modern", load=True)))
    configure(bench, token_budget=-(-size // 4))
    context = bench.context(meta={"dev.armory/query": ["tool"]})
    listed = read(await bench.gateway.tool_lists.list(context, {}))["tools"]
    assert [entry["name"] for entry in listed] == ["up__tool0", *META]
    longest = MAX_DESCRIPTION - len(listed[1]["description"])
    assert len(msgspec.json.encode(listed[1:])) + longest <= 720 * 4


async def test_what_does_not_fit_the_token_budget_is_passed_over(bench: Bench) -> None:
    bench.pool.upstreams["up"].lists = ServerLists(
        tools=[tool("first", "a tool " * 100), tool("second", "a tool")]
    )
    catalog = bench.pool.catalog()
    await bench.retriever.index(list(catalog.tools.values()))
    bench.gateway.publish(catalog)
    configure(bench, token_budget=100)
    asked = bench.context(meta={"dev.armory/query": ["a tool"]})
    assert await bench.tools(asked) == ["up__second", *META]


async def test_filters_alone_narrow_the_list(bench: Bench) -> None:
    asked = bench.context(meta={"dev.armory/servers": ["nope"]})
    assert await bench.tools(asked) == []
    asked = bench.context(meta={"dev.armory/servers": ["up"]})
    assert await bench.tools(asked) == ALL
    asked = bench.context(meta={"dev.armory/categories": ["x"]})
    assert await bench.tools(asked) == []


async def test_sets_bring_their_own_query(bench: Bench) -> None:
    sets = {
        "twos": SetSpec(servers=("up",), query=("2",)),
        "few": SetSpec(tools=("*__tool1",), without_query="search"),
    }
    configure(bench, sets=sets)
    twos, few = (
        bench.gateway.view.endpoint("set", "twos"),
        bench.gateway.view.endpoint("set", "few"),
    )
    assert twos is not None
    assert few is not None
    assert await bench.tools(bench.context(endpoint=twos)) == ["up__tool2", *META]
    asked = bench.context(endpoint=twos, url={"query": ["3"]})
    assert await bench.tools(asked) == ["up__tool3", *META]
    assert await bench.tools(bench.context(endpoint=few)) == META
    assert bench.gateway.view.endpoint("set", "none") is None
    assert list(bench.gateway.view.servers.at(few)) == ["up"]


async def test_search_that_breaks_still_lists(bench: Bench) -> None:
    class Broken:
        async def search(
            self, query: Query, visible: VisibleSet | None, *, explain: bool = False
        ) -> Selection:
            raise RuntimeError("index gone: /secret/path")

    gateway = Gateway(bench.pool, Broken(), settings=GatewaySettings(pin=("*tool1",)))
    gateway.publish(bench.pool.catalog())
    bench.gateway = gateway
    asked = bench.context(meta={"dev.armory/query": "x"})
    reply = await gateway.tool_lists.list(asked, {})
    assert reply.result is not None
    listed = msgspec.json.decode(reply.result)
    assert [entry["name"] for entry in listed["tools"]] == ["up__tool1", *META]
    degraded = listed["_meta"]["dev.armory/selection"]["degraded"]
    assert degraded.startswith("pinned only")
    assert "secret" not in degraded


async def test_without_a_retriever_queries_change_nothing(bench: Bench) -> None:
    bench.gateway = Gateway(bench.pool)
    bench.gateway.publish(bench.pool.catalog())
    assert await bench.tools(bench.context(meta={"dev.armory/query": "2"})) == ALL
    called = await bench.call("search_tools", {"query": "2"})
    assert called["structuredContent"]["degraded"] == "no retriever"


async def test_legacy_selection_and_no_cursor(bench: Bench) -> None:
    asked = bench.context("legacy", meta={"dev.armory/query": "2"})
    reply = await bench.gateway.tool_lists.list(asked, {})
    listed = read(reply)
    assert listed["_meta"]["dev.armory/selection"]["returned"] == 1
    assert "nextCursor" not in listed
    for none in (None, ""):
        assert await bench.gateway.tool_lists.list(asked, raws({"cursor": none})) == reply
    with pytest.raises(RpcError, match="cursor") as refused:
        await bench.gateway.tool_lists.list(asked, raws({"cursor": "x"}))
    assert refused.value.data == {"parameter": "params.cursor"}
    with pytest.raises(RpcError, match="cursor"):
        await list_entries("prompts/list", asked, raws({"cursor": "x"}))


async def test_revealed_tools_enter_the_sessions_list(bench: Bench) -> None:
    configure(bench, without_query="search", reveal="session")
    revealed: set[str] = set()
    await bench.call("search_tools", {"query": "3"}, era="legacy", revealed=revealed)
    assert revealed == {"up__tool3"}
    asked = bench.context("legacy", revealed=revealed)
    assert await bench.tools(asked) == ["up__tool3", *META]
    configure(bench, reveal="none")
    await bench.call("search_tools", {"query": "4"}, era="legacy", revealed=revealed)
    assert revealed == {"up__tool3"}


def test_bytes_are_taken_over_where_nothing_changed() -> None:
    definition = tool("a", "a")
    first, _ = build_catalog({"s": ServerLists(tools=[definition])})
    view = View(first, Policy(), GatewaySettings())
    form = Form("modern")
    was = view.listed.tool("s__a", form)
    second, _ = build_catalog(
        {"s": ServerLists(tools=[definition, tool("b", "b")])}, previous=first
    )
    newer = View(second, view.policy, view.settings, view)
    assert newer.listed.tool("s__a", form) is was
    assert b'"s__b"' in newer.listed.tool("s__b", form)
    third, _ = build_catalog({"s": ServerLists(tools=[tool("a", "other")])}, previous=second)
    newest = View(third, view.policy, view.settings, newer)
    assert b"other" in newest.listed.tool("s__a", form)


async def test_a_list_may_be_kept_as_all_its_upstreams_allow(bench: Bench) -> None:
    def fields(policy: Policy, **caches: Any) -> tuple[int, str]:
        servers = {
            key: ServerLists(tools=[tool("a", "")], cache={"tools/list": cache} if cache else {})
            for key, cache in caches.items()
        }
        view = View(build_catalog(servers)[0], policy, GatewaySettings())
        first = view.cache_fields("tools/list", bench.context())
        assert view.cache_fields("tools/list", bench.context()) == first
        return first

    assert fields(Policy(), a=(9, "public"), b=(5, "public")) == (5, "public")
    assert fields(Policy(), a=(9, "public"), b=(5, "private")) == (5, "private")
    assert fields(Policy(), a=(9, "public"), b=None) == (0, "private")
    assert fields(Policy([Rule(allow=("*",))]), a=(9, "public")) == (9, "private")
    barred = Policy([Rule(allow=("a__*",))])  # what is granted there would tell of it
    assert fields(barred, a=(9, "public"), b=(5, "public")) == (9, "private")
    assert fields(barred, b=(5, "public")) == (0, "private")
    assert fields(Policy()) == (0, "private")


async def test_a_raw_list_is_kept_where_its_url_asks_for_it(bench: Bench) -> None:
    for upstream in bench.pool.upstreams.values():
        upstream.lists = replace(upstream.lists, cache={"tools/list": (9, "public")})
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    header, url = {"X-Armory-Mode": "raw"}, {"mode": ["raw"]}
    for headers, asked, ttl_ms in (({}, url, 9), (header, url, 9), (header, {}, 0), ({}, {}, 0)):
        context = bench.context(headers=headers, url=asked)
        listed = read(await bench.gateway.tool_lists.list(context, {}))
        assert (len(listed["tools"]), listed["ttlMs"]) == (len(ALL), ttl_ms), (headers, asked)


# -- definitions -----------------------------------------------------------------------------------
