"""Numbers that no double holds, as 1e400: JSON all the same, so they pass where nobody reads them,
and are refused by name where somebody must.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw

from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.clients.recording import RecordingObserver
from armory.testing.front import asking, result
from armory.upstreams.session.context import LinkContext
from armory.upstreams.session.handshake import Incompatible, identity_of_initialization
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
HUGE = Raw(b"1e400")
ELICIT = {"elicitation": {"form": {}}}
ANSWER = {"action": "accept", "content": {"zone": "UTC"}}


async def post(
    front: Front, method: str, params: dict[str, Any], path: str = "/mcp", **headers: str
) -> dict[str, Any]:
    meta = params.pop("_meta", None)
    body = modern_body(1, method, params, meta, ELICIT)
    sent = {**modern_headers(body), "Content-Type": "application/json", **headers}
    data = msgspec.json.encode(body)
    async with front.http.post(front.url + path, data=data, headers=sent) as response:
        return (await messages(response))[-1]


async def test_a_call_with_one_is_asked_back_and_goes_on(front: Front) -> None:
    front.pool.upstreams["old"].answer = asking
    call = {"name": "old__now", "arguments": {"n": HUGE}}
    asked = (await post(front, "tools/call", dict(call)))["result"]
    for _ in range(2):
        assert asked["resultType"] == "input_required"
        answers = dict.fromkeys(asked["inputRequests"], ANSWER)
        again = {**call, "inputResponses": answers, "requestState": asked["requestState"]}
        asked = (await post(front, "tools/call", again))["result"]
    assert asked["content"][0]["text"] == "UTC+UTC"


async def test_it_costs_no_other_parameter_its_header(front: Front) -> None:
    properties = {
        "zone": {"type": "string", "x-mcp-header": "Zone"},
        "n": {"type": "integer", "x-mcp-header": "N"},
    }
    upstream = front.pool.upstreams["new"]
    tool = {"name": "now", "inputSchema": {"type": "object", "properties": properties}}
    upstream.lists = replace(upstream.lists, tools=[tool])
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
    seen: list[Call] = []

    async def noting(call: Call, owner: Owner) -> Reply:
        del owner
        seen.append(call)
        return result({"resultType": "complete", "content": []}, "modern")

    upstream.answer = noting
    call = {"name": "now", "arguments": {"zone": "UTC", "n": HUGE}}
    said = await post(front, "tools/call", call, "/mcp/new", **{"Mcp-Param-Zone": "UTC"})
    assert "result" in said
    (sent,) = seen
    assert sent.param_headers == {"Mcp-Param-Zone": "UTC"}
    assert bytes(sent.params["arguments"]) == b'{"zone":"UTC","n":1e400}'


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/list", {"query": HUGE}, "params.query"),
        ("tools/list", {"_meta": {"dev.armory/top_k": HUGE}}, "dev.armory/top_k"),
        ("tools/call", {"name": "search_tools", "arguments": {"query": HUGE}}, "arguments.query"),
        (
            "tools/call",
            {"name": "search_tools", "arguments": {"query": "x", "top_k": HUGE}},
            "arguments.top_k",
        ),
    ],
)
async def test_who_must_read_it_refuses_it_by_name(
    front: Front, method: str, params: dict[str, Any], named: str
) -> None:
    error = (await post(front, method, dict(params)))["error"]
    assert error["code"] == -32602
    assert named in error["message"]


async def test_a_name_that_is_one_does_not_fit_its_header(front: Front) -> None:
    error = (await post(front, "tools/call", {"name": HUGE}, **{"Mcp-Name": "x"}))["error"]
    assert error["code"] == -32020


@pytest.mark.parametrize(
    "said",
    [b'{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"n":1e400}}}', b"[]", b"{}"],
)
async def test_an_upstream_that_begins_with_one_is_told_so(said: bytes) -> None:
    link = StdioLink(LinkContext(UpstreamSpec("up", command="none"), {}, RecordingObserver()))
    with pytest.raises(Incompatible) as told:
        identity_of_initialization(link, Reply(Raw(said)))
    assert f"answered initialize with {said.decode()[:77]}" in str(told.value)
    assert "revision" not in str(told.value)
