"""Large calls at an upstream that does not answer.

Bounded: what they hold in all, for one caller and at one upstream.
"""

from __future__ import annotations

import asyncio
import sys

import pytest
from msgspec import Raw

from armory.config import load_text
from armory.domain.principal import Principal
from armory.errors import UpstreamOverloaded
from armory.protocol.link import Call, Owner
from armory.runtime import open_runtime
from armory.testing.waiting import until
from armory.upstreams.outflow import Outflow
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
SIZE = 300_000
GREEDY, SPARE = (Owner(Principal(name, user="eve")) for name in ("greedy", "spare"))
OTHER, THIRD = (Owner(Principal(name)) for name in ("other", "third"))
DEAF = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                 "serverInfo": {"name": "deaf", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": about}), flush=True)
    elif asked["method"] == "tools/call" and asked["params"]["name"] == "small":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {}}), flush=True)
"""


def call(name: str, size: int) -> Call:
    params = {"name": Raw(f'"{name}"'.encode()), "arguments": Raw(b'"%b"' % (b"x" * size))}
    return Call("tools/call", params, timeout_s=60)


def test_one_caller_and_one_upstream_have_half() -> None:
    outflow = Outflow(1_000)
    with outflow.holding("a", GREEDY, 300):
        with (
            pytest.raises(UpstreamOverloaded, match="this caller's alone hold half"),
            outflow.holding("b", SPARE, 300),
        ):
            pass
        with (
            pytest.raises(UpstreamOverloaded, match="those to 'a' alone hold half"),
            outflow.holding("a", OTHER, 300),
        ):
            pass
        with (
            outflow.holding("b", OTHER, 400),
            pytest.raises(UpstreamOverloaded, match="all together") as full,
            outflow.holding("c", THIRD, 400),
        ):
            pass
        assert "server.limits.outflow_bytes" in str(full.value)
        assert outflow.held == 300
    assert outflow.held == 0
    assert not outflow._by_holder  # pyright: ignore[reportPrivateUsage]


async def test_large_calls_at_an_upstream_that_does_not_answer() -> None:
    specs = [
        UpstreamSpec(key, command=sys.executable, args=("-c", DEAF), protocol="2025-11-25")
        for key in ("deaf", "good")
    ]
    pool = Pool(specs, outflow_bytes=4 * SIZE)
    outflow = pool._outflow  # pyright: ignore[reportPrivateUsage]
    first = asyncio.create_task(pool.request("deaf", GREEDY, call("large", SIZE)))
    await until(lambda: outflow.held > SIZE)
    with pytest.raises(UpstreamOverloaded):
        await pool.request("deaf", GREEDY, call("large", SIZE))
    assert (await pool.request("deaf", GREEDY, call("small", 100))).error is None
    assert (await pool.request("good", OTHER, call("small", SIZE))).error is None
    first.cancel()
    await asyncio.wait((first,), timeout=10)
    assert outflow.held == 0
    await pool.close()


async def test_the_limit_has_a_key() -> None:
    text = "server: {limits: {outflow_bytes: 9}}\ntool_rag: {enabled: false}"
    async with open_runtime(load_text(text, environ={})) as running:
        assert running.pool._outflow._limit == 9  # pyright: ignore[reportPrivateUsage]
