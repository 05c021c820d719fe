"""An embedder over HTTP in the library: in one event loop after the other, and by variables."""

from __future__ import annotations

import asyncio
import gc

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from armory import AsyncToolMemory
from armory.threads import LoopThread
from tests.contract.test_embedders import DIM, FakeApi, client


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what an ended loop leaves open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_each_event_loop_has_connections_of_its_own() -> None:
    served, fake = LoopThread("embeddings API"), FakeApi()

    async def serve() -> TestServer:
        app = web.Application()
        app.router.add_post("/v1/embeddings", fake.handle)
        server = TestServer(app)
        await server.start_server()
        fake.url = str(server.make_url("/v1"))
        return server

    server = served.run(serve())
    made = client(fake)
    for _ in range(3):
        assert asyncio.run(made.embed_queries(["a text"])).shape == (1, DIM)
    asyncio.run(made.aclose())
    served.run(server.close())
    served.end(10)
    gc.collect()


@pytest.mark.anyio
async def test_the_library_goes_by_the_url_that_openais_own_libraries_go_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, app = FakeApi(), web.Application()
    app.router.add_post("/v1/embeddings", fake.handle)
    async with TestServer(app) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", str(server.make_url("/v1")))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
        async with AsyncToolMemory(embedder="text-embedding-3-small") as memory:
            memory.add({"name": "get_weather", "description": "Weather of a city"})
            assert await memory.select_tools_for_query("weather")
    assert set(fake.keys) == {"Bearer sk-own"}
