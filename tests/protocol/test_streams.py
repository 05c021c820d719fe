"""Streams: progress, cancellation, list changes, subscriptions, resumption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest
from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.session_events import Notified
from armory.testing.clients.raw import modern_body, modern_headers
from armory.testing.front import asking, result, tool
from armory.testing.waiting import until
from armory.wire.caller import Caller

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio


@dataclass
class Event:
    id: str | None
    data: dict[str, Any] | None


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    id: str | None = None
    data: str | None = None
    async for raw in response.content:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data is not None:
                yield Event(id, msgspec.json.decode(data) if data else None)
            id = data = None
        elif line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data:"):
            data = line[5:].strip()


async def next_event(stream: AsyncIterator[Event]) -> Event:
    return await asyncio.wait_for(anext(stream), 30)


async def progressing(call: Call, owner: Owner) -> Reply:
    del owner
    assert call.client is not None
    token = call.client.progress_token
    assert token is not None
    for done in (1, 2):
        params = {"progressToken": token, "progress": Raw(b"%d" % done)}
        await call.client.notify("notifications/progress", params)
    return result({"content": []})


async def test_modern_progress_turns_the_answer_into_a_stream(front: Front) -> None:
    front.pool.upstreams["old"].answer = progressing
    body = modern_body(
        "a", "tools/call", {"name": "old__now", "arguments": {}}, {"progressToken": "tok"}
    )
    headers = modern_headers(body)
    async with front.http.post(front.url + "/mcp", json=body, headers=headers) as response:
        assert response.content_type == "text/event-stream"
        got = [event.data async for event in events(response)]
    assert [m["params"]["progress"] for m in got[:2] if m] == [1, 2]
    assert got[0] is not None
    assert got[0]["params"]["progressToken"] == "tok"
    assert got[2] is not None
    assert got[2]["id"] == "a"


async def test_legacy_progress_and_resumption(front: Front) -> None:
    front.pool.upstreams["old"].answer = progressing
    client = await front.start_legacy()
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "old__now", "arguments": {}, "_meta": {"progressToken": 5}},
    }
    async with front.http.post(client.url, json=body, headers=client.headers) as response:
        assert response.content_type == "text/event-stream"
        got = [event async for event in events(response)]
    assert [event.data and event.data.get("id") for event in got] == [None, None, None, 7]
    resumed = {**client.headers, "Last-Event-ID": got[1].id or ""}
    async with front.http.get(client.url, headers=resumed) as response:
        again = [event.data async for event in events(response)]
    assert again == [got[2].data, got[3].data]


async def test_an_event_id_of_a_session_before_costs_no_event(front: Front) -> None:
    """A client whose session ended begins another, and resumes where it was in the one before."""
    client = await front.start_legacy()
    resumed = {**client.headers, "Last-Event-ID": "0_57"}
    async with front.http.get(client.url, headers=resumed) as response:
        stream = events(response)
        await next_event(stream)
        change_tools(front)
        event = await next_event(stream)
    assert event.data is not None
    assert event.data["method"] == "notifications/tools/list_changed"


async def test_a_stream_that_is_resumed_from_its_beginning_begins_there(front: Front) -> None:
    """Its first event names no place beyond what is read again behind it."""
    client = await front.start_legacy()
    async with front.http.get(client.url, headers=client.headers) as response:
        stream = events(response)
        beginning = (await next_event(stream)).id
        change_tools(front)
        said = await next_event(stream)
    resumed = {**client.headers, "Last-Event-ID": beginning or ""}
    async with front.http.get(client.url, headers=resumed) as response:
        stream = events(response)
        assert (await next_event(stream)).id == beginning
        assert await next_event(stream) == said


def change_tools(front: Front) -> None:
    """The new upstream gets one tool more."""
    upstream = front.pool.upstreams["new"]
    upstream.lists = replace(upstream.lists, tools=[*upstream.lists.tools, tool("more", "more")])
    front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))


async def test_list_changed_reaches_legacy_get_stream_once(front: Front) -> None:
    client = await front.start_legacy()
    other = await front.start_legacy(path="/mcp/old")
    async with front.http.get(client.url, headers=client.headers) as response:
        stream = events(response)
        assert (await next_event(stream)).data is None
        change_tools(front)
        await client.request("tools/list", {"_meta": {"dev.armory/query": "time"}})
        front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
        upstream = front.pool.upstreams["new"]
        upstream.lists = replace(upstream.lists, prompts=[])
        front.gateway.publish(front.pool.catalog(front.gateway.view.catalog))
        first, second = await next_event(stream), await next_event(stream)
    assert first.data is not None
    assert second.data is not None
    assert first.data["method"] == "notifications/tools/list_changed"
    assert second.data["method"] == "notifications/prompts/list_changed"
    endpoint = front.gateway.view.endpoint("server", "old")
    assert endpoint is not None
    session = front.edge.sessions.find(other.session, Caller(ANONYMOUS, endpoint))
    assert session is not None
    assert session.general.last == 0


async def test_the_acknowledgement_is_the_first_frame(front: Front) -> None:
    asked, may = asyncio.Event(), asyncio.Event()

    async def slow(
        server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        asked.set()
        await may.wait()

    front.pool.set_subscriptions = slow
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["old+file:///readme"]}
    body = modern_body("sub", "subscriptions/listen", {"notifications": wanted})
    headers = modern_headers(body)
    opening = asyncio.ensure_future(
        front.http.post(front.url + "/mcp", json=body, headers=headers).__aenter__()
    )
    async with asyncio.timeout(10):
        await asked.wait()
    change_tools(front)
    may.set()
    async with await opening as response:
        stream = events(response)
        told = [(await next_event(stream)).data for _ in range(2)]
    assert [one and one["method"] for one in told] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]


async def test_modern_listen(front: Front) -> None:
    wanted = {
        "toolsListChanged": True,
        "resourceSubscriptions": ["old+file:///readme", "nowhere+file:///x"],
    }
    body = modern_body("sub", "subscriptions/listen", {"notifications": wanted})
    headers = modern_headers(body)
    async with front.http.post(front.url + "/mcp", json=body, headers=headers) as response:
        stream = events(response)
        acknowledged = (await next_event(stream)).data
        assert acknowledged is not None
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["old+file:///readme"],
        }
        owner = "anonymous:anonymous"
        assert front.pool.subscriptions["old", owner] == {"file:///readme"}
        params = {"uri": Raw(b'"file:///readme"'), "_meta": Raw(b'{"com.example/a":1}')}
        front.gateway.on_session_event(
            Notified("old", "token:x", "notifications/resources/updated", params)
        )
        front.gateway.on_session_event(
            Notified("old", owner, "notifications/resources/updated", params)
        )
        change_tools(front)
        updated, changed = (await next_event(stream)).data, (await next_event(stream)).data
        assert updated is not None
        assert updated["params"]["uri"] == "old+file:///readme"
        assert updated["params"]["_meta"] == {
            "io.modelcontextprotocol/subscriptionId": "sub",
            "com.example/a": 1,
        }
        assert changed is not None
        assert changed["method"] == "notifications/tools/list_changed"
        front.edge.end_streams()
        ended = (await next_event(stream)).data
        assert ended is not None
        assert ended["id"] == "sub"
    subscriptions, streams = front.pool.subscriptions, front.edge.streams
    await until(lambda: subscriptions["old", owner] == frozenset() and not streams)
    await until(lambda: not len(front.gateway.changes))


async def test_a_listener_that_vanishes_or_asks_nonsense_leaves_nothing(front: Front) -> None:
    for wanted in ({"resourceSubscriptions": 3}, {"taskIds": [3]}):
        status, message = await front.modern("subscriptions/listen", {"notifications": wanted})
        assert (status, message["error"]["code"]) == (400, -32602)
    assert len(front.gateway.changes) == 0
    body = modern_body(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    response = await front.http.post(front.url + "/mcp", json=body, headers=modern_headers(body))
    await next_event(events(response))
    streams = front.edge.streams
    assert (len(streams), len(streams.listening)) == (1, 1)
    response.close()
    await until(lambda: not (streams or streams.listening or len(front.gateway.changes)))


async def test_legacy_subscribe(front: Front) -> None:
    client = await front.start_legacy()
    uri = {"uri": "old+file:///readme"}
    assert (await client.request("resources/subscribe", uri))["result"] == {}
    owner = "anonymous:anonymous"
    assert front.pool.subscriptions["old", owner] == {"file:///readme"}
    params = {"uri": Raw(b'"file:///readme"')}
    front.gateway.on_session_event(
        Notified("old", owner, "notifications/resources/updated", params)
    )
    assert (await client.request("resources/unsubscribe", uri))["result"] == {}
    assert front.pool.subscriptions["old", owner] == frozenset()
    async with front.http.get(client.url, headers=client.headers) as response:
        stream = events(response)
        await next_event(stream)
        event = await next_event(stream)
    assert event.data is not None
    assert event.data["params"]["uri"] == "old+file:///readme"


async def test_what_is_said_is_read_on_a_call_where_nothing_else_is(front: Front) -> None:
    client = await front.start_legacy()
    await client.request("resources/subscribe", {"uri": "old+file:///readme"})

    async def updating(call: Call, owner: Owner) -> Reply:
        del call
        uri = {"uri": Raw(b'"file:///readme"')}
        event = Notified("old", owner.principal.key, "notifications/resources/updated", uri)
        front.gateway.on_session_event(event)
        return result({"content": []})

    front.pool.upstreams["old"].answer = updating
    params = {"name": "old__now", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
    _, said = await client.send(body)
    assert said[0]["params"] == {"uri": "old+file:///readme"}
    assert said[1]["id"] == 9


async def test_a_modern_client_hears_what_nobody_knows(front: Front) -> None:
    async def saying(call: Call, owner: Owner) -> Reply:
        del owner
        assert call.client is not None
        for method in ("notifications/vendor", "notifications/elicitation/complete"):
            await call.client.notify(method, {"a": Raw(b"1e400")})
        return result({"content": []})

    front.pool.upstreams["new"].answer = saying
    body = modern_body(1, "tools/call", {"name": "new__now", "arguments": {}})
    async with front.http.post(
        front.url + "/mcp", json=body, headers=modern_headers(body)
    ) as response:
        text = await response.text()
    assert '{"jsonrpc":"2.0","method":"notifications/vendor","params":{"a":1e400}}' in text
    assert "elicitation" not in text


async def test_batches_in_their_revision_only(front: Front) -> None:
    client = await front.start_legacy("2025-03-26")
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "nope"},
    ]
    _, [answers] = await client.send(batch)
    assert [answer["id"] for answer in answers] == [1, "b", 3]  # pyright: ignore
    newer = await front.start_legacy("2025-06-18")
    status, [answer] = await newer.send(batch)
    assert (status, answer["error"]["code"]) == (400, -32600)


async def test_a_question_of_a_batch_takes_the_general_stream(front: Front) -> None:
    front.pool.upstreams["old"].answer = asking
    client = await front.start_legacy("2025-03-26", {"elicitation": {}})
    call = {"name": "old__now", "arguments": {}}
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}]
    async with front.http.get(client.url, headers=client.headers) as stream:
        sent = asyncio.ensure_future(client.send(batch))
        for _ in range(2):
            question = await asyncio.wait_for(next_message(stream), 30)
            assert question["method"] == "elicitation/create"
            accepted = {"action": "accept", "content": {"zone": "UTC"}}
            await client.send({"jsonrpc": "2.0", "id": question["id"], "result": accepted})
        _, [[answer]] = await asyncio.wait_for(sent, 30)
    assert answer["result"]["content"][0]["text"] == "UTC+UTC"  # pyright: ignore


async def next_message(stream: aiohttp.ClientResponse) -> Any:
    async for line in stream.content:
        if line.startswith(b"data:") and line[5:].strip():
            return msgspec.json.decode(line[5:])
    raise AssertionError("the stream ended")
