"""`params.filter` of list requests: patterns and vendor keys, and nothing of it by default."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from armory.gateway.endpoint import Endpoint
from armory.gateway.lists.entries import list_entries
from armory.gateway.queries.filters import MAX_PATTERNS, Patterns
from armory.protocol.errors import RpcError
from armory.testing.front import raws
from tests.unit.gateway.conftest import read

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
ALL = [f"up__tool{i}" for i in range(6)]
META = ["search_tools", "call_tool"]
CARRIED_BY_META = (
    "query", "threshold", "top_k", "servers", "categories", "ranker", "hour", "last_tool",
)  # fmt: skip


@pytest.fixture
def filtering(bench: Bench) -> Bench:
    settings = replace(bench.gateway.view.settings, experimental=frozenset({"filter"}))
    bench.gateway.reconfigure(settings=settings)
    return bench


def patterns(*texts: Any, **more: Any) -> dict[str, Any]:
    return {"filter": {"namePatterns": list(texts), **more}}


async def entries(bench: Bench, method: str, wanted: dict[str, Any]) -> list[str]:
    listed = read(await list_entries(method, bench.context(), raws(wanted)))
    name = {"prompts/list": "name", "resources/list": "uri"}.get(method, "uriTemplate")
    member = {"prompts/list": "prompts", "resources/list": "resources"}
    return [entry[name] for entry in listed[member.get(method, "resourceTemplates")]]


async def test_patterns_choose_tools_by_exposed_name(filtering: Bench) -> None:
    context = filtering.context()
    assert await filtering.tools(context, patterns("up__tool[12]", "*5")) == [ALL[1], *ALL[2::3]]
    assert await filtering.tools(context, patterns("UP__*")) == []
    assert await filtering.tools(context, patterns("up__tool?")) == ALL
    assert await filtering.tools(context, patterns()) == ALL
    assert await filtering.tools(context, {"filter": None}) == ALL
    assert await filtering.tools(context, {"filter": {"other": 1, "acme/x": {}}}) == ALL


async def test_a_query_in_the_filter_is_searched_among_what_matches(filtering: Bench) -> None:
    asked = filtering.context()
    query = {"dev.armory/query": ["4", "1"]}
    assert await filtering.tools(asked, {"filter": query}) == [ALL[1], ALL[4], *META]
    assert await filtering.tools(asked, patterns("*4", "*5", **query)) == [ALL[4], *META]
    assert await filtering.tools(asked, patterns("none", **query)) == META
    filter = {**query, "dev.armory/top_k": 1}
    assert await filtering.tools(asked, {"filter": filter}) == [ALL[1], *META]
    first = filtering.context(meta={"dev.armory/query": "2"})
    assert await filtering.tools(first, {"filter": query}) == [ALL[2], *META]
    assert await filtering.tools(asked, {"query": "3", "filter": query}) == [ALL[1], ALL[4], *META]


async def test_a_name_asked_for_outside_the_patterns_stays_outside(filtering: Bench) -> None:
    wanted = patterns("*tool1", **{"dev.armory/query": "up__tool3"})
    assert await filtering.tools(filtering.context(), wanted) == META


async def test_a_raw_list_is_narrowed_like_any_other(filtering: Bench) -> None:
    for meta, names in (
        ({"dev.armory/servers": ["up"]}, ALL),
        ({"dev.armory/servers": ["away"]}, []),
        ({"dev.armory/categories": ["x"]}, []),
    ):
        raw = filtering.context(url={"mode": ["raw"], "query": ["2"]}, meta=meta)
        assert await filtering.tools(raw) == names
    raw = filtering.context(url={"mode": ["raw"]})
    assert await filtering.tools(raw, patterns("*1")) == [ALL[1]]
    listed = read(await filtering.gateway.tool_lists.list(raw, raws(patterns("*1"))))
    assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private"), "others ask for other tools"


async def test_prompts_and_resources_are_filtered_by_name_or_uri(filtering: Bench) -> None:
    assert await entries(filtering, "prompts/list", patterns("up__h*")) == ["up__hi"]
    assert await entries(filtering, "prompts/list", patterns("hi")) == []
    for method, uri in (
        ("resources/list", "up+file:///a"),
        ("resources/templates/list", "up+file:///{x}"),
    ):
        assert await entries(filtering, method, {"filter": {"uriPatterns": ["up+*"]}}) == [uri]
        assert await entries(filtering, method, {"filter": {"uriPatterns": ["b*"]}}) == []
        assert await entries(filtering, method, patterns("*")) == [], "they have no name"


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ({"filter": ["x"]}, "params.filter"),
        ({"filter": {"namePatterns": "x"}}, "params.filter.namePatterns"),
        ({"filter": {"namePatterns": [1]}}, "params.filter.namePatterns"),
        ({"filter": {"namePatterns": [""]}}, "params.filter.namePatterns"),
        ({"filter": {"namePatterns": ["x" * 257]}}, "params.filter.namePatterns"),
        ({"filter": {"uriPatterns": ["x"] * (MAX_PATTERNS + 1)}}, "params.filter.uriPatterns"),
        ({"filter": {"dev.armory/top_k": 0}}, "params.filter[dev.armory/top_k]"),
        ({"filter": {"dev.armory/query": 7}}, "params.filter[dev.armory/query]"),
    ],
)
async def test_what_is_no_filter_is_refused(
    filtering: Bench, wanted: dict[str, Any], where: str
) -> None:
    with pytest.raises(RpcError) as caught:
        await filtering.tools(filtering.context(), wanted)
    assert caught.value.code == -32602
    assert caught.value.data == {"parameter": where}


async def test_many_wildcards_take_no_time() -> None:
    assert not await Patterns(("*a" * 120 + "b",)).among(["a" * 2_000])


async def test_capabilities_name_what_is_understood(filtering: Bench) -> None:
    describe = filtering.gateway.description.of_endpoint
    for era in ("modern", "legacy"):
        found = describe(filtering.context(era))["capabilities"]
        names, *vendor = found["tools"]["filtering"]["supported"]
        assert names == "namePatterns"
        assert set(vendor) == {f"dev.armory/{name}" for name in CARRIED_BY_META}
        for key in vendor:  # what is not understood is ignored
            with pytest.raises(RpcError, match=key):
                await filtering.tools(filtering.context(era), {"filter": {key: {}}})
        assert found["resources"]["filtering"]["supported"] == ["namePatterns", "uriPatterns"]
        assert found["prompts"]["filtering"]["supported"] == ["namePatterns"]
        assert found["tools"]["listChanged"] is True
    server = filtering.gateway.view.endpoint("server", "up")
    assert isinstance(server, Endpoint)
    assert "filtering" not in str(describe(filtering.context("modern", server)))
    names = ["tool0", "tool1", "tool2", "tool3", "tool4", "tool5"]
    assert await filtering.tools(filtering.context(endpoint=server), patterns("*1")) == names


async def test_by_default_there_is_no_filter(bench: Bench) -> None:
    context = bench.context()
    assert await bench.tools(context, patterns("*1", **{"dev.armory/query": "2"})) == ALL
    assert await bench.tools(context, {"filter": 7}) == ALL
    assert await entries(bench, "prompts/list", patterns("none")) == ["up__hi"]
    assert "filtering" not in str(bench.gateway.description.of_endpoint(context))
