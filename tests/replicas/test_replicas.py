"""Three replicas in network namespaces: restarted, killed and cut off under load."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.testing.clients.raw import LegacyClient
from tests.replicas.balancer import Balancer
from tests.replicas.net import PORT, Net, cannot

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(900),
    pytest.mark.redis,
    pytest.mark.postgres,
]
RATE = float(os.environ.get("ARMORY_TEST_RATE", "60"))
ROUNDS = int(os.environ.get("ARMORY_TEST_RESTARTS", "1"))
DRIVER = Path(__file__).with_name("driver.py")
SESSIONS = 12


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if (why := cannot()) is not None:
        pytest.skip(why)
    with Net(tmp_path_factory.mktemp("replicas"), 3) as made:
        config = made.config()
        for replica in made.replicas:
            replica.start(config)
        yield made


@pytest.fixture
async def balancer(net: Net) -> AsyncIterator[Balancer]:
    async with Balancer(net.targets) as made:
        await made.wait_ready(3)
        yield made


class Load:
    """A driver that runs beside the test."""

    def __init__(self, folder: Path) -> None:
        self.told: dict[str, Any] = {}
        self.stop = folder / "stop"
        self.begun = folder / "begun"


@asynccontextmanager
async def load(balancer: Balancer, folder: Path, *more: str) -> AsyncGenerator[Load]:
    """Call through the balancer for as long as the context lasts."""
    made = Load(folder)
    command = [sys.executable, str(DRIVER), "--url", f"http://127.0.0.1:{balancer.port}/mcp"]
    command += ["--tool", "plain__echo", "--stop", str(made.stop), "--rate", str(RATE)]
    command += ["--sessions", str(SESSIONS), "--begun", str(made.begun), *more]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=-1, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        async with asyncio.timeout(90):
            while process.returncode is None and not made.begun.exists():  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.02)
        yield made
    finally:
        made.stop.touch()
        said, _ = await asyncio.wait_for(process.communicate(), 90)
    assert process.returncode == 0
    made.told = json.loads(said)
    report(made.told)


def report(told: dict[str, Any]) -> None:
    """Kept where somebody wants the figures."""
    if place := os.environ.get("ARMORY_TEST_FIGURES"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": os.environ["PYTEST_CURRENT_TEST"], **told}) + "\n")


async def test_a_rolling_restart_under_load_loses_no_call(
    net: Net, balancer: Balancer, tmp_path: Path
) -> None:
    config = net.config()
    async with load(balancer, tmp_path) as running:
        await asyncio.sleep(1)
        for _ in range(ROUNDS):
            for replica in net.replicas:
                assert await asyncio.to_thread(replica.stop) == 0
                replica.start(config)
                await balancer.wait_ready(3)
    told = running.told
    assert told["failed"] == 0, (json.dumps(told), balancer.gave_up)
    assert told["modern"] > RATE * 5
    assert told["legacy"] > RATE * 2
    assert told["sessions_ended"] > 0  # a session ends with its replica, once
    # each of a replica's sessions ends once with it: never again without another restart
    assert told["sessions_ended"] <= SESSIONS * 3 * ROUNDS


async def test_a_session_is_found_from_any_replica(net: Net, balancer: Balancer) -> None:
    async with aiohttp.ClientSession() as http:
        first, *others = [f"http://{replica.address}:{PORT}/mcp" for replica in net.replicas]
        begun = LegacyClient(first, http, "2025-11-25")
        await begun.initialize({})
        for url in others:
            elsewhere = LegacyClient(url, http, "2025-11-25", begun.session, 10)
            assert len((await elsewhere.request("tools/list"))["result"]["tools"]) > 10


async def test_a_killed_replica_costs_what_was_under_way_and_nothing_later(
    net: Net, balancer: Balancer, tmp_path: Path
) -> None:
    async with load(balancer, tmp_path, "--timeout", "10") as running:
        await asyncio.sleep(2)
        net.replicas[0].kill()
        await balancer.wait_ready(2)
        await asyncio.sleep(4)
        net.replicas[0].start(net.config())
        await balancer.wait_ready(3)
    told = running.told
    # connections that stood, and those that came before the balancer knew
    assert told["failed"] < RATE * 2, told
    assert all(at < 5 for at in told["failed_at_s"]), told
    assert "just begun" not in str(told["errors"]), told


async def test_a_replica_that_is_cut_off_is_done_without_and_comes_back(
    net: Net, balancer: Balancer, tmp_path: Path
) -> None:
    """Calls that wait for it fail with the client's timeout; nothing hangs for ever."""
    async with load(balancer, tmp_path, "--timeout", "5") as running:
        await asyncio.sleep(2)
        net.replicas[1].cut_off(True)
        await balancer.wait_ready(2)
        # sessions of the lost replica are known to be lost once it has shown no sign of life
        await asyncio.sleep(25)
        net.replicas[1].cut_off(False)
        await balancer.wait_ready(3)
    told = running.told
    late = [at for at in told["failed_at_s"] if at > 2 + 20]
    assert late == [], told
    assert "just begun" not in str(told["errors"]), told
