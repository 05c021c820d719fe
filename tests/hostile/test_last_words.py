"""What a process wrote to standard error is told to whom it serves, and to no other principal.

It tends to be what that one asked. Each has a process of its own, of one and the same upstream.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.protocol.rawjson import pack
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
SERVER = """
import json, sys

def complain(text):
    print(text, file=sys.stderr, flush=True)

if sys.argv[1] == "starts-slowly":
    if sys.argv[2].startswith("ann"):
        complain("INFO fetching the mails of ann")
    sys.stdin.read()
for line in sys.stdin:
    said = json.loads(line)
    method, id, result = said.get("method"), said.get("id"), {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"}}
    elif method == "tools/call" and said["params"]["name"] == "die":
        sys.exit(3)
    elif method == "tools/call":
        complain(f"ERROR: no mail of {said['params']['name']}")
        result = {"content": []}
    if id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"""
ANN, BEN = Owner(Principal("ann")), Owner(Principal("ben"))


@pytest.fixture(params=["as usual"])
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    args = ("-c", SERVER, request.param, "${principal}")
    made = Pool([UpstreamSpec("up", command=sys.executable, args=args, protocol="2025-11-25")])
    yield made
    await made.close()


async def call(pool: Pool, owner: Owner, tool: str, within_s: float = 20.0) -> None:
    params = {"name": pack(tool), "arguments": Raw(b"{}")}
    await pool.request("up", owner, Call("tools/call", params, timeout_s=within_s))


async def test_at_its_end_nobody_is_told_what_the_process_of_another_one_said(pool: Pool) -> None:
    await call(pool, BEN, "spam")
    await call(pool, ANN, "her-lawyer")
    lines = pool.upstream("up").errors.lines
    await until(lambda: len(lines()) == 2)  # administrators are told all of it
    with pytest.raises(UpstreamUnavailable, match=r"it said: ERROR: no mail of spam$"):
        await call(pool, BEN, "die")
    with pytest.raises(UpstreamUnavailable, match=r"it said: ERROR: no mail of her-lawyer$"):
        await call(pool, ANN, "die")


@pytest.mark.parametrize("pool", ["starts-slowly"], indirect=True)
async def test_while_it_starts_nobody_is_told_what_that_of_another_one_says(pool: Pool) -> None:
    anns = asyncio.ensure_future(call(pool, ANN, "her-lawyer"))
    try:
        lines = pool.upstream("up").errors.lines
        await until(lambda: len(lines()) == 1)
        with pytest.raises(UpstreamTimeout) as told:
            await call(pool, BEN, "spam", within_s=1.0)
        assert "has not answered yet" in str(told.value)
        assert "mails of ann" not in str(told.value)
    finally:
        anns.cancel()
        await asyncio.wait([anns])
