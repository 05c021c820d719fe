"""What HTTP upstreams say unasked, or in the midst of a call, when it is not heard as usual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, ClientGone, Owner, Params
from armory.testing.clients.recording import RecordingClient, RecordingObserver
from armory.testing.upstreams.exchange import Json, Request, ScriptState, notification
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.waiting import until
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
INFO = {"name": "test", "version": "0"}


@asynccontextmanager
async def linked(
    eras: str,
) -> AsyncGenerator[tuple[BaseLink, HttpUpstream, RecordingObserver]]:
    async with HttpUpstream(eras=eras) as server:
        observer = RecordingObserver()
        connector = Connector(UpstreamSpec("up", url=server.url), INFO)
        link = await connector.connect(Owner(ANONYMOUS), {}, observer)
        yield link, server, observer
        await link.close()
        await connector.close()


class Leaving(RecordingClient):
    """Is gone when it is told of anything."""

    async def notify(self, method: str, params: Params) -> None:
        await super().notify(method, params)
        raise ClientGone


@pytest.mark.parametrize("eras", ["modern", "legacy"])
async def test_what_was_for_a_client_that_has_gone_is_for_nobody(eras: str) -> None:
    async def tell(_script: ScriptState, request: Request) -> Json:
        for method in ("notifications/message", "notifications/message", "notifications/x"):
            await request.wire.send(notification(method, {"level": "error", "data": "hers"}))
        return {"content": []}

    async with linked(eras) as (link, server, observer):
        server.script.behaviour["tell"] = tell
        client = Leaving(log_level="debug")
        params = {"name": Raw(b'"tell"'), "arguments": Raw(b"{}")}
        reply = await link.request(Call("tools/call", params, client, name_header="tell"))
        assert reply.error is None
        assert len(client.notes) == 1
        assert observer.notified == []


async def test_what_it_refuses_to_watch_does_not_cost_what_it_told_of_before() -> None:
    async with linked("modern") as (link, server, observer):
        assert await link.subscriptions.watch_lists()
        server.unknown = {"mem://none"}
        with pytest.raises(UpstreamUnavailable):
            await link.subscriptions.set_resources(frozenset({"mem://none"}))
        server.end_streams()
        await observer.until(lambda: "notifications/tools/list_changed" in observer.methods)
        await until(lambda: len(server.listens) == 1)


class Slow(HttpUpstream):
    """Lets who listens wait until it may."""

    def __init__(self) -> None:
        super().__init__(eras="modern")
        self.begun, self.may = asyncio.Event(), asyncio.Event()

    async def _listen(self, http: web.Request, message: Json) -> web.StreamResponse:
        self.begun.set()
        await self.may.wait()
        return await super()._listen(http, message)


async def test_what_is_listened_to_while_a_link_is_closed_ends_as_well() -> None:
    server = Slow()
    async with server:
        connector = Connector(UpstreamSpec("up", url=server.url), INFO)
        link = await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        watching = asyncio.create_task(link.subscriptions.watch_lists())
        await asyncio.wait_for(server.begun.wait(), 10)
        await link.close()
        server.may.set()
        assert await asyncio.wait_for(watching, 10) is False
        await until(lambda: not server.listens)
        await connector.close()
