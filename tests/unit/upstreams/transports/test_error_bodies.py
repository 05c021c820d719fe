"""What the bodies of HTTP errors say, that 401 and 403 read as what they are, and why a stream
could not be read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingObserver
from armory.testing.waiting import until
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor
from armory.upstreams.transports.error_bodies import error_text

pytestmark = pytest.mark.anyio

OAUTH = '{"error": "invalid_token", "error_description": "The access token expired"}'
ENVELOPE = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "log in first"}}'
Url = Callable[[int, str], str]


@pytest.fixture
async def url() -> AsyncIterator[Url]:
    answers: list[tuple[int, str]] = []

    async def answer(_request: web.Request) -> web.Response:
        status, body = answers[-1]
        kind = "application/json" if body[:1] in "{[" else "text/html"
        return web.Response(status=status, text=body, content_type=kind)

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()

    def made(status: int, body: str) -> str:
        answers.append((status, body))
        return f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"

    yield made
    await runner.cleanup()


@pytest.mark.parametrize("protocol", ["auto", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, OAUTH, "invalid_token: The access token expired"),
        (401, ENVELOPE, "log in first"),
        (401, "", "HTTP 401. Give"),
        (403, "<html><head><title>Forbidden</title></head></html>", "(Forbidden)"),
    ],
)
async def test_a_server_that_wants_a_login_is_told_as_that(
    url: Url, protocol: str, status: int, body: str, said: str
) -> None:
    connector = Connector(UpstreamSpec("docs", url=url(status, body), protocol=protocol), {})
    with pytest.raises(UpstreamUnavailable) as failed:
        await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    await connector.close()
    text = str(failed.value)
    assert text.startswith(f"upstream 'docs' wants a login: it answered HTTP {status}")
    assert said in text
    assert "armory login docs" in text
    assert "upstreams.docs.auth" in text
    assert failed.value.code == "login_required"


async def test_any_other_error_with_a_json_body_is_an_http_error(url: Url) -> None:
    where = url(500, '{"error": "the database is away"}')
    connector = Connector(UpstreamSpec("docs", url=where), {})
    with pytest.raises(UpstreamUnavailable, match=r"answered HTTP 500 \(the database is away\)"):
        await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    await connector.close()


async def test_the_state_of_such_an_upstream_is_login_required(url: Url) -> None:
    pool = Pool([UpstreamSpec("docs", url=url(401, OAUTH))])
    supervisor = Supervisor(pool, lambda _server, _lists: None)
    await supervisor.start()
    await until(lambda: supervisor.status()["docs"].state == "login_required")
    await supervisor.stop()
    await pool.close()


@pytest.mark.parametrize("protocol", ["auto", "2025-11-25", "2026-07-28"])
async def test_a_stream_in_a_coding_that_is_not_known_is_told_as_that(protocol: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        coded = {"Content-Type": "text/event-stream", "Content-Encoding": "zstd"}
        return web.Response(body=b"(\xb5/\xfd", headers=coded)

    app = web.Application()
    app.router.add_post("/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    at = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    connector = Connector(UpstreamSpec("up", url=at, protocol=protocol), {"name": "t"})
    try:
        with pytest.raises(UpstreamUnavailable, match="coding 'zstd', which was not asked for"):
            await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    finally:
        await connector.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"code": 7, "message": "no such model"}}', "no such model"),
        (b'{"title": "Bad", "detail": "too  long"}', "too long: Bad"),
        (b'{"errors": [{"message": "first"}, {"message": "second"}]}', "first"),
        (b"<p>Service   <b>down</b></p>", "Service down"),
        (b"Bearer abcdefgh12345 is wrong", "Bearer *** is wrong"),
        (b'"text"', "text"),
        (b"[" * 5_000, None),
        (b"", ""),
    ],
)
async def test_what_a_body_says(body: bytes, said: str | None) -> None:
    assert said is None or error_text(body) == said
