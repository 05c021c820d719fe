"""One suite over every embedder; the one over HTTP against a server that speaks the API."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from armory.errors import BackendError, ConfigError
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.embedders.embedded import (
    SHIPPED,
    EmbeddedEmbedder,
)
from armory.retrieval.embedders.fastembed import FastembedEmbedder
from armory.retrieval.embedders.openai import OpenAIEmbedder
from armory.retrieval.options import OpenAISettings, PartOptions
from armory.retrieval.ports import Embedder
from armory.retrieval.registry import make_embedder
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
DIM = 8


class FakeApi:
    """`POST /v1/embeddings` as OpenAI defines it; `script` answers the next requests instead."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.script: list[Handler] = []
        self.url = ""
        self._inner = HashingEmbedder(DIM)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization"))
        if self.script:
            return await self.script.pop(0)(request)
        return web.json_response(await self.answer(body))

    async def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        vectors = 3.0 * await self._inner.embed_queries(body["input"])
        data = [
            {
                "object": "embedding",
                "index": i,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode(),
            }
            for i, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    fake = FakeApi()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/embeddings", fake.handle)
    async with TestServer(app) as server:
        fake.url = str(server.make_url("/v1"))
        yield fake


def client(api: FakeApi, **options: Any) -> OpenAIEmbedder:
    options = {"api_key": "sk-secret", "dimensions": DIM, "wait_s": 0.001} | options
    return OpenAIEmbedder("some-model", base_url=api.url, **options)


@pytest.fixture
def local_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(SHIPPED, folder)
    pad = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"max_length": 256, **pad}))
    (folder / "special_tokens_map.json").write_text(json.dumps(pad))
    return folder


async def test_without_a_url_it_is_openais_own_whatever_other_programs_are_told(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api.url)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nothing leaves this machine
    made = OpenAIEmbedder("text-embedding-3-small", api_key="sk-secret", retries=0)
    with pytest.raises(BackendError, match=r"api\.openai\.com/v1 cannot be reached"):
        await made.embed_queries(["a text"])
    await made.aclose()
    assert not api.requests


@pytest.fixture(params=["hashing", "embedded", "openai", "fastembed", "cached"])
async def embedder(
    request: pytest.FixtureRequest, api: FakeApi, local_folder: Path
) -> AsyncIterator[Embedder]:
    makers: dict[str, Callable[[], Embedder]] = {
        "hashing": HashingEmbedder,
        "embedded": EmbeddedEmbedder,
        "openai": lambda: client(api),
        "fastembed": lambda: FastembedEmbedder(str(local_folder)),
        "cached": lambda: CachedEmbedder(EmbeddedEmbedder()),
    }
    made = makers[request.param]()
    yield made
    await made.aclose()


TEXTS = [
    "get the current time in a time zone",
    "x",
    "发送电子邮件",
    "word " * 5_000,
    "a lone \ud800 surrogate",
    "",
]


async def test_unit_rows_of_the_stated_dimension(embedder: Embedder) -> None:
    for embed in (embedder.embed_documents, embedder.embed_queries):
        found = await embed(TEXTS)
        assert found.shape == (len(TEXTS), embedder.dimension)
        assert found.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
        assert (await embed([])).shape == (0, embedder.dimension)


async def test_a_text_has_one_vector_whatever_stands_beside_it(embedder: Embedder) -> None:
    together = await embedder.embed_documents(TEXTS[:4])
    alone = [(await embedder.embed_documents([text]))[0] for text in TEXTS[:4]]
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-5)


async def test_near_in_words_is_near_in_vectors(embedder: Embedder) -> None:
    documents = await embedder.embed_documents(
        ["get the current time in a time zone", "send an email message to a person"]
    )
    query = (await embedder.embed_queries(["what is the current time zone time"]))[0]
    assert documents[0] @ query > documents[1] @ query


async def test_identity_is_stable_text(embedder: Embedder) -> None:
    assert embedder.identity
    assert embedder.identity == embedder.identity.strip()


async def test_calls_at_once_give_the_vectors_of_one_alone(embedder: Embedder) -> None:
    alone = await embedder.embed_queries(["alpha beta"])
    found = await asyncio.gather(*(embedder.embed_queries(["alpha beta"]) for _ in range(8)))
    for vectors in found:
        np.testing.assert_allclose(vectors, alone, atol=1e-5)


async def test_openai_batches_by_number_and_tokens(api: FakeApi) -> None:
    few = client(api, max_texts=2)
    await few.embed_documents(["a", "b", "c", "d", "e"])
    assert [len(r["input"]) for r in api.requests] == [2, 2, 1]
    api.requests.clear()
    small = client(api, max_tokens=60)
    await small.embed_documents([" ".join(["word"] * 40)] * 3)
    assert [len(r["input"]) for r in api.requests] == [1, 1, 1]
    assert api.requests[0]["dimensions"] == DIM
    assert api.requests[0]["model"] == "some-model"
    await few.aclose()
    await small.aclose()


async def test_openai_cuts_texts_to_the_models_limit(api: FakeApi) -> None:
    embedder = client(api)
    await embedder.embed_documents(["wort " * 20_000])
    assert len(api.requests[0]["input"][0]) <= 32_000
    await embedder.aclose()


async def test_openai_counts_tokens_and_cost(api: FakeApi) -> None:
    embedder = client(api)
    await embedder.embed_documents(["a", "b"])
    await embedder.embed_queries(["c"])
    assert (embedder.cost.requests, embedder.cost.tokens) == (2, 14)
    assert embedder.cost.dollars is None, "no list price for another provider's model"
    assert api.keys == ["Bearer sk-secret"] * 2
    await embedder.aclose()


def status(code: int, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=code, headers=headers)

    return answer


def text(body: str, kind: str = "application/json") -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, content_type=kind)

    return answer


async def silence(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    "fault", [status(429, **{"Retry-After": "0"}), status(429), status(500), status(503), hang_up]
)
async def test_openai_passing_faults_are_retried(api: FakeApi, fault: Handler) -> None:
    embedder = client(api)
    api.script = [fault, fault]
    assert (await embedder.embed_documents(["a"])).shape == (1, DIM)
    assert len(api.requests) == 3
    await embedder.aclose()


async def test_openai_timeouts_are_retried(api: FakeApi) -> None:
    embedder = client(api, timeout_s=0.3)
    api.script = [silence]
    assert (await embedder.embed_documents(["a"])).shape == (1, DIM)
    await embedder.aclose()


@pytest.mark.parametrize(
    ("fault", "said", "attempts"),
    [
        (status(401), r"refused the key \(HTTP 401\)", 1),
        (status(403), r"refused the key \(HTTP 403\)", 1),
        (status(404), "HTTP 404; check the model's name, and whether the URL is to end in /v1", 1),
        (status(429, **{"Retry-After": "inf"}), "rate limit or quota", 2),
        (status(500), "HTTP 500", 2),
        (text("{nonsense"), "no answer|no vectors", 1),
        (text("<html>hello</html>", "text/html"), "no vectors", 1),
        (text('{"data": []}'), "0 vectors for 1 texts", 1),
        (text('{"data": [{"index": 0, "embedding": [1, 2]}]}'), "length", 1),
        (text('{"data": [{"index": 0, "embedding": "%%%"}]}'), "length", 1),
        (text('{"data": [{"index": 0, "embedding": null}]}'), "length", 1),
        (text(json.dumps({"data": [{"index": 0, "embedding": [0.0] * DIM}]})), "zero", 1),
        (text('{"data": [{"index": 0, "embedding": [NaN,1,1,1,1,1,1,1]}]}'), "NaN", 1),
        (text('{"data": [{"index": 0, "embedding": [1e300,1,1,1,1,1,1,1]}]}'), "infinite", 1),
        (text('{"data": [{"index": 0, "embedding": [1e30,1,1,1,1,1,1,1]}]}'), "immense", 1),
        (text(json.dumps({"data": [{"index": 0, "embedding": [10**400] * DIM}]})), "no answer", 1),
    ],
)
async def test_openai_lasting_faults_are_clear(
    api: FakeApi, fault: Handler, said: str, attempts: int
) -> None:
    embedder = client(api, retries=1)
    api.script = [fault] * 5
    with pytest.raises(BackendError, match=said) as raised:
        await embedder.embed_queries(["a"])
    assert "sk-secret" not in str(raised.value)
    assert api.url not in raised.value.told
    assert raised.value.retry_after_s is None
    assert len(api.requests) == attempts
    await embedder.aclose()


async def test_openai_unreachable() -> None:
    embedder = OpenAIEmbedder("m", base_url="http://127.0.0.1:9/v1", dimensions=4, retries=0)
    with pytest.raises(BackendError, match="cannot be reached"):
        await embedder.embed_queries(["a"])
    await embedder.aclose()


async def test_openai_plain_number_lists_are_read(api: FakeApi) -> None:
    numbers = json.dumps({"data": [{"index": 0, "embedding": [2.0] + [0.0] * 7}]})
    api.script = [text(numbers)]
    embedder = client(api)
    found = await embedder.embed_queries(["a"])
    assert found[0, 0] == 1.0
    await embedder.aclose()


def test_openai_needs_a_key_or_a_url() -> None:
    with pytest.raises(ConfigError, match=r"OPENAI_API_KEY.*embedding_model: embedded"):
        make_embedder("text-embedding-3-small")
    with pytest.raises(ConfigError, match="dimension"):
        OpenAIEmbedder("unknown", api_key="k")


def test_openai_models_have_their_dimensions() -> None:
    settings = PartOptions(OpenAISettings(api_key="k"))
    small = make_embedder("text-embedding-3-small", options=settings)
    large = make_embedder("text-embedding-3-large", options=settings)
    shortened = PartOptions(OpenAISettings(api_key="k", dimensions=256))
    short = make_embedder("text-embedding-3-large", options=shortened)
    assert [e.dimension for e in (small, large, short) if e] == [1536, 3072, 256]
    assert len({e.identity for e in (small, large, short) if e}) == 3


def test_fastembed_knows_the_documented_models() -> None:
    mini = make_embedder("all-MiniLM-L6-v2")
    large = make_embedder("BAAI/bge-large-en-v1.5")
    assert [e.dimension for e in (mini, large) if e] == [384, 1024]


def test_fastembed_refuses_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model 'nonsense'"):
        make_embedder("nonsense")
    with pytest.raises(ConfigError, match=r"config\.json"):
        make_embedder(str(tmp_path))


def test_absent_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastembed", None)
    with pytest.raises(ConfigError, match=r"armory-mcp-gateway\[local\]"):
        FastembedEmbedder("all-MiniLM-L6-v2")
