"""APIs that are called compatible, and take fewer texts, shorter texts or other parameters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from armory.errors import BackendError
from armory.retrieval.embedders.openai import OpenAIEmbedder
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
DIM = 8


class StrictApi:
    """An embeddings API with limits; each is None until a test sets it."""

    def __init__(self) -> None:
        self.texts: int | None = None
        self.chars: int | None = None
        self.parameter: str | None = None
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self._inner = HashingEmbedder(DIM)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        if said := self._refusal(body):
            return web.json_response({"error": {"message": said}}, status=400)
        vectors = await self._inner.embed_queries(body["input"])
        data = [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
        return web.json_response({"data": data})

    def _refusal(self, body: dict[str, Any]) -> str:
        if self.texts is not None and len(body["input"]) > self.texts:
            return f"at most {self.texts} requests can be in one batch"
        if self.chars is not None and max(map(len, body["input"])) > self.chars:
            return "this model's maximum context length is 512 tokens"
        if self.parameter == "dimensions" and "dimensions" in body:
            return "Model does not support matryoshka representation"
        if self.parameter == "encoding_format" and body["encoding_format"] == "base64":
            return "encoding_format: only float is supported"
        return "this model makes no embeddings" if self.parameter == "all" else ""


@pytest.fixture
async def api() -> AsyncIterator[StrictApi]:
    strict = StrictApi()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/embeddings", strict.handle)
    async with TestServer(app) as server:
        strict.url = str(server.make_url("/v1"))
        yield strict


@pytest.fixture
async def embedder(api: StrictApi) -> AsyncIterator[OpenAIEmbedder]:
    made = OpenAIEmbedder("some-model", base_url=api.url, dimensions=DIM, retries=0)
    yield made
    await made.aclose()


TEXTS = [f"tool number {number} does {number * 7}" for number in range(150)]


async def test_a_batch_that_is_too_large_is_halved_until_it_is_taken(
    api: StrictApi, embedder: OpenAIEmbedder
) -> None:
    api.texts = 32
    found = await embedder.embed_documents(TEXTS)
    np.testing.assert_allclose(found, await HashingEmbedder(DIM).embed_queries(TEXTS), atol=1e-5)
    assert sum(len(one["input"]) > 32 for one in api.requests) == 3, "150, 75, 38"
    api.requests.clear()
    assert (await embedder.embed_documents(TEXTS)).shape == (150, DIM)
    assert max(len(one["input"]) for one in api.requests) <= 32, "it is known by now"


async def test_a_text_that_is_too_long_is_cut_and_alone(
    api: StrictApi, embedder: OpenAIEmbedder
) -> None:
    api.chars = 2_000
    long = "what it does, at length, and then again. " * 100
    found = await embedder.embed_documents([*TEXTS[:40], long, *TEXTS[40:]])
    expected = await HashingEmbedder(DIM).embed_queries(TEXTS)
    np.testing.assert_allclose(np.delete(found, 40, 0), expected, atol=1e-5)
    api.requests.clear()
    await embedder.embed_documents([*TEXTS, long])
    assert [len(one["input"]) for one in api.requests] == [151], "it is known by now"
    assert max(map(len, api.requests[0]["input"])) <= 2_000


@pytest.mark.parametrize("parameter", ["dimensions", "encoding_format"])
async def test_a_parameter_that_is_refused_is_left_out(
    api: StrictApi, embedder: OpenAIEmbedder, parameter: str
) -> None:
    api.parameter = parameter
    assert (await embedder.embed_documents(TEXTS)).shape == (150, DIM)
    assert (await embedder.embed_queries(["a"])).shape == (1, DIM)
    assert [len(one["input"]) for one in api.requests] == [150, 150, 1]


async def test_what_is_refused_for_another_reason_is_told_as_the_api_tells_it(
    api: StrictApi, embedder: OpenAIEmbedder
) -> None:
    api.parameter = "all"
    with pytest.raises(BackendError, match="HTTP 400; it says: this model makes no embeddings"):
        await embedder.embed_documents(TEXTS)
    assert len(api.requests) <= 9, "150 halved down to one"
    api.parameter = None
    api.requests.clear()
    await embedder.embed_documents(TEXTS)
    assert [len(one["input"]) for one in api.requests] == [150], "nothing was learnt from it"
