"""Answers of a chat model, and of an embedding API, that do not end."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from armory.agent.runs import MAX_RUNS_OF_CALLER
from armory.config import load_text
from armory.errors import BackendError
from armory.llm.bounded import ANSWER_BYTES
from armory.llm.client import ChatClient, Message
from armory.llm.errors import ChatMalformed
from armory.llm.tokens import estimate_tokens
from armory.retrieval.embedders.openai import OpenAIEmbedder
from armory.runtime.opening import open_runtime
from armory.tasks import spawn
from armory.testing.chat import ScriptedChat, Turn
from armory.testing.waiting import eventually, until

pytestmark = pytest.mark.anyio
TOKEN = "the-long-token-of-"
ASK: list[Message] = [{"role": "user", "content": "hello"}]
SAID = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"'
MIB = b"x" * (1 << 20)
ENDLESS = 64
"""MiB: many times what is read of an answer."""


def packed() -> list[bytes]:
    """An answer of 64 MiB in less than 100 KiB."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [stream.compress(piece) for piece in (SAID, *[MIB] * ENDLESS, b'"}}]}')]
    return [*pieces, stream.flush()]


class Model:
    """An API whose answers do not end; `coded` ones are small on the way."""

    def __init__(self) -> None:
        self.url = ""
        self.coded = False
        self.sent = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.sent = 0
        streams = (await request.json()).get("stream")
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream" if streams else "application/json"}
        )
        if self.coded:
            response.headers["Content-Encoding"] = "gzip"
        await response.prepare(request)
        pieces = packed() if self.coded else [b"data: " if streams else SAID, *[MIB] * ENDLESS]
        with suppress(ConnectionError):
            for piece in pieces:
                await response.write(piece)
                self.sent += len(piece)
        return response


@pytest.fixture
async def model() -> AsyncGenerator[Model]:
    made = Model()
    app = web.Application()
    app.router.add_post("/v1/{what:.*}", made.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield made
    await runner.cleanup()


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "coded"])
async def test_of_a_chat_models_answer_so_much_is_read(model: Model, coded: bool) -> None:
    model.coded = coded
    async with ChatClient(model.url, "small", max_retries=0) as chat:
        with pytest.raises(ChatMalformed, match="the answer is over 8 MiB"):
            await chat.complete(ASK)
    assert coded or model.sent <= 3 * ANSWER_BYTES  # the rest is in the network's buffers


async def test_of_a_chat_models_stream_so_much_is_read(model: Model) -> None:
    async with ChatClient(model.url, "small", max_retries=0) as chat:
        with pytest.raises(ChatMalformed, match="the answer is over 8 MiB"):
            await chat.time_to_first_token(ASK)
    assert model.sent <= 3 * ANSWER_BYTES


async def test_of_a_long_answer_the_beginning_is_counted() -> None:
    """A million characters of it would take a second, in which nobody is answered."""
    begun = "a," * 10_000
    said = Turn(begun + "x" * 980_000, usage=False)
    async with ScriptedChat([said]) as server, ChatClient(server.url, "small") as chat:
        answer = await chat.complete(ASK)
    assert answer.completion_tokens == 50 * estimate_tokens(begun)


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "coded"])
async def test_of_vectors_so_much_is_read_as_they_can_be_long(model: Model, coded: bool) -> None:
    model.coded = coded
    options: dict[str, Any] = {"base_url": model.url, "dimensions": 8, "retries": 0}
    embedder = OpenAIEmbedder("small", max_texts=4, **options)
    with pytest.raises(BackendError, match="the answer is over 1 MiB"):
        await embedder.embed_queries(["hello"])
    await embedder.aclose()
    assert coded or model.sent <= 3 * ANSWER_BYTES


async def test_who_keeps_the_agent_busy_leaves_room_for_others(tmp_path: Path) -> None:
    config = {
        "security": {"tokens": {name: {"token": TOKEN + name} for name in ("ann", "bob")}},
        "tool_rag": {"ranker": "lexical"},
        "storage": {"url": f"sqlite:///{tmp_path}/armory.db"},
        "observability": {"log_level": "error"},
    }
    async with ScriptedChat([Turn(fault="hang")]) as model, aiohttp.ClientSession() as http:
        agent = {"enabled": True, "base_url": model.url, "model": "small"}
        text = json.dumps({**config, "agent": agent})
        loaded = load_text(text, environ={"ARMORY_HOME": str(tmp_path)})
        async with open_runtime(loaded, address=("127.0.0.1", 0)) as runtime:
            assert runtime.listening is not None
            url = f"{runtime.listening.url}/v1/retrieve_tools"

            async def ask(name: str) -> int:
                body = {"query": "what time is it", "mode": "agent"}
                headers = {"Authorization": f"Bearer {TOKEN}{name}"}
                async with http.post(url, json=body, headers=headers) as response:
                    return response.status

            async def begun(name: str) -> asyncio.Task[int] | None:
                before = len(model.requests)
                one = spawn(ask(name), "asks")
                await until(lambda: one.done() or len(model.requests) > before)
                return None if one.done() else one

            waiting = [await begun("ann") for _ in range(MAX_RUNS_OF_CALLER)]
            assert None not in waiting
            assert await asyncio.wait_for(ask("ann"), 15) == 429
            waiting.append(await begun("bob"))
            for one in waiting:
                assert one is not None
                one.cancel()

            async def let_in() -> bool:
                one = await begun("ann")
                return one is not None and one.cancel()

            await eventually(let_in)
