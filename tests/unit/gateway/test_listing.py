"""What tools/list shows: modes, limits, pins, budget, meta-tools; and definitions as listed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from armory.domain.catalog import Catalog, ServerLists, ToolRules
from armory.domain.catalog_builder import build_catalog
from armory.domain.query import Query, VisibleSet
from armory.domain.results import Selection
from armory.domain.tool import ListedRecord, ToolRecord
from armory.gateway.gateway import Gateway
from armory.gateway.lists.entries import list_entries
from armory.gateway.metatools.definitions import MAX_DESCRIPTION, search_definition
from armory.gateway.settings import GatewaySettings, SetSpec
from armory.gateway.views.definitions import Form, listed_bytes, tool_bytes
from armory.gateway.views.view import View
from armory.protocol.errors import RpcError
from armory.protocol.headers import declared_headers
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


def shown(definition: dict[str, Any], form: Form, **rules: Any) -> dict[str, Any]:
    lists = {"s": ServerLists(tools=[definition])}
    catalog, _ = build_catalog(lists, {"s": ToolRules(**rules)})
    (record,) = catalog.tools.values()
    return msgspec.json.decode(tool_bytes(record, form))


def test_definitions_keep_what_they_have() -> None:
    definition = {
        "name": "a",
        "title": "T",
        "inputSchema": {"type": "object", "x": None},
        "icons": [{"src": "x"}],
        "new": {"deep": [1.5]},
    }
    assert shown(definition, Form("modern", original=True, headers=True)) == definition
    assert shown(definition, Form("modern")) == {**definition, "name": "s__a"}
    assert shown(definition, Form("modern"), rename={"a": "b"}, describe={"a": "d"}) == {
        **definition,
        "name": "s__b",
        "description": "d",
    }


def test_app_links_are_mapped() -> None:
    meta = {"ui": {"resourceUri": "ui://x", "v": 1}, "ui/resourceUri": "ui://x", "k": 2}
    got = shown({"name": "a", "_meta": meta}, Form("modern", load=True))
    assert got["_meta"] == {
        "ui": {"resourceUri": "ui://s/x", "v": 1},
        "ui/resourceUri": "ui://s/x",
        "k": 2,
        "anthropic/alwaysLoad": True,
    }
    assert shown({"name": "a", "_meta": {"ui": 3}}, Form("modern"))["_meta"] == {"ui": 3}
    assert shown({"name": "a", "_meta": 3}, Form("modern", load=True))["_meta"] == {
        "anthropic/alwaysLoad": True
    }


@pytest.mark.parametrize(
    ("schema", "kept", "modern"),
    [
        ({"type": "object"}, True, True),
        ({"type": "array"}, False, True),
        (True, False, False),
    ],
)
def test_output_schemas_of_clients(schema: Any, kept: bool, modern: bool) -> None:
    definition = {"name": "a", "outputSchema": schema}
    assert ("outputSchema" in shown(definition, Form("legacy"))) is kept
    assert ("outputSchema" in shown(definition, Form("modern"))) is modern


def test_header_annotations() -> None:
    schema = {
        "type": "object",
        "properties": {
            "zone": {"type": "string", "x-mcp-header": "Zone"},
            "x-mcp-header": {"type": "string"},
            "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "bad": {"type": "number", "x-mcp-header": "Bad"},
            "odd": True,
        },
        "anyOf": [{"x-mcp-header": "no"}, {"a": 1}],
    }
    assert declared_headers(schema) == {
        "Mcp-Param-Zone": (("zone",), "string"),
        "Mcp-Param-N": (("deep", "n"), "integer"),
    }
    definition = {"name": "a", "inputSchema": schema}
    bare = shown(definition, Form("modern"))["inputSchema"]
    assert bare["properties"]["zone"] == {"type": "string"}
    assert "x-mcp-header" in bare["properties"]
    assert bare["anyOf"] == [{}, {"a": 1}]
    assert shown(definition, Form("modern", headers=True))["inputSchema"] == schema


def test_listed_records() -> None:
    definition = {"uri": "ui://a", "name": "a", "_meta": {"ui": {"resourceUri": "ui://a"}}}
    record = ListedRecord("ui://s/a", "s", "ui://a", definition, "")
    got = msgspec.json.decode(listed_bytes(record, "resources", Form("modern")))
    assert got == {**definition, "uri": "ui://s/a", "_meta": {"ui": {"resourceUri": "ui://s/a"}}}
    same = msgspec.json.decode(listed_bytes(record, "resources", Form("modern", original=True)))
    assert same == definition


def test_search_tools_says_what_is_behind_within_bounds() -> None:
    few = {
        "git": ServerLists(info={"description": "Version control. More."}),
        "clock": ServerLists(instructions="Tells time.\nReally."),
        "x": ServerLists(tools=[tool(f"t{i}", "") for i in range(6)]),
        "y": ServerLists(tools=[tool("only", "")]),
        "z": ServerLists(),
        "long": ServerLists(instructions="w" * 500),
    }
    text = search_definition(few, call_tool=True)["description"]
    assert "git (Version control)" in text
    assert "clock (Tells time)" in text
    assert "x (t0, t1, t2, t3 ...)" in text
    assert "y (only)" in text
    assert "z (z)" in text
    for count in (0, 30, 60, 500):
        many = {f"server-{i}": ServerLists(instructions="p" * 60) for i in range(count)}
        text = search_definition(many, call_tool=False)["description"]
        assert len(text) <= MAX_DESCRIPTION
    assert "more." in text


def test_tool_records_without_a_schema() -> None:
    record = ToolRecord("s__a", "s", "a", {"name": "a"}, "")
    own = Form("modern", original=True)
    assert msgspec.json.decode(tool_bytes(record, own)) == {"name": "a"}
    listed = msgspec.json.decode(tool_bytes(record, Form("modern")))
    assert listed == {"name": "s__a", "inputSchema": {"type": "object"}}


def test_queries_that_were_written_for_a_tool_are_in_its_hint() -> None:
    key = "anthropic/searchHint"
    examples = ("tell ann that I am late", "x" * 480, "write to bob")
    record = ToolRecord("s__a", "s", "a", {"name": "a"}, "", tags=("mail",), examples=examples)

    def hint(shown: ToolRecord) -> Any:
        return msgspec.json.decode(tool_bytes(shown, Form("modern"))).get("_meta")

    assert hint(record) == {key: "mail; tell ann that I am late; write to bob"}
    assert hint(replace(record, tags=())) == {key: "tell ann that I am late; write to bob"}
    own = {"name": "a", "_meta": {key: "own"}}
    assert hint(replace(record, definition=own)) == {key: "own"}


def test_a_view_shows_what_was_written_since_the_last_one() -> None:
    def view(version: int, before: View | None, *examples: str) -> View:
        record = ToolRecord("s__a", "s", "a", {"name": "a"}, "", examples=examples)
        catalog = Catalog(version, {}, {"s__a": record}, {}, {}, {})
        return View(catalog, Policy(()), GatewaySettings(), before)

    form = Form("modern")
    first = view(1, None)
    assert b"searchHint" not in first.listed.tool("s__a", form)
    second = view(2, first, "write to bob")
    assert b"write to bob" in second.listed.tool("s__a", form)
    assert second.catalog.tools == first.catalog.tools  # nobody is told of news


def test_tags_become_a_hint_for_clients_that_search() -> None:
    def hint(**more: Any) -> Any:
        definition = tool("t", "d", **more)
        rules = {"up": ToolRules(tags={"*": ("mail", "send")}, category="office")}
        catalog, _ = build_catalog({"up": ServerLists(tools=[definition])}, rules)
        record = catalog.tools["up__t"]
        shown = [tool_bytes(record, Form("modern", original=o)) for o in (False, True)]
        return [msgspec.json.decode(one).get("_meta") for one in shown]

    key = "anthropic/searchHint"
    assert hint() == [{key: "mail send office"}, None]
    assert hint(_meta={key: "own", "x": 1}) == [{key: "own", "x": 1}] * 2
    assert hint(_meta={"x": 1}) == [{"x": 1, key: "mail send office"}, {"x": 1}]
