"""An error is gone once it was told: nothing that failed waits, by its trace, for the garbage
collector (`tests/test_tracebacks.py` looks for such frames; these are those that users meet).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress

import pytest
from msgspec import Raw

from armory.authserver.errors import OAuthError
from armory.authserver.requests import Returned
from armory.domain.principal import INTERNAL, Principal
from armory.errors import AuthenticationFailed, BackendError, UpstreamUnavailable
from armory.gateway.endpoint import Endpoint
from armory.gateway.gateway import Gateway
from armory.gateway.requests import ClientRequest
from armory.http1.pool import Connections
from armory.protocol.link import Call, ClientGone, Owner
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.ports import FloatArray
from armory.security.authentication import Authenticator
from armory.security.expiry import while_authorized
from armory.testing.clients.recording import RecordingClient, RecordingObserver
from armory.testing.embedder import HashingEmbedder
from armory.testing.front import ScriptedPool, WordRetriever
from armory.testing.oauth_client import CALLBACK, App
from armory.testing.people import World
from armory.testing.servers import free_port
from armory.testing.upstreams.http import HttpUpstream
from armory.upstreams.clock import SystemClock
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.link_pool import LinkPool
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import HttpClient
from armory.wire.listening import ClientListening, start_listening
from armory.wire.sessions.asking import OpenQuestions
from armory.wire.streams import EventStream, Outlet
from tests.garbage import Gone
from tests.hostile.authorization import proxied

pytestmark = pytest.mark.anyio
MODERN = "2026-07-28"
CLIENT = {"name": "test", "version": "0"}
SCRIPTED = "armory.testing.upstreams.stdio"
PATH = {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def links(spec: UpstreamSpec) -> LinkPool:
    connector = Connector(spec, CLIENT)
    return LinkPool(spec, connector, RecordingObserver(), SystemClock(), StartTurns())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_that_nobody_listens(gone: Gone, host: str) -> None:
    spec = UpstreamSpec("up", url=f"http://{host}:{free_port()}/mcp")
    connections = Connections(True, 5.0, 4.0)
    try:
        with suppress(UpstreamUnavailable):
            await HttpClient(spec, connections, None).send("GET", {}, None, 5.0)
        await gone(UpstreamUnavailable)
        await gone(OSError)
    finally:
        connections.close()


@pytest.mark.parametrize("tool", ["crash", "loose"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_that_a_call_failed(gone: Gone, era: str, tool: str) -> None:
    async with HttpUpstream(eras=era) as upstream:
        pool = links(UpstreamSpec("up", url=upstream.url))
        _, link = await pool.opened(Owner(INTERNAL), {})
        params = {"name": Raw(f'"{tool}"'.encode()), "arguments": Raw(b'{"error": null}')}
        try:
            await link.request(Call("tools/call", params, RecordingClient(), name_header=tool))
        except UpstreamUnavailable:
            del link
        await pool.close()
        await gone(UpstreamUnavailable)


@pytest.mark.parametrize("how", ["--exit-at-start", "--exit-on-unknown"])
async def test_that_a_process_is_not_as_expected(gone: Gone, how: str) -> None:
    args = ("-m", SCRIPTED, "--era", "legacy", how)
    pool = links(UpstreamSpec("up", command=sys.executable, args=args, env=PATH))
    with suppress(UpstreamUnavailable):
        await pool.opened(Owner(INTERNAL), {})
    await pool.close()
    await gone(UpstreamUnavailable)


async def test_that_a_stream_names_no_endpoint(gone: Gone) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head + b": nothing\n\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    pool = links(UpstreamSpec("up", url=url, transport="sse"))
    with pytest.raises(UpstreamUnavailable, match="ended its event stream"):
        await pool.opened(Owner(INTERNAL), {})
    await pool.close()
    server.close()
    await gone(UpstreamUnavailable)
    await gone(BaseLink)


class Broken(HashingEmbedder):
    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        raise BackendError(f"not {len(texts)}")


async def test_that_queries_cannot_be_embedded(gone: Gone) -> None:
    embedder = CachedEmbedder(Broken())
    with suppress(BackendError):
        await embedder.embed_queries(["one", "two"])
    await gone(BackendError)


async def test_that_a_credential_ended(gone: Gone) -> None:
    async def ask() -> Principal:
        raise AuthenticationFailed("it has expired")

    authenticator = Authenticator(allow_anonymous=True)
    with suppress(AuthenticationFailed):
        async with while_authorized(authenticator, ask):
            authenticator.ended()
            await asyncio.wait_for(asyncio.Event().wait(), 30)
    await gone(AuthenticationFailed)


class Listener:
    def read_now(self, wanted: Outlet) -> Outlet:
        return wanted


async def test_that_nobody_is_sent_back_with_an_error(world: World, gone: Gone) -> None:
    async with proxied(world) as url, App(url) as app:
        page = "https://app.example/back"
        await app.register(redirect_uris=[page, CALLBACK])
        status, _ = await app.authorize(redirect_uri=page, prompt="none")
        assert status == 400
        await gone(OAuthError)
        await gone(Returned)


async def test_that_whoever_ends_listening_is_cancelled(gone: Gone) -> None:
    gateway = Gateway(ScriptedPool(), WordRetriever())
    client = RecordingClient()
    request = ClientRequest(INTERNAL, client, "modern", MODERN, Endpoint())
    context = await gateway.context(request)
    wanted = {"notifications": Raw(b'{"toolsListChanged": true}')}
    listening = await start_listening(gateway, context, b"1", wanted)
    ending = asyncio.create_task(listening.end())
    await asyncio.sleep(0)
    ending.cancel()
    with suppress(asyncio.CancelledError):
        await ending
    del listening, ending
    await gone(ClientListening)


async def test_that_a_client_answers_nothing_any_more(gone: Gone) -> None:
    client, stream = Listener(), EventStream("0")
    questions = OpenQuestions(client)

    async def ask() -> None:
        with suppress(ClientGone):
            await questions.ask(stream, "roots/list", {})

    async with asyncio.TaskGroup() as asking:
        asking.create_task(ask())
        await asyncio.sleep(0)
        questions.hang_up()
    await gone(ClientGone)
