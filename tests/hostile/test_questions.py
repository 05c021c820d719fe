"""Upstreams that ask people without end.

Bounded: questions of one session that are open at once, and what they hold; whoever they are put
to, and whatever ids they have. Those beyond are refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ElicitResult
from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.gateway.gateway import Gateway
from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.recording import RecordingClient, RecordingObserver
from armory.testing.front import ScriptedPool, ScriptedUpstream, result, serving, tool
from armory.testing.waiting import until
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio
MOST = 64
ASKED = 80
ABLE = {"sampling": {}, "elicitation": {}, "roots": {}}
METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"]
IDS = pytest.mark.parametrize("one_id", [False, True], ids=["many ids", "one id"])


class Heard(StdioLink):
    """A link without a process: what it says is what the test gives it, what it hears is kept."""

    def __init__(self, context: LinkContext) -> None:
        super().__init__(context)
        self.heard: list[Any] = []

    async def _write(self, data: bytes) -> None:
        self.heard.append(json.loads(data))

    @property
    def refused(self) -> list[str]:
        return [said["error"]["message"] for said in self.heard if "error" in said]

    async def asks(self, method: str, *, one_id: bool = False, size: int = 1) -> None:
        """So many questions more than may be open."""
        for number in range(ASKED):
            id = 1 if one_id else number
            said = {"jsonrpc": "2.0", "id": id, "method": method, "params": {"x": "y" * size}}
            self.received(json.dumps(said).encode())
            for _ in range(5):
                await asyncio.sleep(0)


def link_of(*, owner: str = "", own: RecordingClient | None = None) -> Heard:
    spec = UpstreamSpec("up", command="none", isolation="principal" if own is None else "session")
    made = Heard(LinkContext(spec, {}, RecordingObserver(), owner=owner, client=own))
    made.adopt(Identity("legacy", "2025-11-25"))
    return made


@pytest.fixture
async def client() -> AsyncIterator[RecordingClient]:
    """It answers nothing until it may."""
    made = RecordingClient(ABLE, answers={method: {} for method in METHODS})
    made.hold.clear()
    yield made
    made.hold.set()


async def called(link: Heard, client: RecordingClient) -> asyncio.Task[Any]:
    call = Call("tools/call", {"name": Raw(b'"x"')}, client)
    calling = asyncio.ensure_future(link.request(call))
    await until(lambda: bool(link.requests.pending))
    return calling


async def answered(link: Heard, client: RecordingClient) -> None:
    """Those that are open are answered, and there is room for others."""
    client.hold.set()
    await until(lambda: sum("result" in said for said in link.heard) == MOST)
    said = {"jsonrpc": "2.0", "id": 999, "method": "sampling/createMessage", "params": {}}
    link.received(json.dumps(said).encode())
    await until(lambda: any(said.get("id") == 999 and "result" in said for said in link.heard))


def check(link: Heard, client: RecordingClient) -> None:
    assert len(client.asked) == MOST
    assert link.refused == ["too many questions of this server are open"] * (ASKED - MOST)


@IDS
@pytest.mark.parametrize("method", METHODS)
async def test_questions_during_a_call(method: str, one_id: bool, client: RecordingClient) -> None:
    link = link_of(owner="ann")
    calling = await called(link, client)
    await link.asks(method, one_id=one_id)
    check(link, client)
    await answered(link, client)
    calling.cancel()
    await link.close()


@IDS
@pytest.mark.parametrize("method", METHODS)
async def test_questions_in_the_session_of_one_client(
    method: str, one_id: bool, client: RecordingClient
) -> None:
    link = link_of(owner="ann", own=client)
    await link.asks(method, one_id=one_id)
    check(link, client)
    await answered(link, client)
    await link.close()


@IDS
async def test_questions_about_roots_that_changed(one_id: bool, client: RecordingClient) -> None:
    link = link_of(owner="ann")
    await link.roots_changed(client, {})
    await link.asks("roots/list", one_id=one_id)
    check(link, client)
    client.hold.set()
    await link.close()


@IDS
async def test_questions_before_the_first_call(one_id: bool, client: RecordingClient) -> None:
    link = link_of(owner="ann")
    await link.asks("sampling/createMessage", one_id=one_id)
    assert client.asked == []
    calling = await called(link, client)
    await until(lambda: len(client.asked) == MOST)
    check(link, client)
    await answered(link, client)
    calling.cancel()
    await link.close()


async def test_what_open_questions_hold(client: RecordingClient) -> None:
    link = link_of(owner="ann", own=client)
    await link.asks("elicitation/create", size=1 << 20)
    await until(lambda: len(client.asked) + len(link.refused) == ASKED)
    assert len(client.asked) == 15  # and somewhat more than a MiB each
    client.hold.set()
    await link.close()


async def test_all_questions_of_one_id_are_withdrawn(client: RecordingClient) -> None:
    link = link_of(owner="ann", own=client)
    await link.asks("elicitation/create", one_id=True)
    said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    link.received(json.dumps(said).encode())
    await until(lambda: not link.requests.questions._open)  # pyright: ignore[reportPrivateUsage]
    assert not [said for said in link.heard if "result" in said]
    await link.close()


@pytest.mark.parametrize("number", [MOST, MOST + 1])
async def test_inputs_that_a_modern_upstream_wants_at_once(number: int) -> None:
    asked = 0

    async def needing(call: Call, _owner: Owner) -> Reply:
        if "inputResponses" in call.params:
            return result({"resultType": "complete", "content": []}, "modern")
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        request = {"method": "elicitation/create", "params": form}
        wanted = {f"q{n}": request for n in range(number)}
        return result({"resultType": "input_required", "inputRequests": wanted}, "modern")

    async def elicit(context: Any, params: Any) -> ElicitResult:
        del context, params
        nonlocal asked
        asked += 1
        return ElicitResult(action="accept", content={})

    lists = ServerLists(tools=[tool("now", "tells")], capabilities={"tools": {}})
    pool = ScriptedPool({"up": ScriptedUpstream(lists, needing)})
    gateway = Gateway(pool)
    gateway.publish(pool.catalog())
    async with (
        serving(gateway) as (url, _),
        Client(f"{url}/mcp", mode="legacy", elicitation_callback=elicit) as client,
    ):
        if number > MOST:
            with pytest.raises(MCPError, match="65 inputs at once; 64 are the most"):
                await client.call_tool("up__now", {})
        else:
            assert not (await client.call_tool("up__now", {})).is_error
    assert asked == (0 if number > MOST else number)
