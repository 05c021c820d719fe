"""Calls, prompts, resources, completions, changes: where each goes and what comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw

from armory.agent.findings import AgentResult, ToolFinding
from armory.domain.principal import Principal
from armory.domain.results import CallOutcome, Listing, Match
from armory.errors import BackendError, RateLimited, UnknownTool, UpstreamUnavailable
from armory.gateway.gateway import Gateway, Services
from armory.gateway.lists.entries import list_entries
from armory.gateway.settings import GatewaySettings
from armory.protocol.errors import RpcError
from armory.protocol.link import Call, Owner, Reply
from armory.security.policy import Policy, Rule
from armory.testing.front import plain, raws, refused, result

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


class Noted:
    """Statistics and limits that only take notes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool | None]] = []
        self.lists: list[tuple[int, int]] = []
        self.sizes: list[tuple[int, int]] = []
        self.limit: RateLimited | None = None

    async def acquire(self, principal: Principal, method: str, name: str) -> None:
        if self.limit is not None:
            raise self.limit

    async def take(self, principal: Principal) -> None:
        if self.limit is not None:
            raise self.limit

    def called(self, principal: Principal, call: CallOutcome) -> None:
        self.calls.append((call.tool, call.ok))

    def listed(self, principal: Principal, listing: Listing) -> None:
        self.sizes.append((listing.visible_bytes, listing.returned_bytes))
        self.lists.append((listing.visible, len(listing.selected)))


@pytest.fixture
def noted(bench: Bench) -> Noted:
    noted = Noted()
    gateway = Gateway(bench.pool, bench.retriever, services=Services(limiter=noted, events=noted))
    gateway.publish(bench.gateway.view.catalog)
    bench.gateway = gateway
    return noted


async def test_what_an_upstream_that_is_down_may_have_is_not_called_unknown(bench: Bench) -> None:
    bench.pool.down = ["gone"]
    reply = await bench.gateway.tool_calls.call(bench.context(), raws({"name": "gone__tool"}))
    told = msgspec.json.decode(b"".join(reply.parts))
    assert told["isError"] is True
    assert "'gone' is down" in told["content"][0]["text"]
    with pytest.raises(UpstreamUnavailable, match="'gone' is down"):
        await bench.gateway.primitives.get_prompt(bench.context(), raws({"name": "gone__prompt"}))

    only_up = Policy([Rule(allow=("up__*",))])
    bench.gateway.reconfigure(policy=only_up)
    for name in ("gone__tool", "other__tool", "up__none"):
        with pytest.raises(UnknownTool, match=f"unknown tool: {name}"):
            await bench.gateway.tool_calls.call(bench.context(), raws({"name": name}))


async def test_calls_are_noted_after_the_answer(bench: Bench, noted: Noted) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        name = plain(call.params)["name"]
        if name == "tool3":
            raise UpstreamUnavailable("down", upstream="up")
        if name == "tool2":
            return refused(-1, "no")
        return result({"content": [], "isError": name == "tool1"})

    bench.pool.upstreams["up"].answer = answer
    for name in ("tool0", "tool1", "tool3"):
        await bench.call(f"up__{name}", {})
    await bench.gateway.tool_calls.call(bench.context(), raws({"name": "up__tool2"}))
    assert noted.calls == [
        ("up__tool0", True),
        ("up__tool1", False),
        ("up__tool3", False),
        ("up__tool2", False),
    ]
    await bench.tools(bench.context(meta={"dev.armory/query": "2"}))
    await bench.call("search_tools", {"query": "2"})
    assert noted.lists == [(6, 1), (6, 1)]


async def test_what_is_listed_is_noted_beside_what_might_have_been(
    bench: Bench, noted: Noted
) -> None:
    async def size(**more: Any) -> int:
        reply = await bench.gateway.tool_lists.list(bench.context(**more), {})
        assert reply.result is not None
        tools = msgspec.json.decode(reply.result, type=dict[str, Raw])["tools"]
        return len(memoryview(tools)) - 2  # its brackets

    every = await size()
    asked = await size(meta={"dev.armory/query": "2"})
    bench.gateway.reconfigure(settings=GatewaySettings(without_query="search"))
    cut = await size()
    assert noted.sizes == [(every, asked), (every, cut)]


async def test_a_list_that_is_cut_without_a_query_is_noted(bench: Bench, noted: Noted) -> None:
    await bench.tools(bench.context())
    assert noted.lists == []
    settings = GatewaySettings(without_query="search", pin=("up__tool3",))
    bench.gateway.reconfigure(settings=settings)
    await bench.tools(bench.context())
    assert noted.lists == [(6, 1)]


async def test_what_the_agent_found_is_noted_like_a_search(bench: Bench, noted: Noted) -> None:
    record = bench.gateway.view.catalog.tools["up__tool2"]
    finding = ToolFinding(Match(record, 0.8, 0.8, 0.8), 0.9, "exact", "words", True, ())
    found = AgentResult("2", "tool2", (finding,), (), (), 1, "final_answer")

    wanted: list[int] = []

    class Finder:
        async def run(self, question: str, *, top_k: int = 10, **_: Any) -> AgentResult:
            assert question == "2"
            wanted.append(top_k)
            return found

    services = Services(limiter=noted, events=noted, finder=Finder)
    gateway = Gateway(
        bench.pool, bench.retriever, settings=GatewaySettings(find_tools=True), services=services
    )
    gateway.publish(bench.gateway.view.catalog)
    bench.gateway = gateway
    told = await bench.call("find_tools", {"query": "2"})
    assert told["structuredContent"]["tools"][0]["name"] == "up__tool2"
    assert noted.lists == [(6, 1)]
    await bench.call("find_tools", {"query": "2"}, url={"top_k": ["3"]})
    await bench.call("find_tools", {"query": "2", "top_k": 4}, url={"top_k": ["3"]})
    assert wanted[1:] == [3, 4]


async def test_limits_answer_calls_with_a_result(bench: Bench, noted: Noted) -> None:
    noted.limit = RateLimited("slow down", retry_after_s=2.0)
    told = await bench.call("up__tool0", {})
    assert told["isError"] is True
    assert told["content"][0]["text"] == "slow down. Try again in 2 s."
    assert told["_meta"]["dev.armory/error"]["code"] == "rate_limited"
    assert noted.calls == [], "what its caller may not do is no failure of the tool"
    with pytest.raises(RateLimited):
        await bench.gateway.primitives.get_prompt(bench.context(), raws({"name": "up__hi"}))


async def test_backend_trouble_is_a_result_too(bench: Bench) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        raise BackendError("redis is away")

    bench.pool.upstreams["up"].answer = answer
    told = await bench.call("up__tool0", {})
    assert told["_meta"]["dev.armory/error"]["upstream"] is None


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 3},
        {"name": "up__tool0", "arguments": "x"},
        {"name": "search_tools", "arguments": [1]},
        {"name": "search_tools"},
        {"name": "search_tools", "arguments": {"query": "x", "top_k": 0}},
        {"name": "search_tools", "arguments": {"query": "x", "servers": 3}},
        {"name": "call_tool", "arguments": {}},
        {"name": "call_tool", "arguments": {"name": "up__tool0", "arguments": [1]}},
    ],
)
async def test_parameters_that_do_not_fit(bench: Bench, params: dict[str, Any]) -> None:
    with pytest.raises(RpcError) as caught:
        await bench.gateway.tool_calls.call(bench.context(), raws(params))
    assert caught.value.code == -32602


async def test_call_tool_is_the_call_itself(bench: Bench) -> None:
    inner = {"name": "up__tool1", "arguments": None}
    assert await bench.call("call_tool", inner) == {"method": "tools/call", "name": "tool1"}
    assert (await bench.call("call_tool", {"name": "up__nope"}))["isError"] is True


async def test_meta_tools_may_be_switched_off(bench: Bench) -> None:
    settings = replace(bench.gateway.view.settings, search_tools=False, call_tool=False)
    bench.gateway.reconfigure(settings=settings)
    for name in ("search_tools", "call_tool"):
        with pytest.raises(UnknownTool):
            await bench.call(name, {"query": "x", "name": "up__tool0"})
    server = bench.gateway.view.endpoint("server", "up")
    with pytest.raises(UnknownTool):
        await bench.call("search_tools", {"query": "x"}, endpoint=server)


async def test_tool_references_for_those_who_declare_them(bench: Bench) -> None:
    bench.client.capabilities = {"experimental": {"anthropic/tool_reference": {}}}
    found = await bench.call("search_tools", {"query": ["2"], "servers": ["up"], "top_k": 3})
    assert found["content"][1] == {"type": "tool_reference", "tool_name": "up__tool2"}
    assert msgspec.json.decode(found["content"][0]["text"]) == found["structuredContent"]


async def test_prompts_resources_completions(bench: Bench) -> None:
    gateway, context = bench.gateway, bench.context()

    async def ask(method: str, params: dict[str, Any], **more: Any) -> Any:
        calls = {
            "prompts/get": gateway.primitives.get_prompt,
            "resources/read": gateway.primitives.read_resource,
            "completion/complete": gateway.primitives.complete,
        }
        asked = bench.context(**more) if more else context
        reply = await calls[method](asked, raws(params))
        assert reply.result is not None
        return msgspec.json.decode(reply.result)

    assert (await ask("prompts/get", {"name": "up__hi"}))["name"] == "hi"
    await ask("resources/read", {"uri": "up+file:///z"})
    assert plain(bench.pool.calls[-1][2].params)["uri"] == "file:///z"
    for ref, sent in (
        ({"type": "ref/prompt", "name": "up__hi"}, {"type": "ref/prompt", "name": "hi"}),
        (
            {"type": "ref/resource", "uri": "up+file:///{x}"},
            {"type": "ref/resource", "uri": "file:///{x}"},
        ),
    ):
        await ask("completion/complete", {"ref": ref, "argument": {}})
        assert plain(bench.pool.calls[-1][2].params)["ref"] == sent
    server = gateway.view.endpoint("server", "up")
    assert (await ask("prompts/get", {"name": "hi"}, endpoint=server))["name"] == "hi"
    assert (await ask("resources/read", {"uri": "a:b"}, endpoint=server))["uri"] == "a:b"
    await ask("completion/complete", {"ref": {"type": "ref/odd"}}, endpoint=server)
    assert plain(bench.pool.calls[-1][2].params)["ref"] == {"type": "ref/odd"}
    for ref in (None, 3, {"type": "ref/odd"}):
        with pytest.raises(RpcError):
            await ask("completion/complete", {"ref": ref})
    with pytest.raises(UnknownTool):
        await ask("completion/complete", {"ref": {"type": "ref/prompt", "name": "nope"}})
    with pytest.raises(UnknownTool):
        await ask("prompts/get", {"name": "up__nope"})
    with pytest.raises(RpcError) as caught:
        await ask("resources/read", {"uri": "none+a:b"}, era="legacy")
    assert caught.value.code == -32002


async def test_policy_covers_every_primitive(bench: Bench) -> None:
    bench.gateway.reconfigure(policy=Policy([Rule(allow=("up__tool1",))]))
    context = bench.context()
    assert await bench.tools(context) == ["up__tool1"]
    with pytest.raises(UnknownTool):
        await bench.call("up__tool2", {})
    with pytest.raises(UnknownTool):
        await bench.gateway.primitives.get_prompt(context, raws({"name": "up__hi"}))
    with pytest.raises(RpcError):
        await bench.gateway.primitives.read_resource(context, raws({"uri": "up+file:///a"}))
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        reply = await list_entries(method, context, {})
        assert b":[]" in bytes(memoryview(reply.result or Raw(b"")))


async def test_unknown_methods_only_on_the_transparent_endpoint(bench: Bench) -> None:
    with pytest.raises(RpcError) as caught:
        await bench.gateway.primitives.pass_on("x/y", bench.context(), {})
    assert caught.value.code == -32601
    endpoint = bench.gateway.view.endpoint("server", "up")
    assert endpoint is not None
    context = bench.context(endpoint=endpoint)
    reply = await bench.gateway.primitives.pass_on("x/y", context, raws({"a": 1}))
    assert reply.result is not None
    assert msgspec.json.decode(reply.result) == {"method": "x/y", "a": 1}


async def test_errors_of_the_upstream_keep_all_but_names(bench: Bench) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        return refused(-5, "gone", {"uri": "file:///a", "n": 1.5})

    bench.pool.upstreams["up"].answer = answer
    reply = await bench.gateway.primitives.read_resource(
        bench.context(), raws({"uri": "up+file:///a"})
    )
    assert reply.error is not None
    assert msgspec.json.decode(reply.error) == {
        "code": -5,
        "message": "gone",
        "data": {"uri": "up+file:///a", "n": 1.5},
    }


def related(task: str) -> dict[str, Any]:
    return {"io.modelcontextprotocol/related-task": {"taskId": task}}


async def test_notifications_carry_exposed_names(bench: Bench) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        assert call.client is not None
        assert call.client.log_level is None
        assert call.client.progress_token is None
        assert call.client.capabilities == {}
        await call.client.notify("notifications/x", raws({"uri": "kept", "_meta": related("1")}))
        await call.client.ask("roots/list", raws({"_meta": related("1")}))
        return result({"content": []})

    bench.pool.upstreams["up"].answer = answer
    await bench.call("up__tool0", {})
    assert bench.client.heard == [
        ("notifications/x", {"uri": "kept", "_meta": related("up:1")}),
        ("roots/list", {"_meta": related("up:1")}),
    ]
