"""What large bodies and events cost others that wait for the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine

import pytest

from armory.http1.eventstream import Event
from armory.protocol.outline import PIECE_BYTES
from armory.protocol.upstream_messages import UpstreamMessage
from armory.tasks import start
from armory.upstreams.session.budget import Budget
from armory.upstreams.transports.http_answers import messages_in, messages_of, session_over

pytestmark = pytest.mark.anyio
PIECES = 20
RESULT = {"content": [{"type": "text", "text": "é" * (PIECES * PIECE_BYTES // 2)}]}
LARGE = json.dumps({"jsonrpc": "2.0", "id": 1, "result": RESULT}, ensure_ascii=False).encode()


async def body() -> list[UpstreamMessage]:
    return await messages_of(LARGE, "up", 200)


async def event() -> list[UpstreamMessage]:
    return await messages_in(Event(LARGE), Budget("up"))


@pytest.mark.parametrize("read", [body, event])
async def test_others_have_their_turn_between_pieces_of_a_large_answer(
    read: Callable[[], Coroutine[None, None, list[UpstreamMessage]]],
) -> None:
    reading = start(read(), "reading")
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= PIECES
    assert [message.id for message in reading.result()] == [1]


def refusal(code: int, message: str) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()


@pytest.mark.parametrize(
    ("status", "code", "message", "over"),
    [
        (400, -32022, "Unsupported protocol version", True),
        (400, -32602, "params._meta lacks 'io.modelcontextprotocol/protocolVersion'", True),
        (400, -32602, "Unknown tool: x", False),
        (404, -32601, "Method not found", False),
    ],
)
def test_a_server_that_speaks_modern_revisions_alone_by_now_has_no_session(
    status: int, code: int, message: str, over: bool
) -> None:
    assert session_over(status, refusal(code, message), 1) is over


@pytest.mark.parametrize(
    ("status", "code", "message", "over"),
    [
        (404, -32001, "not known here", True),
        (404, -32600, "Session not found", True),
        (404, -32000, "Bad Request: no session", True),
        (404, -32601, "Method not found: session/x", False),
        (404, -32002, "Resource not found", False),
        (400, -32000, "Bad Request: No valid session ID provided", True),
        (400, -32602, "Unknown session: x", False),
        (401, -32000, "Unauthorized: No valid session ID provided", True),
        (401, -32001, "Unauthorized", False),
        (500, -32000, "No valid session ID provided", False),
    ],
)
def test_a_session_is_unknown_also_in_an_error_with_the_requests_own_id(
    status: int, code: int, message: str, over: bool
) -> None:
    assert session_over(status, refusal(code, message), 1) is over
