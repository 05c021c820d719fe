"""An answer that becomes a stream where something comes before the result."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import ClientGone
from armory.testing.service import QUICK_END
from armory.testing.serving import listen
from armory.web.app import make_app
from armory.web.binding import bind
from armory.wire.caller import Caller
from armory.wire.http.admitted import AdmittedRequest
from armory.wire.http.keepalive import KeepaliveTimer
from armory.wire.http.lazy_answer import LazyAnswer

pytestmark = pytest.mark.anyio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def cut_off(handle: Handler, ended: asyncio.Event) -> None:
    """Ask a server whose handler cuts its client off, and wait until it has `ended`."""
    app = make_app(body_bytes=1 << 20)
    app.router.add_post("/mcp", handle)
    listening = await listen(app, bind("127.0.0.1", 0), settings=QUICK_END)
    try:
        async with aiohttp.ClientSession() as http:
            with pytest.raises(aiohttp.ClientError):
                async with http.post(f"http://127.0.0.1:{listening.port}/mcp") as response:
                    await response.read()
            await asyncio.wait_for(ended.wait(), 10)
    finally:
        await listening.close()


async def test_a_client_that_has_just_gone_is_said_to_be_gone() -> None:
    """Its request is cancelled soon; what is said meanwhile must not fail as an upstream would."""
    failures: list[Exception] = []
    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        admitted = AdmittedRequest(request, request.protocol, Caller(ANONYMOUS), {})
        answer = LazyAnswer(admitted, KeepaliveTimer())
        try:
            await answer.event(b"{}")
            assert request.transport is not None
            request.transport.abort()
            await answer.event(b"{}")
        except Exception as failure:
            failures.append(failure)
            raise
        finally:
            answer.stop()
            ended.set()
        return web.Response()

    await cut_off(handle, ended)
    assert [type(failure) for failure in failures] == [ClientGone]


async def test_headers_that_nobody_waits_for_any_more_fail_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        admitted = AdmittedRequest(request, request.protocol, Caller(ANONYMOUS), {})
        answer = LazyAnswer(admitted, KeepaliveTimer())
        assert request.transport is not None
        request.transport.abort()
        try:
            await answer.event(b"{}")  # is cancelled, since its client has gone
        finally:
            answer.stop()
            ended.set()
        return web.Response()

    await cut_off(handle, ended)
    gc.collect()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
