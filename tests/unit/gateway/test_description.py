"""What the gateway says of itself and of the servers behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from armory.domain.catalog import ServerLists, ToolRules
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import Principal
from armory.gateway.gateway import Gateway
from armory.gateway.lists.grouping import groups_of
from armory.security.policy import Policy, Rule

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


async def test_descriptions_per_endpoint_and_era(bench: Bench) -> None:
    upstream = bench.pool.upstreams["up"]
    capabilities = {
        "tools": {"listChanged": False},
        "logging": {"l": 1},
        "completions": {},
        "vendor": {"v": 1},
        "tasks": {"list": {}},
        "experimental": {"e": {}},
        "extensions": {"x/y": {"a": 1}},
    }
    upstream.lists = replace(upstream.lists, capabilities=capabilities, instructions="Use it.")
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    server = bench.gateway.view.endpoint("server", "up")
    assert server is not None
    modern = bench.gateway.description.of_endpoint(bench.context())
    assert modern["capabilities"]["extensions"].keys() == {"x/y", "dev.armory/tool-rag"}
    assert "tasks" not in modern["capabilities"]
    assert "up: Use it." in modern["instructions"]
    legacy = bench.gateway.description.of_endpoint(bench.context("legacy"))
    assert legacy["capabilities"]["experimental"].keys() == {"dev.armory/tool-rag"}
    assert "extensions" not in legacy["capabilities"]
    through = bench.gateway.description.of_endpoint(bench.context("legacy", server))
    assert json.loads(bytes(through["serverInfo"]))["name"] == "up"
    assert through["instructions"] == "Use it."
    assert through["capabilities"]["tasks"] == {"list": {}}
    assert through["capabilities"]["experimental"] == {"e": {}}
    assert through["capabilities"]["vendor"] == {"v": 1}
    assert through["capabilities"]["logging"] == {"l": 1}
    assert "vendor" not in legacy["capabilities"]
    assert through["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    assert through["capabilities"]["tools"] == {"listChanged": False}
    assert through["capabilities"]["extensions"] == {"x/y": {"a": 1}}
    assert legacy["capabilities"]["tools"] == {"listChanged": True}
    across = bench.gateway.description.of_endpoint(bench.context("modern", server))
    assert "tasks" not in across["capabilities"]
    upstream.lists = replace(upstream.lists, cache={"tools/list": (0, "private")})  # it is modern
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    same = bench.gateway.description.of_endpoint(bench.context("modern", server))
    assert same["capabilities"]["tools"] == {"listChanged": False}
    session = bench.gateway.description.of_endpoint(bench.context("legacy", server))
    assert session["capabilities"]["tools"] == {"listChanged": True}


async def test_instructions_stay_within_bounds(bench: Bench) -> None:
    upstream = bench.pool.upstreams["up"]
    for number in range(20):
        lists = replace(upstream.lists, instructions="long " * 200)
        bench.pool.upstreams[f"s{number}"] = replace(upstream, lists=lists)
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    text = bench.gateway.description.instructions(bench.context())
    assert len(text) <= 2_048
    assert text.endswith("- and more")
    for number in range(10, 20):
        del bench.pool.upstreams[f"s{number}"]
    bench.gateway.publish(bench.pool.catalog(bench.gateway.view.catalog))
    fewer = bench.gateway.description.instructions(bench.context())
    assert len(fewer) <= 2_048
    assert all(f"- s{number}: long" in fewer for number in range(10))  # each has its share
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("up__*",))]))
    assert "s1" not in bench.gateway.description.instructions(bench.context())


async def test_what_is_told_of_servers_is_put_together_once_for_all_who_see_the_same(
    bench: Bench,
) -> None:
    bench.gateway.reconfigure(policy=Policy([Rule(who=("a",), allow=("up__*",))]))
    tell = bench.gateway.description.instructions
    mine = tell(bench.context(principal=Principal("a", "a")))
    assert tell(bench.context(principal=Principal("a", "a"))) is mine
    assert "- up: " in mine
    assert "- up: " not in tell(bench.context(principal=Principal("b", "b")))


async def test_a_gateway_is_ready_once_it_has_a_snapshot(bench: Bench) -> None:
    assert bench.gateway.ready
    assert not Gateway(bench.pool).ready


async def test_a_server_that_says_nothing_is_told_by_names_that_can_be_called(
    bench: Bench,
) -> None:
    names = ("send.mail", "list_inbox", "listed")
    lists = ServerLists(tools=[{"name": name, "inputSchema": {}} for name in names])
    rules = {"post-box": ToolRules(rename={"list_inbox": "read_mail"})}
    catalog, _ = build_catalog({"post-box": lists}, rules)
    bench.gateway.publish(catalog)
    line = "post-box: send_mail, read_mail, listed"
    told = bench.gateway.description.instructions(bench.context())
    assert "Tools are named server__tool." in told
    assert f"- {line}" in told
    for name in line.partition(": ")[2].split(", "):
        assert f"post-box__{name}" in catalog.tools
    groups = groups_of(bench.context())
    assert [group.description for group in groups] == [line.partition(": ")[2]]
