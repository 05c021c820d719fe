"""Answers of a chat model, and of an embedding API, that do not end."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from armory.errors import BackendError
from armory.llm.bounded import ANSWER_BYTES
from armory.llm.client import ChatClient, Message
from armory.llm.errors import ChatMalformed
from armory.llm.tokens import estimate_tokens
from armory.retrieval.embedders.openai import OpenAIEmbedder
from armory.testing.chat import ScriptedChat, Turn

pytestmark = pytest.mark.anyio
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
