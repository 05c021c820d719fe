"""Questions of an upstream, put to clients of both eras."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from mcp import Client
from mcp_types import ElicitRequestParams, ElicitResult
from msgspec import Raw

from armory.protocol.link import Call, ClientChannel, ClientGone, Owner, Reply
from armory.protocol.meta import PROGRESS_TOKEN, RELATED_TASK
from armory.protocol.methods import PROGRESS
from armory.testing.front import FORM, asking, plain, raws, result, serving
from armory.wire.settings import HttpSettings

if TYPE_CHECKING:
    from tests.protocol.conftest import Front, Hanging

pytestmark = pytest.mark.anyio
MODES = ["2026-07-28", "legacy"]
ELICIT = {"elicitation": {"form": {}}}
VISIT = {"mode": "url", "url": "https://x.example", "message": "m"}
WITH_TOOLS = {"messages": [], "maxTokens": 5, "tools": [{"name": "t", "inputSchema": {}}]}


async def needing(call: Call, owner: Owner) -> Reply:
    """A modern upstream that needs input twice, and keeps its place in the state."""
    del owner
    params = plain(call.params)
    state = params.get("requestState", "start")
    if state == "start":
        step = "one"
    elif state == "one":
        assert params["inputResponses"]["zone"]["content"] == {"zone": "UTC"}
        step = "two"
    else:
        assert state == "two"
        text = params["inputResponses"]["zone"]["content"]["zone"]
        content = [{"type": "text", "text": f"UTC+{text}"}]
        return result({"resultType": "complete", "content": content}, "modern")
    requests = {"zone": {"method": "elicitation/create", "params": FORM}}
    asked = {"resultType": "input_required", "inputRequests": requests, "requestState": step}
    return result(asked, "modern")


async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
    del context
    assert params.message == "which zone?"
    return ElicitResult(action="accept", content={"zone": "UTC"})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("server", ["old", "new"])
async def test_questions_reach_the_client(front: Front, mode: str, server: str) -> None:
    front.pool.upstreams["old"].answer = asking
    front.pool.upstreams["new"].answer = needing
    async with Client(front.url + "/mcp", mode=mode, elicitation_callback=elicit) as client:
        called = await client.call_tool(f"{server}__now", {"text": "x"})
    assert called.content[0].text == "UTC+UTC"  # pyright: ignore[reportAttributeAccessIssue]
    assert front.edge.interactions.parked == 0


@pytest.mark.parametrize("mode", MODES)
async def test_progress_goes_on_after_a_question(front: Front, mode: str) -> None:
    """Whoever answers sends a request of its own, under whose token it then listens."""

    async def advancing(call: Call, owner: Owner) -> Reply:
        client = call.client
        assert client is not None
        await client.notify(PROGRESS, raws({"progress": 1}) | {PROGRESS_TOKEN: own(client)})
        reply = await asking(call, owner)
        await client.notify(PROGRESS, raws({"progress": 2}) | {PROGRESS_TOKEN: own(client)})
        return reply

    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        heard.append(progress)

    front.pool.upstreams["old"].answer = advancing
    async with Client(front.url + "/mcp", mode=mode, elicitation_callback=elicit) as client:
        await client.call_tool("old__now", {"text": "x"}, progress_callback=hear)
    assert heard == [1, 2]


def own(client: ClientChannel) -> Raw:
    token = client.progress_token
    assert token is not None
    return token


@pytest.mark.parametrize(
    ("path", "name", "task"), [("", "old__now", "old:1"), ("/old", "now", "1")]
)
async def test_a_question_beside_every_call_names_its_task(
    front: Front, path: str, name: str, task: str
) -> None:
    """As the endpoint names tasks: the question of one that runs on comes in no call."""
    heard: list[Any] = []

    async def beside(call: Call, owner: Owner) -> Reply:
        del call
        client = owner.client_of("old")
        assert client is not None
        meta = {"_meta": {RELATED_TASK: {"taskId": "1"}}}
        answer = await client.ask("elicitation/create", raws({**FORM, **meta}))
        heard.append(answer.result and msgspec.json.decode(answer.result))
        return result({"content": []})

    async def hear(context: Any, params: ElicitRequestParams) -> ElicitResult:
        del context
        assert params.meta is not None
        heard.append(params.meta[RELATED_TASK])
        return ElicitResult(action="decline", _meta={RELATED_TASK: {"taskId": task}})

    front.pool.upstreams["old"].answer = beside
    async with Client(f"{front.url}/mcp{path}", mode="legacy", elicitation_callback=hear) as client:
        await client.call_tool(name, {"text": "x"})
    assert heard == [
        {"taskId": task},
        {"action": "decline", "_meta": {RELATED_TASK: {"taskId": "1"}}},
    ]


async def test_state_of_a_modern_upstream_is_sealed(front: Front) -> None:
    front.pool.upstreams["new"].answer = needing
    params = {"name": "new__now", "arguments": {}}
    _, message = await front.modern("tools/call", params, capabilities=ELICIT)
    state = message["result"]["requestState"]
    assert state != "one"
    responses = {"zone": {"action": "accept", "content": {"zone": "UTC"}}}
    again = {**params, "requestState": state, "inputResponses": responses}
    _, message = await front.modern("tools/call", again, capabilities=ELICIT)
    assert message["result"]["resultType"] == "input_required"
    for changed in (
        {**again, "requestState": state[:-6] + "AAAAAA"},
        {**again, "arguments": {"text": "other"}},
        {**again, "requestState": "one"},
    ):
        status, message = await front.modern("tools/call", changed, capabilities=ELICIT)
        assert (status, message["error"]["code"]) == (400, -32602)


async def test_an_undeclared_capability_is_never_asked_for(front: Front) -> None:
    front.pool.upstreams["old"].answer = asking
    _, message = await front.modern("tools/call", {"name": "old__now", "arguments": {}})
    assert message["result"]["isError"] is True
    client = await front.start_legacy()
    answer = await client.request("tools/call", {"name": "old__now", "arguments": {}})
    assert answer["result"]["isError"] is True


async def test_a_parked_call_ends_when_its_client_does_not_come_back(front: Front) -> None:
    ended = asyncio.Event()

    async def watched(call: Call, owner: Owner) -> Reply:
        try:
            return await asking(call, owner)
        except (asyncio.CancelledError, ClientGone):
            ended.set()
            raise

    front.pool.upstreams["old"].answer = watched
    params = {"name": "old__now", "arguments": {}}
    settings = HttpSettings(parked_timeout_s=0.05)
    async with serving(front.gateway, settings=settings) as (front.url, edge):
        _, message = await front.modern("tools/call", params, capabilities=ELICIT)
        assert message["result"]["resultType"] == "input_required"
        await asyncio.wait_for(ended.wait(), 30)
        assert edge.interactions.parked == 0
        again = {**params, "requestState": message["result"]["requestState"], "inputResponses": {}}
        status, message = await front.modern("tools/call", again, capabilities=ELICIT)
    assert (status, message["error"]["code"]) == (400, -32602)


async def test_a_client_that_vanishes_leaves_nothing_parked(front: Front, hanging: Hanging) -> None:
    params = {"name": "old__now", "arguments": {}}
    call = asyncio.ensure_future(front.modern("tools/call", params, capabilities=ELICIT))
    await asyncio.wait_for(hanging.begun.wait(), 10)
    call.cancel()
    await asyncio.wait_for(hanging.ended.wait(), 10)
    assert front.edge.interactions.parked == 0


async def test_url_errors_become_input_requests_on_modern(front: Front) -> None:
    async def visit_first(call: Call, owner: Owner) -> Reply:
        del call, owner
        listed = [{"mode": "url", "url": "https://x.example", "elicitationId": "e", "message": "m"}]
        error = {"code": -32042, "message": "visit", "data": {"elicitations": listed}}
        return Reply(error=Raw(msgspec.json.encode(error)), era="legacy")

    front.pool.upstreams["old"].answer = visit_first
    params = {"name": "old__now", "arguments": {}}
    _, message = await front.modern(
        "tools/call", params, capabilities={"elicitation": {"form": {}, "url": {}}}
    )
    request = message["result"]["inputRequests"]["url-0"]
    assert request["params"] == {"mode": "url", "url": "https://x.example", "message": "m"}
    status, message = await front.modern("tools/call", params)
    assert (status, message["error"]["code"]) == (400, -32021)
    client = await front.start_legacy()
    assert (await client.request("tools/call", params))["error"]["code"] == -32042


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_whoever_does_not_visit_a_url_is_not_asked_again(front: Front, action: str) -> None:
    calls = 0

    async def visit_first(call: Call, owner: Owner) -> Reply:
        del call, owner
        nonlocal calls
        calls += 1
        data = {"elicitations": [{"url": "https://x.example", "message": "m"}]}
        error = {"code": -32042, "message": "visit", "data": data}
        return Reply(error=Raw(msgspec.json.encode(error)), era="legacy")

    front.pool.upstreams["old"].answer = visit_first
    params = {"name": "old__now", "arguments": {}}
    able = {"elicitation": {"url": {}}}
    _, asked = await front.modern("tools/call", params, capabilities=able)
    responses = {"url-0": {"action": action}}
    state = asked["result"]["requestState"]
    again = {**params, "requestState": state, "inputResponses": responses}
    _, message = await front.modern("tools/call", again, capabilities=able)
    assert "did not visit the URL" in message["error"]["message"]
    assert calls == 1


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"elicitations": None},
        {"elicitations": []},
        {"elicitations": ["x"]},
        {"elicitations": {}},
        {"elicitations": [{"url": "https://x.example", "x": [[]] * 50_000}]},
        {"elicitations": [{"message": "m"}]},
    ],
)
async def test_a_url_error_without_urls_stays_an_error(front: Front, data: Any) -> None:
    async def broken(call: Call, owner: Owner) -> Reply:
        del call, owner
        error = {"code": -32042, "message": "visit", "data": data}
        return Reply(error=Raw(msgspec.json.encode(error)), era="legacy")

    front.pool.upstreams["old"].answer = broken
    params = {"name": "old__now", "arguments": {}}
    for capabilities in ({}, {"elicitation": {"form": {}, "url": {}}}):
        _, message = await front.modern("tools/call", params, capabilities=capabilities)
        assert message["error"] == {"code": -32603, "message": "visit", "data": data}


@pytest.mark.parametrize("mode", ["form", "url", "tools"])
async def test_a_mode_that_was_not_declared_is_named(front: Front, mode: str) -> None:
    """As -32021 to a modern client, as -32602 to an upstream that asks directly."""
    method, other, lacking, asked = {
        "form": ("elicitation/create", {"elicitation": {"url": {}}}, "elicitation", FORM),
        "url": ("elicitation/create", {"elicitation": {"form": {}}}, "elicitation", VISIT),
        "tools": ("sampling/createMessage", {"sampling": {}}, "sampling", WITH_TOOLS),
    }[mode]

    async def needing(call: Call, owner: Owner) -> Reply:
        del call, owner
        requests = {"a": {"method": method, "params": asked}}
        return result({"resultType": "input_required", "inputRequests": requests}, "modern")

    async def questioning(call: Call, owner: Owner) -> Reply:
        del owner
        assert call.client is not None
        answer = await call.client.ask(method, raws(asked))
        return Reply(error=answer.error, era="legacy")

    front.pool.upstreams["new"].answer, front.pool.upstreams["old"].answer = needing, questioning
    params = {"name": "new__now", "arguments": {}}
    _, message = await front.modern("tools/call", params, capabilities=other)
    assert message["error"]["code"] == -32021
    assert message["error"]["data"] == {"requiredCapabilities": {lacking: {mode: {}}}}
    assert f"needs {lacking}.{mode}, which" in message["error"]["message"]
    client = await front.start_legacy(capabilities=other)
    assert (await client.request("tools/call", params))["error"]["code"] == -32603
    params = {"name": "old__now", "arguments": {}}
    _, message = await front.modern("tools/call", params, capabilities=other)
    assert message["error"]["code"] == -32602
    assert (await client.request("tools/call", params))["error"]["code"] == -32602


@pytest.mark.parametrize("responses", ["yes", {"input-1": "yes", "other": {}}, {"input-1": None}])
async def test_answers_that_are_none_are_refused_and_asked_for_still(
    front: Front, responses: Any
) -> None:
    """They would reach the upstream as a response that its SDK cannot read."""
    front.pool.upstreams["old"].answer = asking
    params = {"name": "old__now", "arguments": {}}
    _, message = await front.modern("tools/call", params, capabilities=ELICIT)
    again = {**params, "requestState": message["result"]["requestState"]}
    bad = {**again, "inputResponses": responses}
    status, message = await front.modern("tools/call", bad, capabilities=ELICIT)
    assert (status, message["error"]["code"]) == (400, -32602)
    assert "inputResponses" in message["error"]["message"]
    said = {"input-1": {"action": "accept", "content": {"zone": "UTC"}}, "other": 3}
    _, message = await front.modern(
        "tools/call", {**again, "inputResponses": said}, capabilities=ELICIT
    )
    assert message["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("mode", MODES)
async def test_a_question_outlives_its_call(front: Front, mode: str) -> None:
    """The upstream asks, answers the call, and learns all the same what the client says."""
    told: list[Any] = []
    asking: list[asyncio.Task[None]] = []

    async def ahead(call: Call, owner: Owner) -> Reply:
        del owner
        client = call.client
        assert client is not None

        async def ask() -> None:
            answer = await client.ask("elicitation/create", raws(FORM))
            told.append(answer.result and msgspec.json.decode(answer.result))

        asking.append(asyncio.create_task(ask()))
        await asyncio.sleep(0)
        return result({"content": [{"type": "text", "text": "done"}]})

    front.pool.upstreams["old"].answer = ahead
    async with Client(front.url + "/mcp", mode=mode, elicitation_callback=elicit) as client:
        called = await client.call_tool("old__now", {"text": "x"})
        assert called.content[0].text == "done"  # pyright: ignore[reportAttributeAccessIssue]
        await asyncio.wait_for(asking[0], 10)
    assert told == [{"action": "accept", "content": {"zone": "UTC"}}]
    assert front.edge.interactions.parked == 0
