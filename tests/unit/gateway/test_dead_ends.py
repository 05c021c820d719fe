"""A model that finds nothing, or gives a name that does not exist, is told how to go on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from armory.domain.catalog import ServerLists
from armory.domain.query import Query
from armory.domain.results import KnownExplanation, Match, Selection
from armory.errors import (
    ArmoryError,
    BackendError,
    QuotaExceeded,
    RateLimited,
    UnknownTool,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.gateway.lists.named import with_named
from armory.gateway.results.answers import failed_call
from armory.gateway.views.definitions import Form
from armory.gateway.views.view import View
from armory.protocol.errors import RpcError
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.front import ScriptedUpstream, raws, result, tool
from armory.wire.errors import error_object
from tests.unit.gateway.conftest import echo, read

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
APP = {"ui": {"resourceUri": "ui://panel", "visibility": ["app"]}}
BOTH = {"ui": {"resourceUri": "ui://chart", "visibility": ["model", "app"]}}


@pytest.fixture
async def bench(bench: Bench) -> Bench:
    memory = ServerLists(
        tools=[
            tool("create_entities", "Create nodes of the graph"),
            tool("refresh", "Draw the panel again") | {"_meta": APP},
            tool("show_chart", "Show a chart") | {"_meta": BOTH},
        ],
        info={"name": "memory-server", "description": "A knowledge graph. It lasts."},
        capabilities={"tools": {}},
    )
    secret = ServerLists(tools=[tool("open_vault", "Open the vault")], capabilities={"tools": {}})
    bench.pool.upstreams["memory"] = ScriptedUpstream(memory, echo)
    bench.pool.upstreams["secret"] = ScriptedUpstream(secret, echo)
    catalog = bench.pool.catalog()
    await bench.retriever.index(list(catalog.tools.values()))
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("up__*", "memory__*"))]))
    bench.gateway.publish(catalog)
    return bench


async def search(bench: Bench, query: Any, **more: Any) -> Any:
    found = await bench.call("search_tools", {"query": query, **more})
    return found["structuredContent"]


async def test_a_search_that_finds_nothing_says_how_to_go_on(bench: Bench) -> None:
    found = await search(bench, "remember that my dog is called Rex")
    assert (found["tools"], found["returned"]) == ([], 0)
    assert 1 <= len(found["unlikely"]) <= 5
    assert set(found["unlikely"][0]) == {"name", "description", "score"}
    assert found["servers"] == [
        {"name": "up", "about": "Counts", "tools": 6},
        {"name": "memory", "about": "A knowledge graph", "tools": 2},
    ]
    assert "other words" in found["advice"]
    assert "secret" not in msgspec.json.encode(found).decode()
    assert set(await search(bench, "number 2")) == {"tools", "returned", "visible"}


async def test_a_server_that_is_not_there_is_named(bench: Bench) -> None:
    for server in ("nope", "secret"):  # what is hidden reads like what is not there
        found = await search(bench, "remember that my dog is called Rex", servers=[server])
        assert found["unlikely"] == []
        assert [entry["name"] for entry in found["servers"]] == ["up", "memory"]
        no_server = f"There is no server {server} with tools that you may use; see `servers`."
        assert found["advice"] == no_server
    found = await search(bench, "remember that my dog is called Rex", servers=["nope", "memory"])
    assert found["advice"].startswith("There is no server nope with tools")
    assert "other words" in found["advice"]
    found = await search(bench, "remember that my dog is called Rex", servers=["memory"])
    assert "There is no server" not in found["advice"]


async def test_what_an_interface_may_call_is_listed_for_hosts_that_render_it(bench: Bench) -> None:
    asked = {"dev.armory/query": "show a chart"}
    assert "memory__refresh" not in await bench.tools(bench.context(meta=asked))
    bench.client.capabilities = {"extensions": {"io.modelcontextprotocol/ui": {}}}
    listed = await bench.tools(bench.context(meta=asked))
    assert "memory__show_chart" in listed
    assert listed.count("memory__refresh") == 1
    other = await bench.tools(bench.context(meta={"dev.armory/query": "number 2"}))
    assert "memory__refresh" not in other
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("memory__show_chart",))]))
    assert "memory__refresh" not in await bench.tools(bench.context(meta=asked))


async def test_a_caller_who_sees_nothing_is_told_that(bench: Bench) -> None:
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("nothing__*",))]))
    found = await search(bench, "anything")
    assert (found["tools"], found["unlikely"], found["servers"]) == ([], [], [])
    assert found["advice"] == "There is no tool that you may use here."


@pytest.mark.parametrize("query", ["memory", "the Memory server", "use memory-server tools"])
async def test_a_servers_name_finds_its_tools(bench: Bench, query: str) -> None:
    names = [entry["name"] for entry in (await search(bench, query))["tools"]]
    assert names == ["memory__create_entities", "memory__show_chart"]
    meta = {"dev.armory/query": query}
    assert "memory__create_entities" in await bench.tools(bench.context(meta=meta))
    assert (await search(bench, query, servers=["up"]))["tools"] == []


@pytest.mark.parametrize("query", ["create_entities", "createEntities", "memory__create_entities"])
async def test_a_tools_name_finds_it(bench: Bench, query: str) -> None:
    first = (await search(bench, query))["tools"][0]
    assert (first["name"], first["score"]) == ("memory__create_entities", 1.0)
    assert "name" in first["reason"]


async def test_what_is_found_by_its_name_counts_under_the_caps(bench: Bench) -> None:
    def configure(**more: Any) -> None:
        bench.gateway.reconfigure(settings=replace(bench.gateway.view.settings, **more))

    async def listed() -> list[str]:
        names = await bench.tools(bench.context(meta={"dev.armory/query": "up"}))
        return [name for name in names if name.startswith("up__")]

    async def found(**more: Any) -> list[str]:
        return [entry["name"] for entry in (await search(bench, "up", **more))["tools"]]

    configure(max_tools=2)
    assert await listed() == await found() == ["up__tool0", "up__tool1"]
    assert len(await found(top_k=5)) == 5
    size = len(bench.gateway.view.listed.tool("up__tool0", Form("modern", load=True)))
    configure(max_tools=20, token_budget=-(-3 * size // 4))
    assert await listed() == await found() == ["up__tool0", "up__tool1", "up__tool2"]
    configure(token_budget=1)
    nothing = await search(bench, "up__tool3")
    assert nothing["tools"] == []
    assert nothing["unlikely"][0]["name"] == "up__tool3"


async def test_an_explanation_agrees_on_what_was_found_by_its_name(bench: Bench) -> None:
    view = bench.gateway.view
    view = View(view.catalog, view.policy, replace(view.settings, max_tools=1))
    tools = view.catalog.tools
    other, one = (tools[name] for name in ("up__tool0", "up__tool1"))
    ranking = (
        Match(
            other, 0.2, 0.2, 1.0, KnownExplanation({"bm25": 2.0}, "the query seems to need no tool")
        ),
        Match(
            one, 0.1, 0.1, 0.5, KnownExplanation({"bm25": 1.0}, "the query seems to need no tool")
        ),
    )
    withheld = dict.fromkeys((other.name, one.name), "refused")
    searched = Selection((), 2, 0.5, refused=True, ranking=ranking, withheld=withheld)
    visible = view.visible(bench.context())
    form = Form("modern", load=True)
    found = with_named(view, form, Query(("tool1", "memory")), visible, searched)
    first, second, *rest = found.candidates()
    assert [match.tool.name for match in found.matches] == [first["name"]] == [one.name]
    assert (first["score"], first["withheld"]) == (1.0, None)
    assert first["reason"] == found.matches[0].reason == "its name is what was asked for"
    assert first["signals"] == {"bm25": 1.0, "name": 1.0}
    assert (second["name"], second["withheld"]) == ("memory__create_entities", "cap")
    assert [entry["name"] for entry in rest] == ["memory__show_chart", other.name]
    assert rest[1]["withheld"] == "refused"


async def test_a_name_finds_nothing_that_is_hidden(bench: Bench) -> None:
    for query in ("secret", "open_vault", "secret__open_vault"):
        assert "vault" not in msgspec.json.encode(await search(bench, query)).decode()


async def test_call_tool_names_what_comes_nearest(bench: Bench) -> None:
    answer = await bench.call("call_tool", {"name": "memory__create_entity"})
    assert answer["isError"] is True
    error = answer["_meta"]["dev.armory/error"]
    assert (error["code"], error["nearest"][0]) == ("unknown_tool", "memory__create_entities")
    text = answer["content"][0]["text"]
    assert "memory__create_entities" in text
    assert "search_tools" in text
    hidden = await bench.call("call_tool", {"name": "secret__open_vault"})
    assert "secret__open_vault" not in hidden["_meta"]["dev.armory/error"]["nearest"]


@pytest.mark.parametrize("name", ["search_tools", "call_tool"])
async def test_call_tool_says_that_meta_tools_are_called_directly(bench: Bench, name: str) -> None:
    answer = await bench.call("call_tool", {"name": name, "arguments": {"query": "a dog"}})
    assert answer["isError"] is True
    assert answer["content"][0]["text"] == f"{name} is called directly, not by call_tool."
    assert answer["_meta"]["dev.armory/error"] == {"code": "unknown_tool", "nearest": []}


async def test_an_unknown_name_keeps_the_standards_error_and_tells_the_nearest(
    bench: Bench,
) -> None:
    with pytest.raises(UnknownTool) as raised:
        await bench.call("show_chart")
    error = msgspec.json.decode(error_object(raised.value))
    assert error["code"] == -32602
    assert error["data"]["nearest"][0] == "memory__show_chart"
    assert "memory__show_chart" in error["message"]
    with pytest.raises(UnknownTool) as raised:
        await bench.call("serch_tools")
    assert raised.value.nearest[0] == "search_tools"
    server = bench.gateway.view.endpoint("server", "memory")
    with pytest.raises(UnknownTool) as raised:
        await bench.call("show_charts", endpoint=server)
    assert raised.value.nearest == ()


async def test_what_is_for_apps_alone_reaches_no_model(bench: Bench) -> None:
    for query in ("refresh", "draw the panel again", "memory"):
        assert "memory__refresh" not in msgspec.json.encode(await search(bench, query)).decode()
    answer = await bench.call("call_tool", {"name": "memory__refresh"})
    assert answer["isError"] is True
    assert "memory__refresh" not in answer["_meta"]["dev.armory/error"]["nearest"]
    assert (await bench.call("memory__refresh"))["name"] == "refresh"  # the app's host calls it
    listed = await bench.gateway.tool_lists.list(bench.context(), raws({}))
    assert b"memory__refresh" in b"".join(listed.parts)


async def test_a_found_tool_keeps_its_user_interface(bench: Bench) -> None:
    first = (await search(bench, "show_chart"))["tools"][0]
    expected = {"resourceUri": "ui://memory/chart", "visibility": ["model", "app"]}
    assert first["_meta"] == {"ui": expected}
    assert "_meta" not in (await search(bench, "create_entities"))["tools"][0]


async def test_what_a_server_is_for_names_no_tool_that_is_hidden(bench: Bench) -> None:
    tools = [tool(f"{name}_door", "") for name in ("open", "blow_up", "close", "lock", "paint")]
    silent = ServerLists(tools=tools, capabilities={"tools": {}})  # it says nothing of itself
    bench.pool.upstreams["doors"] = ScriptedUpstream(silent, echo)
    bench.gateway.publish(bench.pool.catalog())
    rules = [Rule(allow=("*",), deny=("doors__blow*", "doors__lock*", "doors__paint*"))]
    bench.gateway.reconfigure(policy=Policy(rules))
    searching = bench.context(headers={"x-armory-mode": "search"})
    answers = [
        bench.gateway.description.of_endpoint(bench.context())["instructions"],
        msgspec.json.encode(await search(bench, "remember that my dog is called Rex")).decode(),
        str(read(await bench.gateway.tool_lists.list(searching, {}))),
    ]
    for answer in answers:
        assert "open_door, close_door" in answer
        for hidden in ("blow_up", "lock_door", "paint_door", "close_door ..."):
            assert hidden not in answer


@pytest.mark.parametrize(
    "error",
    [
        UpstreamUnavailable("up is down", upstream="up"),
        UpstreamTimeout("up did not answer", upstream="up"),
        UpstreamOverloaded("up is busy", upstream="up", retry_after_s=1.0),
        QuotaExceeded("no calls are left", retry_after_s=60.0),
        BackendError("redis is away"),
    ],
)
async def test_a_caller_without_a_model_is_told_of_failures_by_errors(
    bench: Bench, error: ArmoryError
) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        raise error

    bench.pool.upstreams["up"].answer = answer
    params, calls = raws({"name": "up__tool0"}), bench.gateway.tool_calls
    told = read(await calls.call(bench.context(), params))
    assert told["_meta"]["dev.armory/error"]["code"] == error.code
    with pytest.raises(type(error)) as raised:
        await calls.call(bench.context(), params, raising=True)
    assert raised.value is error


async def test_what_a_tool_itself_says_is_a_result_for_everybody(bench: Bench) -> None:
    said = {"content": [], "isError": True, "_meta": {"dev.armory/error": {"code": "x"}}}

    async def answer(call: Call, owner: Owner) -> Reply:
        return result(said)

    bench.pool.upstreams["up"].answer = answer
    params = raws({"name": "up__tool0"})
    assert read(await bench.gateway.tool_calls.call(bench.context(), params, raising=True)) == said


async def test_what_resources_an_upstream_that_is_down_may_have_is_not_known(bench: Bench) -> None:
    bench.pool.down = ["gone"]
    gateway, params = bench.gateway, raws({"uri": "gone+file:///a"})
    gateway.reconfigure(policy=Policy())
    with pytest.raises(UpstreamUnavailable, match="'gone' is down"):
        await gateway.primitives.read_resource(bench.context(), params)
    with pytest.raises(UpstreamUnavailable, match="'gone' is down"):
        await gateway.session_methods.subscribe(bench.context("legacy"), params)
    at_up = gateway.view.endpoint("server", "up")
    assert at_up is not None
    sent = read(await gateway.primitives.read_resource(bench.context(endpoint=at_up), params))
    assert sent["uri"] == "gone+file:///a"  # its own name for something
    gateway.reconfigure(policy=Policy([Rule(allow=("up__*",))]))
    with pytest.raises(RpcError, match="unknown resource"):
        await gateway.primitives.read_resource(bench.context(), params)


async def test_whoever_knows_only_the_upstreams_own_uri_is_told_the_exposed_one(
    bench: Bench,
) -> None:
    gateway, params = bench.gateway, raws({"uri": "file:///a"})
    gateway.reconfigure(policy=Policy())
    with pytest.raises(RpcError, match=r"file:///a; nearest: up\+file:///a$") as told:
        await gateway.primitives.read_resource(bench.context(), params)
    assert told.value.data == {"uri": "file:///a", "nearest": ["up+file:///a"]}
    gateway.reconfigure(policy=Policy([Rule(allow=("up__*",))]))
    with pytest.raises(RpcError, match=r"file:///a$"):
        await gateway.primitives.read_resource(bench.context(), params)


@pytest.mark.parametrize(
    ("message", "wait_s", "told"),
    [
        ("up is busy", 0.0171735, "up is busy. Try again in 1 s."),
        ("up is busy.", 29.9833, "up is busy. Try again in 30 s."),
        ("no queries are left", 36767.1, "no queries are left. Try again in 10 h 13 min."),
        ("too many; try again in 0.017 s", 0.0171735, "too many; try again in 0.017 s"),
        ("it is tried again in 30 s", 29.9833, "it is tried again in 30 s"),
        ("it begins anew at midnight UTC", 36767.1, "it begins anew at midnight UTC"),
        ("up is down", None, "up is down"),
    ],
)
def test_when_to_try_again_is_said_once(message: str, wait_s: float | None, told: str) -> None:
    error = RateLimited(message, retry_after_s=wait_s)
    result = read(failed_call(error))
    assert result["content"][0]["text"] == told
    assert result["_meta"]["dev.armory/error"]["retry_after_s"] == wait_s
