"""Answers too large for one piece: the same bytes over every transport, whatever comes before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw

from armory.protocol.link import Call, Owner, Reply
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.front import result
from armory.wire.messages import PIECE_BYTES
from tests.protocol.test_pipes import HELLO, stdio

if TYPE_CHECKING:
    from tests.protocol.conftest import Front

pytestmark = pytest.mark.anyio
TEXT = "".join(f"{number:07d} é\n" for number in range(PIECE_BYTES // 4))
CALL: dict[str, Any] = {"name": "old__now", "arguments": {}, "_meta": {"progressToken": 1}}


async def large(call: Call, owner: Owner) -> Reply:
    del call, owner
    return result({"content": [{"type": "text", "text": TEXT}]})


async def announced(call: Call, owner: Owner) -> Reply:
    """The same, behind a notification."""
    assert call.client is not None
    await call.client.notify("notifications/progress", {"progressToken": Raw(b"1")})
    return await large(call, owner)


def text_of(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


async def sent(front: Front, body: Any, headers: dict[str, str]) -> tuple[str, list[Any]]:
    """Post it; the kind of answer, and its messages."""
    async with front.http.post(front.url + "/mcp", json=body, headers=headers) as response:
        return response.content_type, await messages(response)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("first", [False, True])
async def test_over_http(front: Front, era: str, first: bool) -> None:
    front.pool.upstreams["old"].answer = announced if first else large
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
    if era == "modern":
        body = modern_body(1, "tools/call", CALL, CALL["_meta"])
        headers = modern_headers(body)
    else:
        headers = (await front.start_legacy()).headers
    kind, got = await sent(front, body, headers)
    assert kind == ("text/event-stream" if first else "application/json")
    assert len(got) == 1 + first
    assert text_of(got[-1]) == TEXT


async def test_in_a_batch(front: Front) -> None:
    front.pool.upstreams["old"].answer = large
    client = await front.start_legacy("2025-03-26")
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": CALL}
    _, [answers] = await client.send([{**call, "id": 1}, {**call, "id": 2}])
    assert [text_of(answer) for answer in answers] == [TEXT, TEXT]  # pyright: ignore


async def test_over_stdio(front: Front) -> None:
    front.pool.upstreams["old"].answer = large
    async with stdio(front) as pipe:
        pipe.send(modern_body(1, "tools/call", CALL))
        assert text_of(await pipe.next()) == TEXT
        pipe.send(modern_body(2, "tools/list"))
        assert (await pipe.next())["id"] == 2  # the line had ended
        pipe.send(HELLO)
        await pipe.next()
        pipe.send({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": CALL})
        assert text_of(await pipe.next()) == TEXT


async def test_over_http_sse(front: Front) -> None:
    front.pool.upstreams["old"].answer = large
    async with front.http.get(front.url + "/sse") as stream:

        async def next_data() -> bytes:
            read = bytearray()
            async with asyncio.timeout(10):
                while not read.endswith(b"\n\n"):  # one event at a time is on its way
                    read += await stream.content.readany()
            return bytes(read[read.index(b"data: ") + 6 : -2])

        path = (await next_data()).decode()
        for id in (1, 2):
            body = modern_body(id, "tools/call", CALL)
            async with front.http.post(front.url + path, json=body) as taken:
                assert taken.status == 202
            answer = msgspec.json.decode(await next_data())
            assert (answer["id"], text_of(answer)) == (id, TEXT)
