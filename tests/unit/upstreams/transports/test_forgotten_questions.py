"""Questions of a session that its upstream has forgotten since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.tasks import stop
from armory.testing.clients.recording import RecordingClient, plain
from armory.testing.upstreams.exchange import Json, Request, ScriptState, Stop, text
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.testing.upstreams.tools import TOOLS
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.session import turns
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio

BOUND_S = 10.0
METHOD = "elicitation/create"
ANN, BEN = Owner(Principal("ann")), Owner(Principal("ben"))


@pytest.fixture
async def server() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream(Script(), eras="legacy") as server:
        yield server


@pytest.fixture
async def pool(server: HttpUpstream) -> AsyncIterator[Pool]:
    pool = Pool([UpstreamSpec("up", url=server.url, isolation="shared")])
    yield pool
    await pool.close()


async def call(pool: Pool, tool: str, owner: Owner, client: RecordingClient) -> Any:
    params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b"{}")}
    sent = Call("tools/call", params, client=client, name_header=tool)
    async with asyncio.timeout(BOUND_S):
        return plain((await pool.request("up", owner, sent)).result)


def person(answer: str) -> RecordingClient:
    """Somebody who takes their time before they answer."""
    content = {"action": "accept", "content": {"said": answer}}
    client = RecordingClient({"elicitation": {}}, answers={METHOD: content})
    client.hold.clear()
    return client


def question(said: str) -> Json:
    """What a server asks first that counts its requests anew in each session."""
    params = {"message": said, "requestedSchema": {"type": "object", "properties": {}}}
    return {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params}


async def test_they_are_not_answered_in_the_next_one(pool: Pool, server: HttpUpstream) -> None:
    script, first, second = server.script, person("delete it"), person("pay it")
    answered = asyncio.Event()

    async def deletes(_script: ScriptState, request: Request) -> Json:
        await request.wire.send(question("Delete it?"))
        await first.was_asked.wait()
        server.sessions.clear()  # as if it had begun anew
        raise Stop

    async def pays(_script: ScriptState, request: Request) -> Json:
        await request.wire.send(question("Pay it?"))
        await answered.wait()
        return text("paid")

    def answers() -> list[Any]:
        given = [message for message in script.received if "method" not in message]
        return [message["result"]["content"]["said"] for message in given]

    script.behaviour |= {"deletes": deletes, "pays": pays}
    with pytest.raises(UpstreamUnavailable):
        await call(pool, "deletes", ANN, first)
    paying = asyncio.create_task(call(pool, "pays", BEN, second))
    await asyncio.wait_for(second.was_asked.wait(), BOUND_S)
    first.hold.set()
    second.hold.set()
    await until(lambda: bool(answers()))
    answered.set()
    assert (await paying)["content"][0]["text"] == "paid"
    assert answers() == ["pay it"]


@pytest.mark.parametrize(
    ("transport", "refusal", "why"),
    [
        ("streamable-http", (404, ""), "its session ended before the answer"),
        ("streamable-http", (400, "No valid session ID"), "its session ended before the answer"),
        ("streamable-http", (413, ""), r"refused the answer to its question: HTTP 413$"),
        ("sse", (404, ""), "its session ended before the answer"),
    ],
)
async def test_a_call_whose_answer_is_refused_ends_at_once(
    server: HttpUpstream,
    transport: Literal["streamable-http", "sse"],
    refusal: tuple[int, str],
    why: str,
) -> None:
    """As where another replica of the upstream is asked: the stream of its call stays open."""
    server.unknown_session = refusal
    client, over = person("delete it"), asyncio.Event()

    async def asks(_script: ScriptState, request: Request) -> Json:
        await request.wire.send(question("Delete it?"))
        await over.wait()
        raise Stop

    server.script.behaviour["asks"] = asks
    url = server.sse_url if transport == "sse" else server.url
    pool = Pool([UpstreamSpec("up", url=url, transport=transport)])
    try:
        asking = asyncio.create_task(call(pool, "asks", ANN, client))
        await asyncio.wait_for(client.was_asked.wait(), BOUND_S)
        server.sessions.clear()
        server.inboxes.forget()
        client.hold.set()
        with pytest.raises(UpstreamUnavailable, match=why):
            await asking
    finally:
        over.set()
        await pool.close()


async def test_none_is_taken_for_that_of_a_call_given_up_before(
    pool: Pool, server: HttpUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_ABANDONED_S", 0.0)
    script, client = server.script, person("ben")
    client.hold.set()
    server.ask_on_get = True

    async def asks(script: ScriptState, request: Request) -> Json:
        await until(lambda: request.wire.session in server.gets)
        return await TOOLS["elicit"](script, request)

    script.behaviour["asks"] = asks
    hanging = asyncio.create_task(call(pool, "hang", ANN, person("ann")))
    await asyncio.wait_for(script.started.wait(), BOUND_S)
    await stop(hanging)
    await until(lambda: bool(script.cancelled))
    server.sessions.clear()
    answer = (await call(pool, "asks", BEN, client))["structuredContent"]
    assert answer["result"]["content"] == {"said": "ben"}, answer
