"""A scripted chat endpoint.

Owns: `ScriptedChat`, an OpenAI-compatible `/v1/chat/completions` on a port of its own, with faults.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

Fault = Literal["hang", "close", "truncate", "garbage", "no_choices", "empty", "error_in_200"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One scripted answer.

    Attributes:
        text: what the model says.
        message: members of the message beside its role, instead of `text` as its content.
        status: HTTP status; anything but 200 sends an error object.
        headers: of the answer.
        error: the error object, instead of one that says nothing.
        thinking: what the model thinks before it says something; streams have it, under each of
            the names that servers use in turn.
        fault: `hang` never answers, `close` drops the connection, `truncate` breaks off an answer
            or a stream, `garbage` answers no JSON, `no_choices` answers another object, `empty` a
            completion without text, `error_in_200` the error object with status 200.
        finish_reason: why the model stopped.
        usage: whether token counts are sent; or what is sent in their place.
    """

    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    error: Any = None
    thinking: str = ""
    fault: Fault | None = None
    finish_reason: str = "stop"
    usage: Any = True
    message: dict[str, Any] | None = None


class ScriptedChat:
    """Serves `turns` in order, one for each request; the last one is repeated. Use as an async
    context.

    Attributes:
        url: base URL, ending in `/v1`.
        requests: the bodies that came, in order.
        keys: the bearer keys that came.
    """

    def __init__(self, turns: Sequence[str | Turn]) -> None:
        self.turns = [Turn(turn) if isinstance(turn, str) else turn for turn in turns]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.url = ""
        self._released = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> ScriptedChat:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._released.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = await request.json()
        turn = self.turns[min(len(self.requests), len(self.turns) - 1)]
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if turn.fault == "hang":
            await self._released.wait()
            raise web.HTTPServiceUnavailable
        if turn.fault == "close":
            if request.transport is not None:
                request.transport.abort()
            raise web.HTTPServiceUnavailable
        if turn.fault == "garbage":
            return web.Response(text="<html>not an API</html>", content_type="text/html")
        if turn.fault == "no_choices":
            return web.json_response({"hello": "world"})
        if turn.status != 200 or turn.fault == "error_in_200":
            error = turn.error or {"message": "scripted failure", "type": "scripted"}
            return web.json_response({"error": error}, status=turn.status, headers=turn.headers)
        text = "" if turn.fault == "empty" else turn.text
        if body.get("stream"):
            return await self._stream(request, turn, text)
        answer: dict[str, Any] = {
            "id": f"chat-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model"),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", **(turn.message or {"content": text})},
                    "finish_reason": turn.finish_reason,
                }
            ],
        }
        if turn.usage is True:
            answer["usage"] = {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "total_tokens": 110,
            }
        elif turn.usage is not False:
            answer["usage"] = turn.usage
        return await _sent(request, answer, broken_off=turn.fault == "truncate")

    async def _stream(self, request: web.Request, turn: Turn, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, word in enumerate(turn.thinking.split()):
            name = ("reasoning", "reasoning_content")[number % 2]
            await response.write(_event({name: word}, None))
        words = text.split(" ") if text else []
        for number, word in enumerate(words):
            piece = word if number == 0 else f" {word}"
            await response.write(_event({"content": piece}, None))
            if turn.fault == "truncate" and number >= len(words) // 2:
                if request.transport is not None:
                    request.transport.close()
                return response
        await response.write(_event({}, "stop"))
        await response.write(b"data: [DONE]\n\n")
        return response


async def _sent(
    request: web.Request, answer: dict[str, Any], *, broken_off: bool
) -> web.StreamResponse:
    if not broken_off:
        return web.json_response(answer)
    body = json.dumps(answer).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _event(delta: dict[str, str], finish_reason: str | None) -> bytes:
    chunk = {
        "id": "chat",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }
    return f"data: {json.dumps(chunk)}\n\n".encode()
