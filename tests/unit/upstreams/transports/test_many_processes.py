"""A thousand stdio sessions, some of which crash or start helpers of their own: nothing remains."""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clock import FakeClock
from armory.testing.waiting import until
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are counted in /proc"),
]

SESSIONS, AT_ONCE = 1_000, 50

# As small as a server can be: a shell that answers each line, with a helper process beside it. Its
# zeroth argument marks it and the helper.
SERVER = r"""
sleep 1000 &
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},
"serverInfo":{"name":"sh","version":"1"}}';;
    *'"crash"'*) exit 3;;
    *'"id"'*) result='{"content":[]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(echo $result)"
done
"""


def marked(mark: str) -> list[str]:
    """Processes, zombies included, that carry the mark in their environment or command."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:  # gone, or somebody else's
            continue
    return found


def children() -> set[str]:
    """Children of this process, zombies included."""
    files = Path("/proc/self/task").glob("*/children")
    return {pid for file in files for pid in file.read_text().split()}


@pytest.mark.timeout(300)
async def test_a_thousand_sessions_leave_no_process_behind() -> None:
    mark, before = uuid.uuid4().hex, children()
    spec = UpstreamSpec(
        "up",
        command="sh",
        args=("-c", SERVER),
        env={"ARMORY_TEST_MARK": mark},
        protocol="2025-11-25",
        max_sessions=AT_ONCE + 1,
        max_concurrency=AT_ONCE,
        breaker_failures=SESSIONS,
    )
    clock = FakeClock()
    pool = Pool([spec], clock=clock)

    async def use(number: int) -> bool:
        tool = "crash" if number % 10 == 7 else "echo"
        call = Call("tools/call", {"name": Raw(f'"{tool}"'.encode())})
        try:
            await pool.request("up", Owner(Principal(f"user-{number}")), call)
        except UpstreamUnavailable:
            return tool == "crash"
        return tool == "echo"

    most = 0
    for start in range(0, SESSIONS, AT_ONCE):
        assert all(await asyncio.gather(*(use(n) for n in range(start, start + AT_ONCE))))
        most = max(most, pool.status()["up"].sessions.open)
        if start == 0:
            assert len(marked(mark)) >= AT_ONCE  # the mark is found at all
        await until(lambda: clock.sleeping > 0, 60)
        await clock.advance(2 * spec.idle_timeout_s)
        await until(lambda: pool.status()["up"].sessions.open == 0, 60)
    assert 0 < most <= AT_ONCE
    await pool.close()
    # what was killed is gone a moment later, when the kernel has taken it down
    await until(lambda: marked(mark) == [] and children() <= before, 30)
