"""What the gateway refuses without forwarding it says nothing of how a tool fares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from armory.accounts.service import Accounts
from armory.errors import (
    ArmoryError,
    BackendError,
    LoginNeeded,
    UpstreamOverloaded,
    UpstreamPaused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.gateway.gateway import Gateway, Services
from armory.protocol.link import Call, Owner, Reply
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.testing.front import raws

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "uses"),
    [
        (UpstreamPaused("failed too often", upstream="up", retry_after_s=30.0), 0),
        (UpstreamOverloaded("up is busy", upstream="up", retry_after_s=1.0), 0),
        (LoginNeeded("log in first", upstream="up"), 0),
        (BackendError("redis is away"), 0),
        (UpstreamUnavailable("up died", upstream="up"), 1),
        (UpstreamTimeout("up did not answer", upstream="up"), 1),
    ],
)
async def test_only_forwarded_calls_are_counted(
    bench: Bench, tmp_path: Path, error: ArmoryError, uses: int
) -> None:
    async def answer(call: Call, owner: Owner) -> Reply:
        raise error

    bench.pool.upstreams["up"].answer = answer
    accounts = Accounts(Database(f"sqlite:///{tmp_path / 'armory.db'}"), MemoryCache())
    await accounts.open()
    try:
        gateway = Gateway(bench.pool, bench.retriever, services=Services(events=accounts))
        gateway.publish(bench.gateway.view.catalog)
        with pytest.raises(type(error)):
            await gateway.tool_calls.call(
                bench.context(), raws({"name": "up__tool0"}), raising=True
            )
        await accounts.flush()
        await accounts.usage.refresh()
        counted = accounts.usage.tool("up__tool0")
        assert (0 if counted is None else counted.uses) == uses
    finally:
        await accounts.close()
