"""A stand-in for a chat model behind an OpenAI-compatible API, so that examples run anywhere.

It can do one thing that models do: call the offered tool that fits, then say what came of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

TITLE, BODY = "Milk", "Buy milk on the way home"


async def _answer(request: web.Request) -> web.Response:
    body: dict[str, Any] = await request.json()
    offered = [tool["function"]["name"] for tool in body.get("tools", [])]
    told = [message for message in body["messages"] if message["role"] == "tool"]
    fitting = [name for name in offered if name.endswith("add_note")]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if told:
        message["content"] = f"Done: {told[-1]['content']}"
    elif fitting:
        call = {"name": fitting[0], "arguments": json.dumps({"title": TITLE, "body": BODY})}
        message["tool_calls"] = [{"id": "call-1", "type": "function", "function": call}]
    else:
        message["content"] = "I have no tool for that."
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
    }
    return web.json_response(
        {
            "id": "local",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
        }
    )


@asynccontextmanager
async def local_model() -> AsyncGenerator[str]:
    """The base URL of the stand-in."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
