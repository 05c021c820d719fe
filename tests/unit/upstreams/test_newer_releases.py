"""Stdio servers whose launcher starts another release than it did before."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.protocol.link import Call, Owner
from armory.testing.waiting import until
from armory.upstreams.connecting.releases import Releases
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor

pytestmark = pytest.mark.anyio
PROGRAM = """
import json, os, pathlib, sys
release = pathlib.Path(sys.argv[1]).read_text() or str(os.getpid())
about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
         "serverInfo": {"name": "up", "version": release}}
tool = {"name": "tool-of-" + release, "inputSchema": {"type": "object"}}
answers = {"initialize": about, "tools/list": {"tools": [tool]}, "tools/call": {"content": []}}
for line in sys.stdin:
    message = json.loads(line)
    known = answers.get(message.get("method"))
    answer = {"error": {"code": -32601, "message": "?"}} if known is None else {"result": known}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@asynccontextmanager
async def keeping(release: Path) -> AsyncGenerator[tuple[Pool, Supervisor]]:
    spec = UpstreamSpec("up", command=sys.executable, args=("-c", PROGRAM, str(release)))
    pool = Pool([spec])
    supervisor = Supervisor(pool, lambda _server, _lists: None)
    await supervisor.start()
    try:
        assert await supervisor.wait_first(30)
        yield pool, supervisor
    finally:
        await supervisor.stop()
        await pool.close()


async def called(pool: Pool, user: str) -> None:
    call = Call("tools/call", {"name": Raw(b'"x"')}, name_header="x")
    assert (await pool.request("up", Owner(Principal(user)), call)).error is None


def listed(supervisor: Supervisor) -> list[str]:
    return [tool["name"] for tool in supervisor.lists()["up"].tools]


async def test_tools_are_those_of_the_release_that_is_called(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.write_text("1")
    async with keeping(release) as (pool, supervisor):
        await called(pool, "ann")
        assert listed(supervisor) == ["tool-of-1"]
        for newer in ("2", "3"):
            release.write_text(newer)
            await called(pool, f"bob{newer}")
            await until(lambda newer=newer: listed(supervisor) == [f"tool-of-{newer}"])
            await until(lambda: supervisor.status()["up"].state == "ready")


async def test_one_that_is_another_each_time_is_started_anew_once(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.write_text("")
    async with keeping(release) as (pool, supervisor):
        for number in range(3):
            before = listed(supervisor)
            await called(pool, f"user{number}")
            if not number:
                await until(lambda before=before: listed(supervisor) != before)
                await until(lambda: supervisor.status()["up"].state == "ready")
        assert supervisor.status()["up"].restarts == 1


def test_the_release_is_told_from_what_means_nothing() -> None:
    one, two, three = ({"version": version} for version in "123")
    releases = Releases()
    releases.own_started(one)
    assert not releases.outdated(one, one)
    assert releases.outdated(one, two)
    assert not releases.outdated(one, two)
    releases.own_started(two)
    assert releases.outdated(two, three)
    releases.own_started(one)
    assert not releases.outdated(one, three)
