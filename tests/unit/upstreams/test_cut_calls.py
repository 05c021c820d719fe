"""Calls that are cut because the upstream is another one by now: they are told why."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.upstreams.exchange import Json, Request, ScriptState, Stop
from armory.testing.upstreams.http import HttpUpstream
from armory.upstreams import pool as pools
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
ANN = Owner(Principal("ann"))
BOUND_S = 20.0


@pytest.mark.parametrize("progress", [False, True])
@pytest.mark.parametrize("way", ["modern", "legacy", "sse"])
async def test_they_are_told_that_the_configuration_changed(
    monkeypatch: pytest.MonkeyPatch, way: str, progress: bool
) -> None:
    monkeypatch.setattr(pools, "_DRAIN_S", 0.0)
    over = asyncio.Event()

    async def hangs(script: ScriptState, request: Request) -> Json:
        if progress:
            said = {"level": "info", "data": "x"}
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": said}
            await request.wire.send(note)
        script.started.set()
        await over.wait()
        raise Stop

    eras = "legacy" if way == "sse" else way
    async with HttpUpstream(eras=eras) as server, HttpUpstream() as other:
        server.script.behaviour["hangs"] = hangs
        pool = Pool([UpstreamSpec("up", url=server.sse_url if way == "sse" else server.url)])
        params = {"name": Raw(b'"hangs"'), "arguments": Raw(b"{}")}
        call = Call("tools/call", params, name_header="hangs")
        running = asyncio.create_task(pool.request("up", ANN, call))
        try:
            await asyncio.wait_for(server.script.started.wait(), BOUND_S)
            await pool.update([UpstreamSpec("up", url=other.url)])
            with pytest.raises(UpstreamUnavailable, match="since the configuration changed"):
                await asyncio.wait_for(running, BOUND_S)
        finally:
            over.set()
            await pool.close()
