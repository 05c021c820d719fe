"""stdio and HTTP+SSE in front."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from armory.protocol.link import HEARS_PROGRESS, Call, ClientGone, Owner, Reply
from armory.testing.clients.raw import modern_body
from armory.testing.front import FORM, asking, plain, raws, result
from armory.wire.settings import StdioSettings
from armory.wire.stdio import serve_stdio

if TYPE_CHECKING:
    from tests.protocol.conftest import Front, Hanging

pytestmark = pytest.mark.anyio
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "0"},
    },
}


class Pipe:
    """The client's end of a stdio connection."""

    def __init__(self, out: int, reader: asyncio.StreamReader) -> None:
        self._out = out
        self._reader = reader

    def send(self, message: Any) -> None:
        os.write(self._out, msgspec.json.encode(message) + b"\n")

    def send_raw(self, line: bytes) -> None:
        os.write(self._out, line + b"\n")

    def end(self) -> None:
        os.close(self._out)

    async def next(self) -> Any:
        line = await asyncio.wait_for(self._reader.readline(), 30)
        return msgspec.json.decode(line)


@asynccontextmanager
async def stdio(front: Front, line_bytes: int = 1 << 20, **limits: int) -> AsyncGenerator[Pipe]:
    to_server, from_client = os.pipe()
    from_server, to_client = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(1 << 26)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb")
    )
    pipe = Pipe(from_client, reader)
    with os.fdopen(to_client, "wb") as stdout:
        stdin = os.fdopen(to_server, "rb")
        serving = asyncio.ensure_future(
            serve_stdio(
                front.gateway,
                settings=StdioSettings(line_bytes=line_bytes, **limits),
                stdin=stdin,
                stdout=stdout,
            )
        )
        try:
            yield pipe
        finally:
            pipe.end()
            await asyncio.wait_for(serving, 30)
            transport.close()


async def test_stdio_modern(front: Front) -> None:
    async with stdio(front) as pipe:
        pipe.send(modern_body(1, "server/discover"))
        assert (await pipe.next())["result"]["supportedVersions"] == ["2026-07-28"]
        pipe.send(modern_body("b", "tools/list", meta={"dev.armory/query": "current time"}))
        answer = await pipe.next()
        assert answer["id"] == "b"
        assert answer["result"]["tools"][0]["name"] == "new__now"
        pipe.send(modern_body(2, "tools/call", {"name": "old__now", "arguments": {}}))
        assert (await pipe.next())["result"]["resultType"] == "complete"
        pipe.send_raw(b"{")
        assert (await pipe.next())["error"]["code"] == -32700


async def test_stdio_modern_listen(front: Front) -> None:
    async with stdio(front) as pipe:
        wanted = {"notifications": {"toolsListChanged": True}}
        pipe.send(modern_body(1, "subscriptions/listen", wanted))
        first = await pipe.next()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        front.gateway.publish(front.pool.catalog())
        pipe.send(modern_body(2, "tools/list"))
        assert (await pipe.next())["id"] == 2
    assert len(front.gateway.changes) == 0


async def test_stdio_legacy_with_a_question(front: Front) -> None:
    front.pool.upstreams["old"].answer = asking
    async with stdio(front) as pipe:
        pipe.send(HELLO)
        assert (await pipe.next())["result"]["protocolVersion"] == "2025-11-25"
        call = {"name": "old__now", "arguments": {}}
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        for _ in range(2):
            question = await pipe.next()
            assert question["method"] == "elicitation/create"
            accepted = {"action": "accept", "content": {"zone": "UTC"}}
            pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": accepted})
        answer = await pipe.next()
        assert answer["id"] == 1
        assert answer["result"]["content"][0]["text"] == "UTC+UTC"
    assert len(front.gateway.changes) == 0


async def test_stdio_survives_a_line_that_is_too_long(front: Front) -> None:
    async with stdio(front, line_bytes=10_000) as pipe:
        pipe.send_raw(b"x" * 50_000)
        assert (await pipe.next())["error"]["code"] == -32600
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (await pipe.next())["result"] == {}


async def test_stdio_batches_and_bad_messages(front: Front) -> None:
    async with stdio(front) as pipe:
        pipe.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        assert (await pipe.next())["error"]["code"] == -32600
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert (await pipe.next())["error"]["code"] == -32600
        old = {**HELLO["params"], "protocolVersion": "2025-03-26"}
        pipe.send({**HELLO, "params": {**old, "protocolVersion": 3}})
        assert (await pipe.next())["error"]["code"] == -32602
        pipe.send({**HELLO, "params": old})
        assert (await pipe.next())["result"]["protocolVersion"] == "2025-03-26"
        pipe.send(HELLO)
        assert (await pipe.next())["error"]["code"] == -32600
        pipe.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                {"jsonrpc": "2.0", "id": 2},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 3, "method": "tools/list"},
            ]
        )
        answers = await pipe.next()
        assert sorted(answer["id"] for answer in answers) == [1, 2, 3]


async def test_stdio_batches_are_within_the_configured_limits(front: Front) -> None:
    params = {**HELLO["params"], "protocolVersion": "2025-03-26"}
    async with stdio(front, batch_items=120, batch_answer_bytes=2_000) as pipe:
        pipe.send({**HELLO, "params": params})
        await pipe.next()
        pipe.send([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(120)])
        answers = await pipe.next()
        assert [answer["id"] for answer in answers] == list(range(120))
        refused = [answer["error"]["message"] for answer in answers if "error" in answer]
        assert 40 <= len(refused) <= 80, "a pong has some 36 bytes"
        assert all("server.limits.batch_answer_bytes" in message for message in refused)
        pipe.send([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(121)])
        assert "more than 120 messages" in (await pipe.next())["error"]["message"]


async def test_stdio_reads_on_while_a_batch_is_served(front: Front) -> None:
    """A call of a batch asks the client; its answer is the next line."""

    async def rooted(call: Call, owner: Owner) -> Reply:
        assert call.client is not None
        answer = await call.client.ask("roots/list", {})
        return Reply(answer.result, answer.error, era="legacy")

    front.pool.upstreams["old"].answer = rooted
    params = {**HELLO["params"], "protocolVersion": "2025-03-26", "capabilities": {"roots": {}}}
    call = {"name": "old__now", "arguments": {}}
    async with stdio(front) as pipe:
        pipe.send({**HELLO, "params": params})
        await pipe.next()
        pipe.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}])
        question = await pipe.next()
        assert question["method"] == "roots/list"
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        (answer,) = await pipe.next()
        assert (answer["id"], answer["result"]["roots"]) == (1, [])


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}])
async def test_stdio_cancellation(
    front: Front, hanging: Hanging, capabilities: dict[str, Any]
) -> None:
    async with stdio(front) as pipe:
        params = {"name": "old__now", "arguments": {}}
        pipe.send(modern_body("x", "tools/call", params, capabilities=capabilities))
        await asyncio.wait_for(hanging.begun.wait(), 10)
        why = {"requestId": "x", "reason": "enough"}
        pipe.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": why})
        await asyncio.wait_for(hanging.ended.wait(), 10)
        assert [str(why) for why in hanging.why] == ["enough"]
        pipe.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await pipe.next())["id"] == 2


@pytest.mark.parametrize("id", [{}, {"id": None}])
async def test_an_error_that_names_no_request_is_not_answered(front: Front, id: Any) -> None:
    lost = {"jsonrpc": "2.0", **id, "error": {"code": -32700, "message": "?"}}
    async with stdio(front) as pipe:
        for message in (lost, HELLO, lost, {"jsonrpc": "2.0", "id": 1, "method": "ping"}):
            pipe.send(message)
        assert [(await pipe.next())["id"] for _ in range(2)] == [0, 1]
    client = await front.start_legacy()
    assert await client.send(lost) == (202, [])


async def test_a_clients_own_tasks_are_not_offered_to_servers(front: Front) -> None:
    declared: list[Any] = []

    async def tasked(call: Call, owner: Owner) -> Reply:
        assert call.client is not None
        declared.extend((call.client.capabilities, owner.capabilities))
        params = raws({**FORM, "task": {"ttl": 60_000}})
        answer = await call.client.ask("elicitation/create", params)
        return Reply(answer.result, answer.error, era="legacy")

    front.pool.upstreams["old"].answer = tasked
    able = {"elicitation": {}, "experimental": {"x": {}}}
    tasks = {"requests": {"elicitation": {"create": {}}}}
    hello = {**HELLO, "params": {**HELLO["params"], "capabilities": {**able, "tasks": tasks}}}
    call = {"name": "old__now", "arguments": {}}
    async with stdio(front) as pipe:
        pipe.send(hello)
        await pipe.next()
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        question = await pipe.next()
        assert question["params"] == FORM
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        assert (await pipe.next())["result"] == {"action": "decline"}
    assert declared == [able, able]


async def test_progress_on_questions_is_told_apart(front: Front) -> None:
    """Two servers ask under the same token; what is reported after the answer is not passed on."""
    heard: dict[str, list[Any]] = {"old": [], "new": []}

    async def asking(call: Call, owner: Owner) -> Reply:
        assert call.client is not None
        server = plain(call.params)["arguments"]["at"]
        HEARS_PROGRESS.set(lambda params: heard[server].append(plain(params)["progress"]))
        params = raws(
            {"messages": [], "maxTokens": 1, "_meta": {"progressToken": 1, "v/x": server}}
        )
        answer = await call.client.ask("sampling/createMessage", params)
        return Reply(answer.result, answer.error, era="legacy")

    hello = {**HELLO, "params": {**HELLO["params"], "capabilities": {"sampling": {}}}}
    tokens: dict[str, Any] = {}

    def report(server: str, progress: float) -> None:
        params = {"progressToken": tokens[server], "progress": progress}
        pipe.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    async with stdio(front) as pipe:
        pipe.send(hello)
        await pipe.next()
        for server in heard:
            front.pool.upstreams[server].answer = asking
            call = {"name": f"{server}__now", "arguments": {"at": server}}
            pipe.send({"jsonrpc": "2.0", "id": server, "method": "tools/call", "params": call})
        asked = [await pipe.next() for _ in heard]
        for question in asked:
            meta = question["params"]["_meta"]
            tokens[meta["v/x"]] = meta["progressToken"]
        report("new", 0.5)
        report("old", 1)
        for token in (None, 1, {"a": 1}, "armory-99"):
            tokens["other"] = token
            report("other", 9)
        pipe.send({"jsonrpc": "2.0", "method": "notifications/progress"})
        report("new", 2)
        for question in asked:
            pipe.send({"jsonrpc": "2.0", "id": question["id"], "result": {}})
        assert {(await pipe.next())["id"] for _ in asked} == set(heard)
        report("old", 3)
        pipe.send({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        await pipe.next()
    assert heard == {"old": [1], "new": [0.5, 2]}


async def test_who_has_closed_its_input_is_not_waited_for_to_answer(front: Front) -> None:
    gone: list[str] = []

    async def asking(call: Call, owner: Owner) -> Reply:
        del owner
        assert call.client is not None
        try:
            await call.client.ask("elicitation/create", raws(FORM))
        except ClientGone as why:
            gone.append(str(why))
        return result({"content": []})

    front.pool.upstreams["old"].answer = asking
    call = {"name": "old__now", "arguments": {}}
    async with stdio(front) as pipe:
        pipe.send(HELLO)
        await pipe.next()
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert (await pipe.next())["method"] == "elicitation/create"
    assert gone == ["the client answers nothing any more"]
